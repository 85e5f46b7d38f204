import { type BuildBase, conflictsText, findBase, refuseConflicts } from "../../coordinator/build/source-base.ts";
import { messageOf, WavesmithError } from "../../domain/errors.ts";
import type { ProjectId } from "../../domain/ids.ts";
import { mergeTaskKey } from "../../domain/plan/merge-task.ts";
import type { Plan } from "../../domain/plan/plan.ts";
import { resultBranch } from "../../domain/refs/result-branch.ts";
import { shellWord } from "../../domain/shell-word.ts";
import type { Session } from "../data/session.ts";
import { count, oneLine, shortSha } from "../output/format.ts";

/** A message about where a build of an existing project begins. */
export interface SourceNews {
  readonly tone: "plain" | "warn";
  readonly text: string;
}

export interface NewsRequest {
  readonly project: string;
  readonly projectId: ProjectId;
  readonly plan: Plan;
  /** The brief of a build without a plan; null for a build with one. */
  readonly brief: unknown;
}

/**
 * Says where the project continues from and what its source has had since; null for a new project.
 * Fails with `conflict` before anything starts if the source cannot be merged as requested.
 */
export async function sourceNews(session: Session, request: NewsRequest): Promise<SourceNews | null> {
  const { plan, brief, projectId } = request;
  const { ports } = session.app;
  try {
    const base = await findBase(ports, { projectId, plan, brief, date: new Date() });
    if (base === null) return null;
    refuseConflicts(base, plan.source, resultBranch(request.project));
    return newsOf(request, base);
  } catch (error) {
    const isAsked = plan.source.kind !== "empty" && plan.source.update !== undefined;
    if (isAsked || !(error instanceof WavesmithError)) throw error;
    // If the source cannot be read now, the build can still continue without it.
    return { tone: "warn", text: `the project goes on from its own main; ${oneLine(messageOf(error))}` };
  }
}

function newsOf({ project, plan }: NewsRequest, base: BuildBase): SourceNews {
  const { main, commit, relation, commits, isFolder } = base.state;
  const from = `project ${project} continues from its own main (${shortSha(main)})`;
  const { source } = plan;
  if (source.kind === "empty" || commit === null) return { tone: "plain", text: from };
  if (relation === "same") return { tone: "plain", text: `${from}, which has all of its source` };
  if (relation === "unrelated") return unrelated(project, source, from);
  const since = isFolder ? "new files" : count(commits, "new commit");
  const at = isFolder ? "" : ` up to ${shortSha(commit)}`;
  if (base.head === main) {
    const text = `${from}. Its source has ${since}${at}, which this build does not have: take them in with --update-source, or start a new project with --project NAME`;
    return { tone: "warn", text };
  }
  if (base.conflicts.length > 0) {
    const text = `project ${project} merges its source, which has ${since}${at} and conflicts in ${conflictsText(base)}: the fixer resolves that first, as the task ${mergeTaskKey}`;
    return { tone: "warn", text };
  }
  const does = base.head === commit ? "begins from" : "merges";
  return { tone: "plain", text: `project ${project} ${does} its source, which has ${since}${at}` };
}

function unrelated(project: string, source: Plan["source"], from: string): SourceNews {
  if (source.kind === "repository") {
    throw new WavesmithError("conflict", `project ${project} was not built from a commit of ${source.root}`, {
      remedy: `start a new project: --project NAME; or merge what it made, git merge --allow-unrelated-histories ${shellWord(resultBranch(project))}, and build again; or write \`source: empty\` in the plan to go on without it`,
    });
  }
  return {
    tone: "warn",
    text: `${from}, which shares no history with its source: start a new project from that with --project NAME`,
  };
}
