import { messageOf } from "../../domain/errors.ts";
import type { EngineContext } from "../context.ts";
import { isTransient } from "../database.ts";
import type { EngineSession } from "../session.ts";
import type { EngineJob } from "./claims.ts";
import { registerCrons } from "./due-crons.ts";
import { createJobFinder } from "./job-finder.ts";
import { type Lessee, pruneHistory, releaseJobs, renewLeases } from "./leases.ts";
import { createUpkeep } from "./upkeep.ts";
import { createWakeSignal, type WakeSignal, waitUntilAborted } from "./wake-signal.ts";

// EL1. One loop claims, adopts and fires crons, one after the other. If a job is leased to this
// process but not in `inFlight`, the reply to its claim's commit was lost, so the loop may free it.

// A database that does not answer must not keep the process from exiting.
const releaseTimeoutMs = 2_000;

export interface Scheduler {
  start(partitions: "all" | ReadonlySet<string>): void;
  stop(graceMs: number): Promise<void>;
  /** Looks for work now instead of at the next poll; `hasWork` says that there is some. */
  wake(hasWork?: boolean): void;
  readonly inFlight: ReadonlyMap<number, Promise<void>>;
  /** How many jobs were started since the engine was created. */
  startedCount(): number;
  /** The partitions served, null for all. */
  served(): string[] | null;
}

export interface SchedulerOptions {
  readonly context: EngineContext;
  readonly session: EngineSession;
  /**
   * Runs a job, stores its answer and wakes the scheduler if there is more to claim; never throws.
   */
  readonly work: (job: EngineJob) => Promise<void>;
}

/** Creates the scheduler: it decides when to claim jobs, and renews the leases of running ones. */
export function createScheduler({ context, session, work }: SchedulerOptions): Scheduler {
  const wakeSignal = createWakeSignal();
  const { inFlight, startJob, startedCount } = createInFlight(work, () => {
    // Below the limit, every source of new work has already woken the loop.
    if (inFlight.size >= context.parallelism) wakeSignal.raise();
  });
  let partitions: "all" | ReadonlySet<string> = new Set();
  let running: symbol | null = null; // identifies the loop that may claim
  let loop: Promise<void> = Promise.resolve();
  let renewal: NodeJS.Timeout | undefined;
  const lessee = () => ({ holder: context.holder, jobIds: [...inFlight.keys()] });
  const served = () => (partitions === "all" ? null : [...partitions]);
  const finder = createJobFinder(context, served);
  const upkeep = createUpkeep(context, lessee);

  const claim = async (loopId: symbol) => {
    const limit = context.parallelism - inFlight.size;
    if (limit <= 0) return context.pollMs;
    const nowMs = context.nowMs();
    const jobs = await finder.claimDue(limit);
    if (typeof jobs === "number") return jobs;
    if (running !== loopId) return 0; // stopped meanwhile: others adopt these leases, as the process lock is gone
    jobs.forEach(startJob);
    if (jobs.length === 0) return Math.max(1, await finder.msUntilWork(nowMs));
    await context.crash("engine.claim.after-commit");
    // After a full claim there may be more jobs, and no job that ended meanwhile has woken us.
    return jobs.length === limit ? 0 : context.pollMs;
  };

  return {
    inFlight,
    startedCount,
    served,
    wake(hasWork = false) {
      if (hasWork) finder.expectWork();
      wakeSignal.raise();
    },
    start(served) {
      partitions = served;
      if (running !== null) return;
      running = Symbol("loop");
      upkeep.runSoon();
      renewal = setInterval(() => renew(context, lessee()), context.leaseMs / 3);
      const loopId = running;
      const round = async () => {
        await upkeep.run();
        return claim(loopId);
      };
      loop = runLoop({ context, session, wakeSignal, isRunning: () => running === loopId, round });
    },
    async stop(graceMs) {
      running = null;
      wakeSignal.raise();
      await drain(inFlight, loop, graceMs);
      clearInterval(renewal);
      await releaseLeases(context);
      session.close();
    },
  };
}

/** Waits for the loop and the running jobs, but no longer than the grace period. */
async function drain(inFlight: ReadonlyMap<number, Promise<void>>, loop: Promise<void>, graceMs: number) {
  const deadline = AbortSignal.timeout(graceMs);
  await waitUntilAborted(deadline, loop);
  while (inFlight.size > 0 && !deadline.aborted) await waitUntilAborted(deadline, Promise.race(inFlight.values()));
}

/** The running jobs. `onEnd` is called at the end of each, while it still counts. */
function createInFlight(work: SchedulerOptions["work"], onEnd: () => void) {
  const inFlight = new Map<number, Promise<void>>();
  let started = 0;
  const startJob = (job: EngineJob): void => {
    started += 1;
    const done = work(job).finally(() => {
      onEnd();
      inFlight.delete(job.id);
    });
    inFlight.set(job.id, done);
  };
  return { inFlight, startJob, startedCount: () => started };
}

interface LoopParts {
  readonly context: EngineContext;
  readonly session: EngineSession;
  readonly wakeSignal: WakeSignal;
  readonly isRunning: () => boolean;
  /** Looks for work once; returns how long to sleep, in milliseconds. */
  readonly round: () => Promise<number>;
}

/** Looks for work until it is stopped. Never fails. */
async function runLoop({ context, session, wakeSignal, isRunning, round }: LoopParts): Promise<void> {
  let prepared = false;
  let failures = 0;
  while (isRunning()) {
    wakeSignal.reset();
    try {
      await session.ensure();
      if (!prepared) await prepare(context);
      prepared = true;
      const restMs = await round();
      failures = 0;
      if (isRunning()) await wakeSignal.wait(restMs);
    } catch (error) {
      failures += 1;
      if (failures === 1 || !isTransient(error)) {
        context.logger.warn(`the engine could not look for work and will try again: ${messageOf(error)}`, error);
      }
      if (isRunning()) await wakeSignal.wait(Math.min(1_000, 25 * 2 ** Math.min(failures, 6)));
    }
  }
}

function renew(context: EngineContext, lessee: Lessee): void {
  if (lessee.jobIds.length === 0) return;
  renewLeases(context.database, lessee, context.leaseMs).catch((error) => {
    context.logger.warn(`leases could not be renewed: ${messageOf(error)}`, error);
  });
}

async function prepare(context: EngineContext): Promise<void> {
  await registerCrons(context);
  await pruneHistory(context.database, context.nowMs() - context.retentionMs);
}

async function releaseLeases({ database, holder, logger }: EngineContext): Promise<void> {
  try {
    await waitUntilAborted(AbortSignal.timeout(releaseTimeoutMs), releaseJobs(database, holder));
  } catch (error) {
    logger.warn(`leases could not be released; other processes will adopt their jobs: ${messageOf(error)}`, error);
  }
}
