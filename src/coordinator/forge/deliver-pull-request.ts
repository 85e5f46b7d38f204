import { createHash } from "node:crypto";
import type { ForgeStep, MergeState } from "../../domain/forge.ts";
import { present } from "../../domain/known.ts";
import { type Forge, ForgeError, type ForgeRepository, type RequestState } from "../../forge/port.ts";
import type { BuildRow, PullRequestRow } from "../../store/port.ts";
import type { Ports } from "../port.ts";
import { reportsOf, requestText } from "./text-of-request.ts";

// PR2. A refusal of the forge is written to the row, with what to do and when we try again. It
// never fails the build, whose work is safe in the authority.

interface Delivery {
  readonly ports: Ports;
  readonly forge: Forge;
  readonly build: BuildRow;
  readonly row: PullRequestRow;
}

const seconds = 1_000;
const minutes = 60 * seconds;
const pausesMs = [5 * seconds, 30 * seconds, 2 * minutes, 10 * minutes] as const;
const longestPauseMs = 10 * minutes;
/** How often we check a request that waits for checks, people or its merge. */
const lookMs = minutes;

const steps: Readonly<Record<ForgeStep, (delivery: Delivery) => Promise<void>>> = {
  repository: ensurePlace,
  push: pushWork,
  request: openRequest,
  checks: reportGates,
  merge: mergeIfDue,
};

/** Does one step of a delivery. Returns whether the next one may follow. Safe to repeat. */
export async function deliverPullRequest(
  ports: Ports,
  { buildId, key }: { buildId: string; key: string },
  step: ForgeStep,
): Promise<boolean> {
  const { repo } = await ports.store.pullRequests.get({ buildId, key });
  // One process at a time, so that two never look for a request and then both make it.
  const goesOn = await ports.store.alone(
    `forge/${repo}`,
    async () => {
      const row = await ports.store.pullRequests.get({ buildId, key });
      if (row.status !== "waiting") return false;
      const build = await ports.store.builds.get({ id: buildId });
      try {
        await steps[step]({ ports, forge: ports.forges.forge(row.forge), build, row });
        return true;
      } catch (error) {
        if (!(error instanceof ForgeError)) throw error;
        await recordFailure(ports, row, error);
        return false;
      }
    },
    { wait: true },
  );
  return goesOn ?? false;
}

async function recordFailure({ store, clock, log }: Ports, row: PullRequestRow, error: ForgeError): Promise<void> {
  const now = clock.now().getTime();
  const pauseMs = error.retryable ? (pausesMs[row.tries] ?? longestPauseMs) : longestPauseMs;
  const status = error.fault === "closed" ? "closed" : error.retryable ? "waiting" : "blocked";
  const nextAt = error.fault === "closed" ? null : (error.until ?? new Date(now + pauseMs));
  const retry = `then: wavesmith retry ${row.buildId}`;
  const remedy = error.retryable ? error.remedy : error.remedy === null ? retry : `${error.remedy}; ${retry}`;
  const { message: problem } = error;
  await store.pullRequests.update(
    { id: row.id, epoch: row.epoch },
    { status, problem, remedy, nextAt, tries: row.tries + 1, updatedAt: new Date(now) },
  );
  if (problem !== row.problem) log.warn(`build ${row.buildId} is not delivered: ${problem}`);
}

const change = ({ ports, row }: Delivery, patch: Partial<PullRequestRow>) =>
  ports.store.pullRequests.update({ id: row.id, epoch: row.epoch }, { ...patch, updatedAt: ports.clock.now() });

/** Does a step unless it was already done with the same facts. */
async function once(
  { ports: { store, clock }, row }: Delivery,
  { step, facts }: { step: string; facts: unknown },
  work: () => Promise<void>,
): Promise<void> {
  const fingerprint = createHash("sha256").update(JSON.stringify(facts)).digest("hex").slice(0, 32);
  const known = await store.forgeCalls.find({ pullRequestId: row.id, step });
  if (known?.fingerprint === fingerprint) return;
  await work();
  const done = { fingerprint, doneAt: clock.now() };
  if (known !== null) await store.forgeCalls.update({ pullRequestId: row.id, step }, done);
  else await store.forgeCalls.insertIfAbsent({ buildId: row.buildId, pullRequestId: row.id, step, ...done });
}

async function ensurePlace(delivery: Delivery): Promise<void> {
  const { forge, build, row } = delivery;
  const { create = "private" } = build.plan.deliver;
  const description = build.plan.description ?? build.plan.name;
  const found = await forge.findRepository({ name: row.repo, id: row.repoId });
  if (found === null && create === "never") {
    throw new ForgeError("not-found", `there is no repository ${row.repo}, or our credential may not see it`, {
      remedy: "make it, or write deliver.create: private in the plan",
    });
  }
  const wanted = { name: row.repo, isPrivate: create !== "public", description };
  const repository = found ?? (await forge.ensureRepository(wanted));
  if (repository.mayPush === false) {
    throw new ForgeError("forbidden", `our credential may read ${repository.name}, but not push to it`, {
      remedy: "give it write access",
    });
  }
  const base = row.base ?? repository.defaultBranch;
  await change(delivery, { repo: repository.name, repoId: repository.id, base });
}

async function repositoryOf({ forge, row }: Delivery): Promise<ForgeRepository> {
  const found = await forge.findRepository({ name: row.repo, id: row.repoId });
  if (found !== null) return found;
  throw new ForgeError("not-found", `the repository ${row.repo} is gone, or our credential may no longer see it`);
}

async function pushWork(delivery: Delivery): Promise<void> {
  const { ports, forge, build, row } = delivery;
  const repository = await repositoryOf(delivery);
  const gitDir = ports.workspace.repositoryPath(build.projectId);
  const base = present(row.base, "pullRequest.base");
  if ((await forge.readBranch(repository, base)) === null) {
    // In a new repository, the base of the request is the commit that the build began from.
    const sha = present(build.baseSha, "build.baseSha");
    await forge.pushBranch({ repository, gitDir, sha, branch: base, expected: null });
  }
  const { branch, sha } = row;
  await forge.pushBranch({ repository, gitDir, sha, branch, expected: row.pushedSha });
  await change(delivery, { pushedSha: sha });
}

/**
 * The branch that a request is merged into: the branch of the wave before it, until that is merged.
 */
async function baseOf({ ports, row }: Delivery): Promise<string> {
  const base = present(row.base, "pullRequest.base");
  if (row.key === "build") return base;
  const rows = await ports.store.pullRequests.list({ buildId: row.buildId });
  const before = rows
    .filter(({ waveNumber, key }) => key !== "build" && waveNumber < row.waveNumber)
    .sort((left, right) => right.waveNumber - left.waveNumber)[0];
  return before === undefined || before.status === "merged" ? base : before.branch;
}

async function openRequest(delivery: Delivery): Promise<void> {
  const { ports, forge, row } = delivery;
  const content = {
    key: `${row.buildId}/${row.key}`,
    branch: row.branch,
    base: await baseOf(delivery),
    ...(await requestText(ports, delivery)),
  };
  const facts = { ...content, sha: row.sha, url: row.url };
  if (row.number !== null && row.problem === null) {
    await once(delivery, { step: "request", facts }, () => request());
  } else await request();
  async function request(): Promise<void> {
    const repository = await repositoryOf(delivery);
    const made = await forge.ensureRequest({ repository, ...content, number: row.number });
    await change(delivery, { number: made.number, url: made.url });
  }
}

async function reportGates(delivery: Delivery): Promise<void> {
  const { ports, forge, row } = delivery;
  for (const report of await reportsOf(ports, row)) {
    await once(delivery, { step: `check/${report.key}`, facts: { ...report, sha: row.sha } }, async () => {
      await forge.ensureCheck({ repository: await repositoryOf(delivery), sha: row.sha, ...report });
    });
  }
}

async function mergeIfDue(delivery: Delivery): Promise<void> {
  const { ports, forge, row } = delivery;
  const repository = await repositoryOf(delivery);
  const number = present(row.number, "pullRequest.number");
  const state = await forge.readRequest(repository, number);
  const facts = { checks: [...state.checks], url: state.url, problem: null, remedy: null, tries: 0 };
  const merged = (mergeSha: string | null) =>
    change(delivery, { ...facts, status: "merged", mergeState: "merged", mergeSha, nextAt: null });
  if (state.state === "merged") return void (await merged(state.mergeSha));
  if (state.state === "closed") throw new ForgeError("closed", `a person closed ${state.url}, so it stays closed`);
  if (state.headSha !== row.sha) {
    throw new ForgeError("rejected", `${row.branch} is at ${state.headSha.slice(0, 12)}, which we did not put there`, {
      remedy: `keep those commits on another branch, delete ${row.branch} at the forge`,
    });
  }
  const rules = await forge.readBranch(repository, state.base);
  const waits = await waitsFor(delivery, state, rules);
  const nextAt = new Date(ports.clock.now().getTime() + lookMs);
  if (waits !== null) return void (await change(delivery, { ...facts, status: "open", mergeState: waits, nextAt }));
  const queue = rules?.hasMergeQueue ?? false;
  const result = await forge.mergeRequest({ repository, number, sha: row.sha, queue });
  if (result.merged) await merged(result.sha);
  else await change(delivery, { ...facts, status: "open", mergeState: "queued", nextAt });
}

/** Returns what the merge waits for; null if it may go ahead. */
async function waitsFor(
  { build, row }: Delivery,
  { checks, review, isMergeable, base }: RequestState,
  rules: { requiredChecks: readonly string[]; requiredApprovals: number } | null,
): Promise<MergeState | null> {
  const { merge = "never" } = build.plan.deliver;
  if (merge === "never") return "off";
  // A build's request is complete after the last wave; a wave's request waits for the one below it.
  const isWhole = row.key === "build" ? build.status === "completed" : base === row.base;
  if (!isWhole || checks.some((check) => check.state !== "passed")) return "checks";
  if (rules?.requiredChecks.some((name) => !checks.some((check) => check.name === name))) return "checks";
  const needsApproval = merge === "when-approved" || (rules?.requiredApprovals ?? 0) > 0;
  if (review === "changes-requested" || (needsApproval && review !== "approved")) return "approval";
  return isMergeable === false ? "conflict" : null;
}
