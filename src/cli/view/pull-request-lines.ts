import type { BuildView, PullRequestView } from "../../coordinator/build/build-view.ts";
import { count, oneLine } from "../output/format.ts";
import type { Line } from "./line.ts";

/** Where a build's pull requests are, and what they wait for. */
export function pullRequestLines({ pullRequests = [] }: BuildView): Line[] {
  return pullRequests.flatMap((request) => {
    const { problem, remedy, repo, number, url } = request;
    const name = number === null ? `pull request to ${repo}` : `pull request ${number} of ${repo}`;
    const tone = problem === null ? "plain" : "bad";
    const first: Line = {
      tone,
      text: `${name}: ${stateText(request)}${sizeText(request)}${url === null ? "" : `  ${url}`}`,
    };
    if (problem === null) return [first];
    const next = remedy === null ? [] : [{ tone: "plain" as const, text: `  ${oneLine(remedy)}` }];
    return [first, { tone: "bad" as const, text: `  ${oneLine(problem)}` }, ...next];
  });
}

/** How many commits it has, and how many of its checks have passed. */
function sizeText({ commits, checks }: PullRequestView): string {
  if (commits.length === 0) return "";
  const passed = checks.filter(({ state }) => state === "passed").length;
  const judged = checks.length === 0 ? "" : `, ${passed} of ${count(checks.length, "check")} passed`;
  return ` (${count(commits.length, "commit")}${judged})`;
}

function stateText({ status, mergeState, checks, problem, nextAt }: PullRequestView): string {
  if (status === "blocked") return "blocked";
  if (status === "closed") return "closed by a person";
  if (status === "merged") return "merged";
  if (status === "waiting") {
    const again = nextAt === null ? "" : `, next try at ${nextAt.toISOString().slice(11, 16)} UTC`;
    return problem === null ? "being brought up to date" : `not delivered yet${again}`;
  }
  const failed = checks.filter(({ state }) => state === "failed").map(({ name }) => name);
  if (failed.length > 0) return `open, failed: ${oneLine(failed.join(", "))}`;
  if (mergeState === "checks") return "open, waiting for checks";
  if (mergeState === "approval") return "open, waiting for approval";
  if (mergeState === "conflict") return "open, conflicts with its base";
  return mergeState === "queued" ? "in the merge queue" : "open";
}
