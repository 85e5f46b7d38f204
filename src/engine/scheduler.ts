import { messageOf } from "../domain/errors.ts";
import { claimJobs, type Job } from "./claims.ts";
import type { EngineContext } from "./context.ts";
import { fireCrons, registerCrons } from "./crons.ts";
import { isTransient } from "./database.ts";
import { adoptJobs, nextDueMs, prune, releaseJobs, renewLeases } from "./leases.ts";
import type { Session } from "./session.ts";

// L1. One loop claims, adopts and fires crons, one after the other: a job leased to this process and not in `inFlight`
//     is one whose claim was committed but not answered, so the loop may take it back.

export interface Scheduler {
  start(partitions: "all" | ReadonlySet<string>): void;
  stop(graceMs: number): Promise<void>;
  /** Looks for work now rather than at the next poll. */
  wake(): void;
  readonly inFlight: ReadonlyMap<number, Promise<void>>;
  /** The partitions served, null for all. */
  served(): string[] | null;
}

export interface SchedulerOptions {
  readonly context: EngineContext;
  readonly session: Session;
  /** Does a job and writes its answer; must not throw. */
  readonly work: (job: Job) => Promise<void>;
}

/** Decides when jobs are claimed, and keeps the leases of those under way. */
export function createScheduler({ context, session, work }: SchedulerOptions): Scheduler {
  const inFlight = new Map<number, Promise<void>>();
  const bell = createBell();
  let partitions: "all" | ReadonlySet<string> = new Set();
  let running = false;
  let loop: Promise<void> = Promise.resolve();
  let renewal: NodeJS.Timeout | undefined;
  let upkeepDueMs = 0;
  const lessee = () => ({ holder: context.holder, jobIds: [...inFlight.keys()] });
  const served = () => (partitions === "all" ? null : [...partitions]);
  const wanted = () => ({ functionIds: [...context.specs().keys()], partitions: served() });

  const begin = (job: Job) => {
    const done = work(job).finally(() => {
      inFlight.delete(job.id);
      bell.ring();
    });
    inFlight.set(job.id, done);
  };

  const upkeep = async () => {
    if (performance.now() < upkeepDueMs) return;
    await context.crash("engine.adopt.before-commit");
    await adoptJobs(context.database, lessee());
    await context.crash("engine.adopt.after-commit");
    await fireCrons(context);
    upkeepDueMs = performance.now() + context.pollMs;
  };

  const claim = async () => {
    const limit = context.parallelism - inFlight.size;
    if (limit <= 0) return context.pollMs;
    const { holder, leaseMs } = context;
    const request = { limit, holder, leaseMs, nowMs: context.nowMs(), ...wanted() };
    const jobs = await claimJobs(context.database, request, () => context.crash("engine.claim.before-commit"));
    jobs.forEach(begin);
    if (jobs.length > 0) await context.crash("engine.claim.after-commit");
    if (jobs.length > 0) return context.pollMs;
    const dueMs = await nextDueMs(context.database, wanted(), request.nowMs);
    return Math.min(context.pollMs, Math.max(1, (dueMs ?? Number.POSITIVE_INFINITY) - context.nowMs()));
  };

  const turn = async (): Promise<number> => {
    await session.ensure();
    await upkeep();
    return await claim();
  };

  const prepare = async () => {
    await session.ensure();
    await registerCrons(context);
    await prune(context.database, context.nowMs() - context.retentionMs);
  };

  const run = async () => {
    let prepared = false;
    let troubles = 0;
    while (running) {
      bell.reset();
      try {
        if (!prepared) await prepare();
        prepared = true;
        const restMs = await turn();
        troubles = 0;
        if (running) await bell.rung(restMs);
      } catch (error) {
        troubles += 1;
        if (troubles === 1 || !isTransient(error)) {
          context.logger.warn(`the engine could not look for work, and tries again: ${messageOf(error)}`, error);
        }
        if (running) await bell.rung(Math.min(1_000, 25 * 2 ** Math.min(troubles, 6)));
      }
    }
  };

  const renew = () => {
    if (inFlight.size === 0) return;
    renewLeases(context.database, lessee(), context.leaseMs).catch((error) => {
      context.logger.warn(`leases could not be renewed: ${messageOf(error)}`, error);
    });
  };

  return {
    inFlight,
    served,
    wake: bell.ring,
    start(served) {
      partitions = served;
      if (running) return;
      running = true;
      upkeepDueMs = 0;
      renewal = setInterval(renew, context.leaseMs / 3);
      loop = run();
    },
    async stop(graceMs) {
      running = false;
      bell.ring();
      const over = AbortSignal.timeout(graceMs);
      await within(over, loop);
      while (inFlight.size > 0 && !over.aborted) await within(over, Promise.race(inFlight.values()));
      clearInterval(renewal);
      try {
        await releaseJobs(context.database, context.holder);
      } catch (error) {
        context.logger.warn(`leases could not be released, others adopt them: ${messageOf(error)}`, error);
      }
      await session.close();
    },
  };
}

/** Waits for a promise until the signal, whichever comes first. */
async function within(signal: AbortSignal, promise: Promise<unknown>): Promise<void> {
  if (signal.aborted) return;
  let stop: () => void = () => undefined;
  const aborted = new Promise<void>((resolve) => {
    stop = resolve;
    signal.addEventListener("abort", stop, { once: true });
  });
  await Promise.race([promise, aborted]);
  signal.removeEventListener("abort", stop);
}

interface Bell {
  ring(): void;
  /** Forgets earlier rings. */
  reset(): void;
  /** Resolves at the next ring, at once if it rang since the reset, or after the time. */
  rung(timeoutMs: number): Promise<void>;
}

function createBell(): Bell {
  let rang = false;
  let awaken: () => void = () => undefined;
  return {
    ring() {
      rang = true;
      awaken();
    },
    reset() {
      rang = false;
    },
    rung(timeoutMs) {
      if (rang) return Promise.resolve();
      return new Promise((resolve) => {
        const timer = setTimeout(resolve, timeoutMs);
        awaken = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    },
  };
}
