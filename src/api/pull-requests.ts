import type { PullRequestView, StatusView } from "../coordinator/build/build-view.ts";

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
  /** The newest hundred that we pushed, oldest first. */
  readonly commits: PullRequestView["commits"];
}

/** The field about a build's pull requests; empty when it has none. */
export function pullRequestsField({ pullRequests = [] }: StatusView): { pullRequests?: readonly PullRequestJson[] } {
  if (pullRequests.length === 0) return {};
  return {
    pullRequests: pullRequests.map((request) => {
      const { repo, branch, base, number, url, status, problem, remedy, checks, commits } = request;
      const { waveNumber: wave, sha: commit, mergeState: merge, mergeSha: mergeCommit } = request;
      const delivered = { repo, branch, base, number, url, wave, commit, status, merge, mergeCommit };
      return { ...delivered, checks, commits, problem, remedy };
    }),
  };
}
