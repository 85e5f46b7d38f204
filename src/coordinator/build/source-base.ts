import { WavesmithError } from "../../domain/errors.ts";
import type { ProjectId } from "../../domain/ids.ts";
import { canResolve } from "../../domain/plan/merge-task.ts";
import type { Plan } from "../../domain/plan/plan.ts";
import type { SourceState } from "../../workspace/port.ts";
import type { Ports } from "../port.ts";
import { joiner } from "../wave/merge-branches.ts";

// A project continues from its own main. If its source has moved on since, the build starts from a
// merge of both; main itself moves when the first wave with that merge has passed its gates (W3).

/** Where a build begins, and how its source compares with the project's main. */
export interface BuildBase {
  readonly state: SourceState;
  readonly head: string;
  /**
   * Paths in which the source and main conflict; empty when they do not, or need not be merged. The
   * head has them with conflict markers if the build can resolve them.
   */
  readonly conflicts: readonly string[];
  /** Whether the build resolves the conflicts in its first wave. */
  readonly isResolved: boolean;
}

interface BaseRequest {
  readonly projectId: ProjectId;
  readonly plan: Plan;
  /** The build's brief; null: it was given a plan. */
  readonly brief: unknown;
  /** Fixed, so that merging again gives the same commit. */
  readonly date: Date;
}

/**
 * Finds where a build of this plan begins; null when its project is new. Moves no ref. Fails with
 * `conflict` when a merge was asked for and there is no common history.
 */
export async function findBase({ workspace }: Ports, request: BaseRequest): Promise<BuildBase | null> {
  const { projectId, plan, brief, date } = request;
  const { source, generated } = plan;
  const state = await workspace.compareSource(projectId, source);
  if (state === null) return null;
  const { main, commit, relation } = state;
  const update = source.kind === "empty" ? undefined : source.update;
  const stays = { state, head: main, conflicts: [], isResolved: false };
  if (update === undefined || commit === null) return stays;
  if (relation === "ahead") return { ...stays, head: commit };
  if (update === "forward" || relation === "same") return stays;
  if (relation === "unrelated") throw unrelated();
  const isResolved = canResolve({ plan, brief });
  const { head, conflicts } = await workspace.join({
    projectId,
    base: main,
    branches: [{ taskKey: "source", title: "the source", commit }],
    generated: generated.map(({ path }) => path),
    date,
    author: joiner,
    message: () => "Merge the source\n",
    marks: isResolved,
  });
  return { state, head, conflicts: conflicts.flatMap(({ paths }) => paths), isResolved };
}

const unrelated = (): WavesmithError =>
  new WavesmithError("conflict", "the source shares no history with the project, so it cannot be merged", {
    remedy: "start a new project: --project NAME",
  });

/** The first of the paths that conflict, on one line. */
export function conflictsText({ conflicts }: BuildBase): string {
  const more = conflicts.length > 5 ? ` and ${conflicts.length - 5} more` : "";
  return `${conflicts.slice(0, 5).join(", ")}${more}`;
}

/**
 * Fails with `conflict`, naming the paths, when the source and main conflict and the build cannot
 * resolve that. A repository has the project's work on `branch`.
 */
export function refuseConflicts(base: BuildBase, { kind }: Plan["source"], branch: string): void {
  if (base.conflicts.length === 0 || base.isResolved) return;
  const byHand =
    kind === "repository"
      ? `merge the project's branch in your repository (git merge ${branch}), resolve and commit there, then build again`
      : "merge the project's main into the source, resolve and commit there, then build again";
  throw new WavesmithError("conflict", `the source conflicts with what the project built, in ${conflictsText(base)}`, {
    remedy: `${byHand}; or give the plan a fixer (agents.fixer), which resolves it first; or start a new project: --project NAME`,
  });
}
