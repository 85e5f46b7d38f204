import { setTimeout as delay } from "node:timers/promises";
import { isDiskFull } from "../../domain/disk-full.ts";
import { messageOf, WavesmithError } from "../../domain/errors.ts";
import { getKnown } from "../../domain/known.ts";
import { about, type LogFacts } from "../../domain/log-facts.ts";
import type { GuestClient, JobState } from "../../sandbox/port.ts";
import { endSandboxOf } from "../../sandbox-lifecycle/distrust.ts";
import { ensureSandbox } from "../../sandbox-lifecycle/ensure-sandbox.ts";
import type { BuildRow, JobLease } from "../../store/port.ts";
import { endLeasedJob } from "../../store/queries/jobs.ts";
import { sendMessages } from "../attempt/messages.ts";
import { closeQuestions, deliverAnswers } from "../attempt/questions.ts";
import { eventsOf } from "../build-events.ts";
import type { Ports } from "../port.ts";
import { previewProgressed, settlePreview } from "../preview/preview.ts";
import { clearPreviews, findPreviewSandbox } from "../preview/preview-sandbox.ts";
import { createOutputCopier } from "./copy-output.ts";
import { valuesToMask } from "./job-results.ts";
import { lostState } from "./job-stages.ts";
import { closeFill } from "./setup-cache.ts";

// Watches jobs. A job outlives the process that started it. Its watcher holds a lease with a fence,
// copies its output to the database and reports its end once, in the transaction that ends the row.
// If the watcher dies, the next holder of the lease continues where the output stopped.

const leaseMs = 15_000;
const pollMs = 1_000;
/** How long a guest may wait before it answers without news. */
const newsMs = 5_000;
/** After this many invalid answers for one job, the job and its sandbox are given up. */
const maxStrikes = 3;
/** How many times a guest may announce output that does not arrive; this takes a few seconds. */
const maxPromises = 12;

export interface JobWatcher {
  /** Checks for unwatched jobs now. */
  wake(): void;
  /** Stops watching and releases the leases; the jobs continue. */
  stop(): Promise<void>;
}

export interface WatchOptions {
  readonly owner: string;
  readonly projectIds: "all" | ReadonlySet<string>;
  /** Sends the outbox after a job's end, without waiting for the reconciler. */
  readonly flush: () => Promise<void>;
}

/** Watches the running jobs of the projects this process serves. */
export function watchJobs(ports: Ports, options: WatchOptions): JobWatcher {
  const stopping = new AbortController();
  // One signal per job, because Node warns about many listeners on a shared one.
  const watched = new Map<string, { readonly over: Promise<void>; readonly stopping: AbortController }>();
  /** Invalid answers per job. */
  const strikes = new Map<string, number>();
  let wake: () => void = () => undefined;

  let renewedMs = Number.NEGATIVE_INFINITY;
  const look = async (): Promise<void> => {
    // Starting jobs wake this loop many times a second.
    if (performance.now() - renewedMs >= pollMs) {
      await renewWatched(ports, options.owner, watched);
      renewedMs = performance.now();
    }
    const leased = await ports.store.leaseJobs({
      projectIds: options.projectIds === "all" ? "all" : [...options.projectIds],
      owner: options.owner,
      leaseMs,
      limit: 100,
    });
    for (const lease of leased) {
      const { key } = lease.job;
      const own = new AbortController();
      const over = watchLeased(ports, { lease, signal: own.signal, strikes, flush: options.flush });
      watched.set(key, { over: over.finally(() => watched.delete(key)), stopping: own });
    }
  };

  const loop = (async () => {
    while (!stopping.signal.aborted) {
      const woken = new Promise<void>((resolve) => {
        wake = resolve;
        setTimeout(resolve, pollMs).unref();
      });
      await look().catch((error: unknown) => ports.log.warn(`looking for jobs failed: ${reasonOf(error)}`));
      await woken;
    }
  })();

  return {
    wake: () => wake(),
    async stop() {
      stopping.abort();
      wake();
      await loop;
      const left = [...watched.values()];
      for (const watch of left) watch.stopping.abort();
      await Promise.allSettled(left.map(({ over }) => over));
      await ports.store.releaseLeases(options.owner);
    },
  };
}

interface LeasedWatch {
  readonly lease: JobLease;
  readonly signal: AbortSignal;
  /** Invalid answers per job. */
  readonly strikes: Map<string, number>;
  readonly flush: WatchOptions["flush"];
}

/** Watches a job until it ends. Gives its lease back after a fault; gives a lying job up. */
async function watchLeased(ports: Ports, { lease, signal, strikes, flush }: LeasedWatch): Promise<void> {
  const { key, projectId: project, buildId: build } = lease.job;
  const isOver = async (): Promise<boolean> => {
    try {
      return await about({ project, build }, () => watchJob(ports, lease, signal));
    } catch (error) {
      const lie = lieOf(error);
      if (lie !== null) strikes.set(key, (strikes.get(key) ?? 0) + 1);
      if (lie === null || getKnown(strikes, key) < maxStrikes) throw error;
      await giveUp(ports, lease, lie);
      return true;
    }
  };
  try {
    if (await isOver()) await flush();
    strikes.delete(key);
  } catch (error) {
    await giveBack(ports, lease, error);
  }
}

async function renewWatched(ports: Ports, owner: string, watched: ReadonlyMap<string, unknown>): Promise<void> {
  const renewed = await ports.store.renewLeases(owner, leaseMs);
  // If the database failed while we released or took a lease, nobody watches that job, and our
  // renewals would keep anyone else from watching it.
  const unwatched = renewed.filter((key) => !watched.has(key));
  if (unwatched.length > 0) await ports.store.jobs.update({ key: unwatched, leaseOwner: owner }, { leaseOwner: null });
}

/** Returns an error's message, or one that names a full disk. */
const reasonOf = (error: unknown): string => (isDiskFull(error) ? "no space left on device" : messageOf(error));

/** Returns the problem if a guest gave an answer that ours never gives; null for other failures. */
const lieOf = (error: unknown): string | null =>
  error instanceof WavesmithError && lies.has(error.code) ? error.message : null;
const lies: ReadonlySet<string> = new Set(["guest-protocol", "guest-refused", "sandbox-path", "not-found"]);

/** Ends a job as lost together with its sandbox, because its guest cannot be trusted (W4). */
async function giveUp(ports: Ports, lease: JobLease, why: string): Promise<void> {
  const { key, projectId, buildId, ownerKind } = lease.job;
  const build = await ports.store.builds.get({ id: buildId });
  // A preview has its own sandbox, which ends with its job.
  if (ownerKind !== "preview") await endSandboxOf(ports, projectId, why);
  await endJob(ports, build, lease, { ...lostState(key), cancelReason: `its sandbox was replaced: ${why}` });
  if (ownerKind === "preview") await clearPreviews(ports, build, why);
}

/** Releases the lease of a failed watch, so that the next check takes it up again. */
async function giveBack(ports: Ports, lease: JobLease, error: unknown): Promise<void> {
  // A preview's job may be ended together with its sandbox while it is being watched.
  const ended = await ports.store.jobs.find({ key: lease.job.key, status: "ended" }).catch(() => null);
  if (ended !== null) return;
  const isGone = error instanceof WavesmithError && error.code === "sandbox-unavailable";
  const why = isGone ? "its sandbox has ended or does not answer; trying again" : reasonOf(error);
  about(await factsOfJob(ports, lease.job), () => ports.log.warn(`lost track of job ${lease.job.key}: ${why}`));
  await delay(pollMs);
  await ports.store.jobs
    .update({ key: lease.job.key, fence: lease.fence }, { leaseOwner: null })
    .catch((failure: unknown) => ports.log.warn(`its lease will be released later: ${reasonOf(failure)}`));
}

async function factsOfJob(
  ports: Ports,
  { projectId, buildId, ownerKind, ownerId }: JobLease["job"],
): Promise<LogFacts> {
  const facts = { project: projectId, build: buildId };
  if (ownerKind !== "attempt") return facts;
  const owner = await ports.store.attemptInContext(ownerId).catch(() => null); // the database may be the trouble
  if (owner === null) return facts;
  const { attempt, task, wave } = owner;
  return { ...facts, wave: wave.number, attempt: attempt.number, ...(task === null ? {} : { task: task.key }) };
}

/** Watches a job. Returns true when it has ended, false when watching stopped. */
async function watchJob(ports: Ports, lease: JobLease, signal: AbortSignal): Promise<boolean> {
  const { job, fence } = lease;
  const build = await ports.store.builds.get({ id: job.buildId });
  const guest = await guestOf(ports, build, job);
  if (guest === null) return losePreview(ports, build, lease);
  const { ownerKind: kind, ownerId: id, ownerFence: ownFence } = job;
  const secrets = await valuesToMask(
    ports,
    build,
    kind === "attempt" || kind === "gate" ? { kind, id, fence: ownFence } : null,
  );
  const copier = createOutputCopier({ ports, build, guest, secrets }, { job, fence });
  const isPreview = kind === "preview";
  const sendUnsent = atMostEvery(pollMs, () => sendMessages(ports, guest, job.key, id));
  const pace = createPace(job.key, signal);
  const deadlineMs = performance.now() + (job.longestMs ?? Number.POSITIVE_INFINITY);
  // People see whether a job is still in its setup.
  let isInSetup = build.plan.setup !== null && job.state === null;
  for (let revision = isPreview || isInSetup ? 0 : Number.MAX_SAFE_INTEGER; ; ) {
    const state = await newsOf(guest, job.key, { revision, offset: copier.seen(), signal });
    if (state === "stopped") return false;
    const known = state ?? lostState(job.key);
    const before = copier.seen();
    const isOver = known.status !== "running";
    if (build.interactive || copier.asked()) await deliverAnswers(ports, guest, job.key);
    if (kind === "attempt" && !isOver) await sendUnsent();
    if (known.outputBytes > copier.copied()) await copier.copy(isOver);
    if (isPreview) await previewProgressed(ports, build, known);
    if (isInSetup && !isOver && isBeyondSetup(known)) {
      await ports.store.jobs.update({ key: job.key, fence, status: "running" }, { state: known });
      isInSetup = false;
    }
    if (isOver) {
      await endJob(ports, build, lease, known);
      if (kind === "setup") await closeFill(ports, guest, job.key);
      if (isPreview) await clearPreviews(ports, build, "it has ended");
      return true;
    }
    if (performance.now() > deadlineMs) {
      await giveUp(ports, lease, `the guest says that ${job.key} still runs, long after its time limits`);
      return true;
    }
    await pace(copier.seen() > before || (isPreview && known.revision > revision), known.outputBytes > copier.seen());
    // For other jobs only the output and the end matter.
    revision = isPreview || isInSetup ? known.revision : Number.MAX_SAFE_INTEGER;
  }
}

/** Returns a function that does the work, unless it was last done less than a time ago. */
function atMostEvery(periodMs: number, work: () => Promise<void>): () => Promise<void> {
  let doneMs = Number.NEGATIVE_INFINITY;
  return async () => {
    if (performance.now() - doneMs < periodMs) return;
    doneMs = performance.now();
    await work();
  };
}

const isBeyondSetup = ({ stages }: JobState): boolean =>
  stages.some(({ name, status }) => !name.startsWith("setup") && status !== "pending");

/** Returns the guest that runs a job; null if a preview's own sandbox is gone. */
async function guestOf(ports: Ports, build: BuildRow, { ownerKind }: JobLease["job"]): Promise<GuestClient | null> {
  if (ownerKind !== "preview") return (await ensureSandbox(ports, build)).guest;
  return (await findPreviewSandbox(ports, build))?.guest ?? null;
}

/** Ends the job of a preview whose sandbox is gone. */
async function losePreview(ports: Ports, build: BuildRow, lease: JobLease): Promise<true> {
  await endJob(ports, build, lease, lostState(lease.job.key));
  await clearPreviews(ports, build, "its sandbox has ended");
  return true;
}

/** Backs off between answers without news, and fails if a guest keeps announcing missing output. */
function createPace(key: string, signal: AbortSignal): (isNews: boolean, isPromised: boolean) => Promise<void> {
  let fruitless = 0;
  let promised = 0;
  return async (isNews, isPromised) => {
    fruitless = isNews ? 0 : fruitless + 1;
    promised = isNews || !isPromised ? 0 : promised + 1;
    if (promised > maxPromises)
      throw new WavesmithError("guest-protocol", `the guest promises more output of ${key} than it delivers`);
    if (fruitless > 0) await delay(Math.min(pollMs, 2 ** fruitless), null, { signal }).catch(() => undefined);
  };
}

/** Waits for a job's news and returns its state; null when the guest does not know the job. */
async function newsOf(
  guest: GuestClient,
  key: string,
  beyond: { revision: number; offset: number; signal: AbortSignal },
): Promise<JobState | null | "stopped"> {
  const { signal } = beyond;
  if (signal.aborted) return "stopped";
  try {
    return await guest.findJob(key, { ...beyond, waitMs: newsMs });
  } catch (error) {
    if (signal.aborted) return "stopped";
    throw error;
  }
}

export async function endJob(ports: Ports, build: BuildRow, { job, fence }: JobLease, state: JobState): Promise<void> {
  await ports.store.transaction("end-job", async (transaction) => {
    const ended = await endLeasedJob(transaction, { key: job.key, fence }, { state, endedAt: ports.clock.now() });
    if (ended === null) return;
    if (build.interactive) await closeQuestions(transaction, job.key, ports.clock.now());
    if (job.ownerKind === "preview") await settlePreview(transaction, ports, build, job.key, state);
    const events = eventsOf(transaction, build);
    if (job.ownerKind === "attempt") {
      await events.attemptFinished(await transaction.attemptInContext(job.ownerId), job);
    }
    if (job.ownerKind === "gate") {
      const run = await transaction.gateRuns.get({ id: job.ownerId });
      const wave = await transaction.waves.get({ id: run.waveId });
      await events.gateFinished({ ...run, fence: job.ownerFence }, wave, job.key);
    }
  });
}
