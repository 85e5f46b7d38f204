import { setTimeout as delay } from "node:timers/promises";
import type { QuestionEvent } from "../../agents/port.ts";
import { isDiskFull } from "../../domain/disk-full.ts";
import { messageOf, WavesmithError } from "../../domain/errors.ts";
import type { GuestClient, JobState } from "../../sandbox/port.ts";
import type { BuildRow, JobLease } from "../../store/port.ts";
import { closeQuestions, deliverAnswers, recordQuestions } from "../attempt/questions.ts";
import { emitFor, gateRunFacts } from "../build-events.ts";
import { createCut, createMask } from "../masking/masking.ts";
import type { Ports } from "../port.ts";
import { previewProgressed, settlePreview } from "../preview/preview.ts";
import { clearPreviews, findPreviewSandbox } from "../preview/preview-sandbox.ts";
import { endSandboxOf } from "../sandboxes/distrust.ts";
import { ensureSandbox } from "../sandboxes/sandboxes.ts";
import { coveredValues } from "./job-results.ts";
import { lostState } from "./job-stages.ts";
import { closeFill } from "./setup-cache.ts";

// The watcher of jobs. A job outlives whoever started it; its watcher holds a lease with a fence,
// copies its output to the database and tells its end once, in the transaction that ends the row.
// If the watcher died, whoever takes the lease over goes on where the output stopped.

const leaseMs = 15_000;
const pollMs = 1_000;
/** So long a guest is asked at most to wait for news. */
const newsMs = 5_000;
const readBytes = 256 * 1024;
/** Far above what all stages of a job may print. */
const mostOutputBytes = 2 ** 30;
/** Strange answers for one job before it is given up with its sandbox. */
const mostStrikes = 3;
/** So often output may be promised that does not come, which takes a few seconds. */
const mostPromises = 12;

export interface JobWatcher {
  /** Looks for unwatched jobs now. */
  wake(): void;
  /** Stops watching and gives the leases back; the jobs go on. */
  stop(): Promise<void>;
}

export interface WatchOptions {
  readonly owner: string;
  readonly projectIds: "all" | ReadonlySet<string>;
  /**
   * Sends what a job's end has put into the outbox, so that it need not wait for the reconciler's
   * turn.
   */
  readonly flush: () => Promise<void>;
}

/** Watches the running jobs of the projects this process serves. */
export function watchJobs(ports: Ports, options: WatchOptions): JobWatcher {
  const stopping = new AbortController();
  // A signal for each: one for all would have as many listeners as there are jobs, of which Node
  // warns.
  const watched = new Map<string, { readonly over: Promise<void>; readonly stopping: AbortController }>();
  /** How often a guest answered for a job what no guest answers. */
  const strikes = new Map<string, number>();
  let wake: () => void = () => undefined;

  const renew = async (): Promise<void> => {
    const renewed = await ports.store.renewLeases(options.owner, leaseMs);
    // Where the database was away when a lease was to be given back, or to answer that it was
    // taken, nobody watches the job, and our renewing would keep it so for ever.
    const unwatched = renewed.filter((key) => !watched.has(key));
    if (unwatched.length > 0)
      await ports.store.jobs.update({ key: unwatched, leaseOwner: options.owner }, { leaseOwner: null });
  };
  let renewedMs = Number.NEGATIVE_INFINITY;
  const look = async (): Promise<void> => {
    // Jobs that start wake this many times a second.
    if (performance.now() - renewedMs >= pollMs) {
      await renew();
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
      const over = watchJob(ports, lease, own.signal)
        .then((ended) => (ended ? options.flush() : undefined))
        .then(() => void strikes.delete(key))
        .catch(async (error: unknown) => {
          const lie = lieOf(error);
          if (lie !== null) strikes.set(key, (strikes.get(key) ?? 0) + 1);
          if (lie === null || strikes.get(key)! < mostStrikes) return giveBack(ports, lease, error);
          await giveUp(ports, lease, lie);
          strikes.delete(key);
          await options.flush();
        })
        .catch((error: unknown) => giveBack(ports, lease, error))
        .finally(() => watched.delete(key));
      watched.set(key, { over, stopping: own });
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

/** Of a failed query the database's own words, so that a full disk is recognised. */
const reasonOf = (error: unknown): string => (isDiskFull(error) ? "no space left on device" : messageOf(error));

/**
 * What is wrong with an answer that a guest of ours never gives; null when it was something else
 * that failed.
 */
const lieOf = (error: unknown): string | null =>
  error instanceof WavesmithError && lies.has(error.code) ? error.message : null;
const lies: ReadonlySet<string> = new Set(["guest-protocol", "guest-refused", "sandbox-path", "not-found"]);

/** The job is lost with its sandbox (W4): what its guest says of it is not believed. */
async function giveUp(ports: Ports, lease: JobLease, why: string): Promise<void> {
  const { key, projectId, buildId, ownerKind } = lease.job;
  const build = await ports.store.builds.get({ id: buildId });
  // A preview has a sandbox of its own, which goes with its job.
  if (ownerKind !== "preview") await endSandboxOf(ports, projectId, why);
  await endJob(ports, build, lease, { ...lostState(key), cancelReason: `its sandbox was replaced: ${why}` });
  if (ownerKind === "preview") await clearPreviews(ports, build, why);
}

/**
 * A watch that failed (the sandbox or the database was away) is taken up again at the next look.
 */
async function giveBack(ports: Ports, lease: JobLease, error: unknown): Promise<void> {
  // A preview's job is ended together with its sandbox, under the eyes of its watcher.
  const ended = await ports.store.jobs.find({ key: lease.job.key, status: "ended" }).catch(() => null);
  if (ended !== null) return;
  const isGone = error instanceof WavesmithError && error.code === "sandbox-unavailable";
  const why = isGone ? "its sandbox has ended or does not answer; it is looked for again" : reasonOf(error);
  ports.log.warn(`watching job ${lease.job.key} was interrupted: ${why}`);
  await new Promise((resolve) => setTimeout(resolve, pollMs));
  await ports.store.jobs
    .update({ key: lease.job.key, fence: lease.fence }, { leaseOwner: null })
    .catch((failure: unknown) => ports.log.warn(`its lease is given back later: ${reasonOf(failure)}`));
}

/** True when the job has ended, false when watching stopped. */
async function watchJob(ports: Ports, lease: JobLease, signal: AbortSignal): Promise<boolean> {
  const { job, fence } = lease;
  const build = await ports.store.builds.get({ id: job.buildId });
  const guest = await guestOf(ports, build, job);
  if (guest === null) return losePreview(ports, build, lease);
  const { ownerKind: kind, ownerId: id, ownerFence: ownFence } = job;
  const secrets = await coveredValues(
    ports,
    build,
    kind === "attempt" || kind === "gate" ? { kind, id, fence: ownFence } : null,
  );
  const copier = createCopier(ports, guest, { job, fence }, secrets);
  const isPreview = kind === "preview";
  const pace = createPace(job.key, signal);
  for (let revision = isPreview ? 0 : Number.MAX_SAFE_INTEGER; ; ) {
    const state = await newsOf(guest, job.key, { revision, offset: copier.seen(), signal });
    if (state === "stopped") return false;
    const known = state ?? lostState(job.key);
    const before = copier.seen();
    const isOver = known.status !== "running";
    if (build.interactive || copier.asked()) await deliverAnswers(ports, guest, job.key);
    if (known.outputBytes > copier.copied()) await copier.copy(isOver);
    if (isPreview) await previewProgressed(ports, build, known);
    if (isOver) {
      await endJob(ports, build, lease, known);
      if (kind === "setup") await closeFill(ports, guest, job.key);
      if (isPreview) await clearPreviews(ports, build, "it has ended");
      return true;
    }
    await pace(copier.seen() > before || (isPreview && known.revision > revision), known.outputBytes > copier.seen());
    // Of other jobs only the output and the end are of interest.
    if (isPreview) revision = known.revision;
  }
}

/** Where a job runs; null when the sandbox that a preview had for itself is gone. */
async function guestOf(ports: Ports, build: BuildRow, { ownerKind }: JobLease["job"]): Promise<GuestClient | null> {
  if (ownerKind !== "preview") return (await ensureSandbox(ports, build)).guest;
  return (await findPreviewSandbox(ports, build))?.guest ?? null;
}

/** Ends a preview's job whose sandbox is gone. */
async function losePreview(ports: Ports, build: BuildRow, lease: JobLease): Promise<true> {
  await endJob(ports, build, lease, lostState(lease.job.key));
  await clearPreviews(ports, build, "its sandbox has ended");
  return true;
}

/**
 * Waits longer and longer between answers that bring nothing; a guest that goes on promising output
 * is not believed.
 */
function createPace(key: string, signal: AbortSignal): (isNews: boolean, isPromised: boolean) => Promise<void> {
  let fruitless = 0;
  let promised = 0;
  return async (isNews, isPromised) => {
    fruitless = isNews ? 0 : fruitless + 1;
    promised = isNews || !isPromised ? 0 : promised + 1;
    if (promised > mostPromises)
      throw new WavesmithError("guest-protocol", `the guest says that there is more output of ${key} than it gives`);
    if (fruitless > 0) await delay(Math.min(pollMs, 2 ** fruitless), null, { signal }).catch(() => undefined);
  };
}

/**
 * The job's state once there is more to copy or to tell, or after a while; null when the guest has
 * never seen it.
 */
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

interface Copier {
  /**
   * Copies what is there; holds back a tail that may be half a secret, unless the output has ended.
   */
  copy(ended: boolean): Promise<void>;
  /** Whether what it copied asks a person. */
  asked(): boolean;
  /** How far it has read, held back or not: only what comes after is news. */
  seen(): number;
  /** How far the database has it. */
  copied(): number;
}

function createCopier(
  ports: Ports,
  guest: GuestClient,
  { job, fence }: JobLease,
  secrets: Readonly<Record<string, string>>,
): Copier {
  const { key } = job;
  const mask = createMask(secrets);
  const cut = createCut(secrets, readBytes);
  let offset = job.outputOffset;
  let asked = false;
  let seen = offset;
  return {
    seen: () => seen,
    asked: () => asked,
    copied: () => offset,
    async copy(ended) {
      for (;;) {
        if (offset > mostOutputBytes)
          throw new WavesmithError("guest-protocol", `the guest gives more output of ${key} than any job may have`);
        const chunk = await guest.readOutput(key, { offset, limitBytes: readBytes }).catch((error: unknown) => {
          if (ended) return null; // a lost volume took the output with it
          throw error;
        });
        if (chunk === null || chunk.data.length === 0) return;
        seen = offset + chunk.data.length;
        const whole = ended && chunk.data.length < readBytes;
        const data = whole ? chunk.data : cut(chunk.data);
        if (data.length === 0) return;
        const text = mask(data.toString("utf8"));
        const questions = ports.agents.questionsIn(text);
        asked ||= questions.length > 0;
        await storeChunk(ports, { job, fence }, { startsAt: offset, text, bytes: data.length, questions });
        offset += data.length;
        if (chunk.data.length < readBytes) return; // that was all there is by now
      }
    },
  };
}

async function storeChunk(
  ports: Ports,
  { job, fence }: JobLease,
  chunk: { startsAt: number; text: string; bytes: number; questions: readonly QuestionEvent[] },
): Promise<void> {
  const { startsAt, text, bytes, questions } = chunk;
  const { key } = job;
  await ports.store.transaction("store-output", async (transaction) => {
    const [held] = await transaction.jobs.update(
      { key, fence, outputOffset: startsAt },
      { outputOffset: startsAt + bytes },
    );
    if (held === undefined) return; // another watcher has taken over
    await transaction.logChunks.insertIfAbsent({ jobKey: key, startsAt, text, at: ports.clock.now() });
    await recordQuestions(transaction, ports, job, questions);
  });
}

export async function endJob(ports: Ports, build: BuildRow, { job, fence }: JobLease, state: JobState): Promise<void> {
  await ports.store.transaction("end-job", async (transaction) => {
    const [row] = await transaction.jobs.update(
      { key: job.key, fence, status: "running" },
      { status: "ended", state, endedAt: ports.clock.now(), leaseOwner: null, leaseUntil: null },
    );
    if (row === undefined) return;
    if (build.interactive) await closeQuestions(transaction, job.key, ports.clock.now());
    if (job.ownerKind === "preview") await settlePreview(transaction, ports, build, job.key, state);
    if (job.ownerKind === "attempt") {
      const { attempt, wave, task } = await transaction.attemptInContext(job.ownerId);
      await emitFor(transaction, build, "agent/attempt.finished", attempt.id, job.ownerFence, {
        waveNumber: wave.number,
        attemptId: attempt.id,
        taskId: attempt.taskId,
        taskKey: task?.key ?? null,
        attempt: attempt.number,
        fence: job.ownerFence,
        kind: attempt.kind,
        jobKey: job.key,
      });
    }
    if (job.ownerKind === "gate") {
      const run = await transaction.gateRuns.get({ id: job.ownerId });
      const wave = await transaction.waves.get({ id: run.waveId });
      await emitFor(transaction, build, "agent/gate.finished", run.id, job.ownerFence, {
        ...gateRunFacts(run, wave, job.ownerFence),
        jobKey: job.key,
      });
    }
  });
}
