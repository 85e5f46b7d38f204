import type { ForgeCheck, MergeState } from "../../domain/forge.ts";
import { present } from "../../domain/known.ts";
import { type BranchState, ForgeError, foreignCommits, type RequestState } from "../../forge/port.ts";
import { changeRequest, type RequestDelivery, repositoryOf } from "./delivery.ts";

// MI1. CI makes its first check some seconds after a push, and until then every check has passed.
// So where we expect CI, a head without any check of others waits for its first one. We expect CI
// if the head has its configuration, or if it checked the base's head.

const minutes = 60_000;
/** How often we check a request that waits for checks, people or its merge. */
const lookMs = minutes;
/** How long we wait for the first check of CI. */
const firstCheckMs = 15 * minutes;

/** Merges a request that may be merged, and records what it waits for otherwise. */
export async function mergeIfDue(delivery: RequestDelivery): Promise<void> {
  const { ports, forge, row } = delivery;
  const repository = repositoryOf(delivery);
  const number = present(row.number, "pullRequest.number");
  const state = withReports(await forge.readRequest(repository, number), await reportsOn(delivery));
  const facts = { checks: [...state.checks], url: state.url, problem: null, remedy: null, tries: 0 };
  const merged = (mergeSha: string | null) =>
    changeRequest(delivery, { ...facts, status: "merged", mergeState: "merged", mergeSha, nextAt: null });
  if (state.state === "merged") return void (await merged(state.mergeSha));
  if (state.state === "closed") throw closedByPerson(state.url);
  if (state.headSha !== row.sha) {
    const { branch, sha: expected } = row;
    throw foreignCommits({ repository, branch, present: state.headSha, expected });
  }
  const rules = await forge.readBranch(repository, state.base);
  const waits = await waitsFor(delivery, state, rules);
  const nextAt = new Date(ports.clock.now().getTime() + lookMs);
  if (waits !== null)
    return void (await changeRequest(delivery, { ...facts, status: "open", mergeState: waits, nextAt }));
  const queue = rules?.hasMergeQueue ?? false;
  const result = await forge.mergeRequest({ repository, number, sha: row.sha, queue });
  if (result.merged) await merged(result.sha);
  else await changeRequest(delivery, { ...facts, status: "open", mergeState: "queued", nextAt });
}

/** What CI systems reported to us about the head, and perhaps not to the forge. */
async function reportsOn({ ports, row: { buildId, sha } }: RequestDelivery): Promise<ForgeCheck[]> {
  const reports = await ports.store.ciChecks.list({ buildId, sha, conclusion: ["passed", "failed"] });
  return reports.map(({ name, conclusion, url }) => ({
    ...{ name, url, state: conclusion === "failed" ? "failed" : "passed" },
  }));
}

/** Adds the reports on checks that the forge does not know; it knows its own better. */
function withReports(state: RequestState, reports: readonly ForgeCheck[]): RequestState {
  const known = new Set(state.checks.map(({ name }) => name));
  return { ...state, checks: [...state.checks, ...reports.filter(({ name }) => !known.has(name))] };
}

const closedByPerson = (url: string): ForgeError =>
  new ForgeError("closed", `a person closed ${url}, so it stays closed`, { remedy: "open it again there" });

/** Returns what the merge waits for; null if it may go ahead. */
async function waitsFor(
  delivery: RequestDelivery,
  { checks, review, isMergeable, base }: RequestState,
  rules: BranchState | null,
): Promise<MergeState | null> {
  const { build, row } = delivery;
  const { merge = "never" } = build.plan.deliver;
  if (merge === "never") return "off";
  // A build's request is complete after the last wave; a wave's request waits for the one below it.
  const isWhole = row.key === "build" ? build.status === "completed" : base === row.base;
  if (!isWhole || checks.some((check) => check.state !== "passed")) return "checks";
  if (rules?.requiredChecks.some((name) => !checks.some((check) => check.name === name))) return "checks";
  if (!checks.some(isOfOthers) && (await mayStillCheck(delivery, rules))) return "checks";
  const needsApproval = merge === "when-approved" || (rules?.requiredApprovals ?? 0) > 0;
  if (review === "changes-requested" || (needsApproval && review !== "approved")) return "approval";
  return isMergeable === false ? "conflict" : null;
}

const isOfOthers = ({ name }: { readonly name: string }): boolean => !name.startsWith("wavesmith/");

/** Files whose presence says that pushes and requests are checked. */
const ciFile =
  /^(\.github\/workflows\/[^/]+\.ya?ml|\.circleci\/config\.yml|\.gitlab-ci\.yml|\.travis\.yml|azure-pipelines\.yml|\.buildkite\/.+|Jenkinsfile)$/;

/** Whether CI is expected to check this head and still has time to begin (MI1). */
async function mayStillCheck(delivery: RequestDelivery, rules: BranchState | null): Promise<boolean> {
  const { ports, forge, build, row } = delivery;
  const pushed = await ports.store.forgeCalls.find({ pullRequestId: row.id, step: "push" });
  const sinceMs = ports.clock.now().getTime() - (pushed?.doneAt.getTime() ?? 0);
  if (sinceMs >= firstCheckMs) return false;
  const files = await ports.workspace.listFiles(build.projectId, row.sha);
  if (files.some(({ path }) => ciFile.test(path))) return true;
  return rules !== null && (await forge.readChecks(repositoryOf(delivery), rules.sha)).some(isOfOthers);
}
