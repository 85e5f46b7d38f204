import { WavesmithError } from "../../domain/errors.ts";
import type { ProjectId } from "../../domain/ids.ts";
import type { Plan } from "../../domain/plan/plan.ts";
import type { SourceState } from "../../workspace/port.ts";
import type { Ports } from "../port.ts";
import { joiner } from "../wave/merge-branches.ts";

// A project goes on from its own main. A source that has moved on since is taken in where the build
// begins: main itself moves when the first wave with it has passed its gates (W3).

/** Where a build begins, and how its source compares with the project's main. */
export interface BuildBase {
  readonly state: SourceState;
  readonly head: string;
  /** Paths in which the source and main cannot be merged; empty when they can, or need not be. */
  readonly conflicts: readonly string[];
}

interface BaseRequest {
  readonly projectId: ProjectId;
  readonly plan: Pick<Plan, "source" | "generated">;
  /** Fixed, so that merging again gives the same commit. */
  readonly date: Date;
}

/**
 * Finds where a build of this plan begins; null when its project is new. Moves no ref. Fails with
 * `conflict` when a merge was asked for and there is no common history.
 */
export async function findBase({ workspace }: Ports, request: BaseRequest): Promise<BuildBase | null> {
  const { projectId, plan, date } = request;
  const { source, generated } = plan;
  const state = await workspace.compareSource(projectId, source);
  if (state === null) return null;
  const { main, commit, relation } = state;
  const update = source.kind === "empty" ? undefined : source.update;
  const stays = { state, head: main, conflicts: [] };
  if (update === undefined || commit === null) return stays;
  if (relation === "ahead") return { ...stays, head: commit };
  if (update === "forward" || relation === "same") return stays;
  if (relation === "unrelated") throw unrelated();
  const { head, conflicts } = await workspace.join({
    projectId,
    base: main,
    branches: [{ taskKey: "source", title: "the source", commit }],
    generated: generated.map(({ path }) => path),
    date,
    author: joiner,
    message: () => "Merge the source\n",
  });
  return { state, head, conflicts: conflicts.flatMap(({ paths }) => paths) };
}

const unrelated = (): WavesmithError =>
  new WavesmithError("conflict", "the source shares no history with the project, so it cannot be merged", {
    remedy: "start a new project: --project NAME",
  });

/**
 * Fails with `conflict`, naming the paths, when the source and main cannot be merged. A repository
 * has the project's work on `branch`.
 */
export function refuseConflicts({ conflicts }: BuildBase, { kind }: Plan["source"], branch: string): void {
  if (conflicts.length === 0) return;
  const shown = conflicts.slice(0, 5).join(", ");
  const more = conflicts.length > 5 ? ` and ${conflicts.length - 5} more` : "";
  const byHand =
    kind === "repository"
      ? `merge the project's branch in your repository (git merge ${branch}), resolve and commit there, then build again`
      : "merge the project's main into the source, resolve and commit there, then build again";
  throw new WavesmithError("conflict", `the source conflicts with what the project built, in ${shown}${more}`, {
    remedy: `${byHand}; or start a new project: --project NAME`,
  });
}
