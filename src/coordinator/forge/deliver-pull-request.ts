import type { ForgeStep, RequestCommit } from "../../domain/forge.ts";
import { present } from "../../domain/known.ts";
import { ForgeError, type ForgePlace } from "../../forge/port.ts";
import type { PullRequestRow } from "../../store/port.ts";
import type { Ports } from "../port.ts";
import { findDelivered } from "./delivered-repository.ts";
import { changeRequest, doOnce, type RequestDelivery, repositoryOf } from "./delivery.ts";
import { mergeIfDue } from "./merge-if-due.ts";
import { reportsOf } from "./reports-of-gates.ts";
import { requestText } from "./text-of-request.ts";

// PR2. A refusal of the forge is written to the row, with what to do and when we try again. It
// never fails the build, whose work is safe in the authority.

const seconds = 1_000;
const minutes = 60 * seconds;
const pausesMs = [5 * seconds, 30 * seconds, 2 * minutes, 10 * minutes] as const;
/** How many commits of a request we list. */
const mostCommits = 100;
const longestPauseMs = 10 * minutes;
const steps: Readonly<Record<ForgeStep, (delivery: RequestDelivery) => Promise<void>>> = {
  repository: ensurePlace,
  push: pushWork,
  request: openRequest,
  checks: reportGates,
  merge: mergeIfDue,
};

/**
 * Does one step of a delivery. Returns whether the next one may follow: false, too, once a newer
 * request for the delivery is under way, which has another commit to push. Safe to repeat.
 */
export async function deliverPullRequest(
  ports: Ports,
  { buildId, key, epoch }: { buildId: string; key: string; epoch: number },
  step: ForgeStep,
): Promise<boolean> {
  const { repo } = await ports.store.pullRequests.get({ buildId, key });
  // One process at a time, so that two never look for a request and then both make it.
  const goesOn = await ports.store.alone(
    `forge/${repo}`,
    async () => {
      const row = await ports.store.pullRequests.get({ buildId, key });
      if (row.status !== "waiting" || row.epoch !== epoch) return false;
      const build = await ports.store.builds.get({ id: buildId });
      try {
        await steps[step]({ ports, forge: ports.forges.forge(row.forge), build, row });
        return true;
      } catch (error) {
        if (!(error instanceof ForgeError)) throw error;
        await recordFailure(ports, row, step === "repository" ? error : unlessMoved(error));
        return false;
      }
    },
    { wait: true },
  );
  return goesOn ?? false;
}

/** A missing repository may have been renamed: the next try begins by finding it by its id. */
function unlessMoved(error: ForgeError): ForgeError {
  return error.fault === "not-found" ? new ForgeError("network", error.message, { cause: error }) : error;
}

async function recordFailure({ store, clock, log }: Ports, row: PullRequestRow, error: ForgeError): Promise<void> {
  const now = clock.now().getTime();
  const pauseMs = error.retryable ? (pausesMs[row.tries] ?? longestPauseMs) : longestPauseMs;
  const status = error.fault === "closed" ? "closed" : error.retryable ? "waiting" : "blocked";
  const nextAt = error.fault === "closed" ? null : (error.until ?? new Date(now + pauseMs));
  const first = error.remedy ?? "fix that";
  const remedy = error.retryable ? error.remedy : `${first}; then: wavesmith retry ${row.buildId}`;
  const { message: problem } = error;
  await store.pullRequests.update(
    { id: row.id, epoch: row.epoch },
    { status, problem, remedy, nextAt, tries: row.tries + 1, updatedAt: new Date(now) },
  );
  if (problem !== row.problem) log.warn(`build ${row.buildId} is not delivered: ${problem}`);
}

async function ensurePlace(delivery: RequestDelivery): Promise<void> {
  const { ports, forge, build, row } = delivery;
  const { create = "private" } = build.plan.deliver;
  const description = build.plan.description ?? build.plan.name;
  const { repo: name, repoId: id } = row;
  const found = await (id === null
    ? findDelivered(ports, { projectId: row.projectId, forge: row.forge, name })
    : forge.findRepository({ name, id }));
  if (found === null && id !== null) {
    throw new ForgeError("not-found", `the repository ${name} is gone, or our credential may no longer see it`, {
      remedy: "give our credential access to it again",
    });
  }
  if (found === null && create === "never") {
    throw new ForgeError("not-found", `there is no repository ${row.repo}, or our credential may not see it`, {
      remedy: "create it, or write deliver.create: private in the plan",
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
  await changeRequest(delivery, { repo: repository.name, repoId: repository.id, base });
}

async function pushWork(delivery: RequestDelivery): Promise<void> {
  const { ports, forge, build, row } = delivery;
  const repository = repositoryOf(delivery);
  const gitDir = ports.workspace.repositoryPath(build.projectId);
  const base = present(row.base, "pullRequest.base");
  if ((await forge.readBranch(repository, base)) === null) {
    // In a new repository, the base of the request is the commit that the build began from.
    const sha = present(build.baseSha, "build.baseSha");
    // Noted before the push, whose webhook must not start a build (OC1).
    await doOnce(delivery, { step: "base", facts: sha }, async () => undefined);
    await forge.pushBranch({ repository, gitDir, sha, branch: base, expected: null });
  }
  const { branch, sha } = row;
  await forge.pushBranch({ repository, gitDir, sha, branch, expected: row.pushedSha });
  await changeRequest(delivery, { pushedSha: sha, commits: await ownCommits(delivery) });
  // Records when this head reached the forge.
  await doOnce(delivery, { step: "push", facts: sha }, async () => undefined);
}

/** The commits of a request: the build's, or those since the wave before. */
async function ownCommits({ ports, build, row }: RequestDelivery): Promise<readonly RequestCommit[]> {
  const before = (await earlierRequests(ports, row))[0]?.sha ?? present(build.baseSha, "build.baseSha");
  return ports.workspace.listCommits(build.projectId, before, row.sha, mostCommits);
}

/** The requests of the waves before that of a wave, the nearest first; none for a whole build's. */
async function earlierRequests(
  { store }: Ports,
  { key, buildId, waveNumber }: PullRequestRow,
): Promise<PullRequestRow[]> {
  if (key === "build") return [];
  const rows = await store.pullRequests.list({ buildId });
  return rows
    .filter((row) => row.waveNumber < waveNumber && row.key !== "build")
    .sort((left, right) => right.waveNumber - left.waveNumber);
}

/**
 * The branch that a request is merged into: the branch of the wave before it, until that is merged.
 */
async function baseOf({ ports, row }: RequestDelivery): Promise<string> {
  const base = present(row.base, "pullRequest.base");
  const [before] = await earlierRequests(ports, row);
  return before === undefined || before.status === "merged" ? base : before.branch;
}

async function openRequest(delivery: RequestDelivery): Promise<void> {
  const { ports, forge, row } = delivery;
  const content = {
    key: `${row.buildId}/${row.key}`,
    branch: row.branch,
    base: await baseOf(delivery),
    ...(await requestText(ports, delivery)),
  };
  const facts = { ...content, sha: row.sha, url: row.url };
  if (row.number !== null && row.problem === null) {
    await doOnce(delivery, { step: "request", facts }, () => request());
  } else await request();
  async function request(): Promise<void> {
    const repository = repositoryOf(delivery);
    const made = await forge.ensureRequest({ repository, ...content, number: row.number });
    await changeRequest(delivery, { number: made.number, url: made.url });
    await linkIssue(delivery, repository, made.url);
  }
}

/**
 * Links to the request in a comment on the issue that the build answers, or on the request into
 * whose branch it goes. One that is gone, or on which we may not comment, does not stop the
 * delivery.
 */
async function linkIssue(delivery: RequestDelivery, repository: ForgePlace, url: string): Promise<void> {
  const { ports, forge, build, row } = delivery;
  const { issue, request } = build.plan.deliver;
  const asked = issue ?? request;
  if (asked === undefined) return;
  const key = `${build.id}/${row.key}/issue`;
  const text = `Build ${build.id} answers this ${issue === undefined ? "request" : "issue"} in ${url}`;
  await doOnce(delivery, { step: "issue", facts: { issue: asked, url } }, async () => {
    await forge.ensureComment({ repository, number: asked, key, text }).catch((error: unknown) => {
      if (!(error instanceof ForgeError) || error.retryable) throw error;
      ports.log.warn(`#${asked} of ${repository.name} gets no link to ${url}: ${error.message}`);
    });
  });
}

async function reportGates(delivery: RequestDelivery): Promise<void> {
  const { ports, forge, row } = delivery;
  const repository = repositoryOf(delivery);
  for (const report of await reportsOf(ports, row)) {
    const work = () => forge.ensureCheck({ repository, ...report });
    await doOnce(delivery, { step: `check/${report.key}`, facts: report }, work);
  }
}
