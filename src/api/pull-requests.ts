import type { BuildView, PullRequestView } from "../coordinator/build/read-build.ts";

/** A pull request, as `status --json`, `build.finished` and the API show it. */
export interface PullRequestJson
  extends Pick<PullRequestView, "repo" | "branch" | "base" | "number" | "url" | "status" | "problem" | "remedy"> {
  /** The newest wave in it. */
  readonly wave: number;
  readonly commit: string;
  /** `off`, `merged`, or what it waits for: `checks`, `approval`, `conflict`, `queued`. */
  readonly merge: PullRequestView["mergeState"];
  /** The commit of the merge. */
  readonly mergeCommit: string | null;
  readonly checks: PullRequestView["checks"];
}

/** The field about a build's pull requests; empty when it has none. */
export function pullRequestsField({ pullRequests = [] }: BuildView): { pullRequests?: readonly PullRequestJson[] } {
  if (pullRequests.length === 0) return {};
  return {
    pullRequests: pullRequests.map((request) => {
      const { repo, branch, base, number, url, status, problem, remedy, checks } = request;
      const { waveNumber: wave, sha: commit, mergeState: merge, mergeSha: mergeCommit } = request;
      return { repo, branch, base, number, url, wave, commit, status, merge, mergeCommit, checks, problem, remedy };
    }),
  };
}
