import { messageOf } from "../domain/errors.ts";
import { createBell, within } from "./bell.ts";
import { type ClaimRequest, claimJobs, claimUnlimited, type Job } from "./claims.ts";
import type { EngineContext } from "./context.ts";
import { fireCrons, registerCrons } from "./crons.ts";
import { isTransient } from "./database.ts";
import { adoptJobs, nextDueMs, prune, releaseJobs, renewLeases } from "./leases.ts";
import type { Session } from "./session.ts";

// L1. One loop claims, adopts and fires crons, one after the other: a job leased to this process
// and not in `inFlight` is one whose claim was committed but not answered, so the loop may take it
// back.

// A database that does not answer must not keep a process from ending.
const releaseTimeoutMs = 2_000;

export interface Scheduler {
  start(partitions: "all" | ReadonlySet<string>): void;
  stop(graceMs: number): Promise<void>;
  /** Looks for work now rather than at the next poll; `surely`, when there is some. */
  wake(surely?: boolean): void;
  readonly inFlight: ReadonlyMap<number, Promise<void>>;
  /** How many jobs were begun since the engine was made. */
  begun(): number;
  /** The partitions served, null for all. */
  served(): string[] | null;
}

export interface SchedulerOptions {
  readonly context: EngineContext;
  readonly session: Session;
  /** Does a job, writes its answer and wakes this when there is more to claim; must not throw. */
  readonly work: (job: Job) => Promise<void>;
}

/** Decides when jobs are claimed, and keeps the leases of those under way. */
export function createScheduler({ context, session, work }: SchedulerOptions): Scheduler {
  const inFlight = new Map<number, Promise<void>>();
  const bell = createBell();
  let partitions: "all" | ReadonlySet<string> = new Set();
  let running: symbol | null = null; // of the loop that may claim
  let loop: Promise<void> = Promise.resolve();
  let renewal: NodeJS.Timeout | undefined;
  let upkeepDueMs = 0;
  let isSure = false;
  let begun = 0;
  const lessee = () => ({ holder: context.holder, jobIds: [...inFlight.keys()] });
  const served = () => (partitions === "all" ? null : [...partitions]);
  const wanted = () => ({ functionIds: [...context.specs().keys()], partitions: served() });

  const begin = (job: Job) => {
    begun += 1;
    const done = work(job).finally(() => {
      // Else whoever had something for us has rung.
      if (inFlight.size >= context.parallelism) bell.ring();
      inFlight.delete(job.id);
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

  /**
   * How long until a free job is due, of those due after this moment if given; at most until the
   * next poll.
   */
  const restOf = async (afterMs: number | null): Promise<number> => {
    const dueMs = await nextDueMs(context.database, wanted(), afterMs);
    return Math.min(context.pollMs, Math.max(0, (dueMs ?? Number.POSITIVE_INFINITY) - context.nowMs()));
  };

  const claimAtOnce = async (request: ClaimRequest): Promise<Job[] | null> => {
    if ([...context.specs().values()].some((spec) => spec.isLimited)) return null;
    await context.crash("engine.claim.before-commit");
    return claimUnlimited(context.database, request);
  };

  const requestOf = (limit: number): ClaimRequest => {
    const { holder, leaseMs } = context;
    return { limit, holder, leaseMs, nowMs: context.nowMs(), ...wanted() };
  };

  /** Jobs that are due now, or how long it is until there may be some. */
  const claimDue = async (limit: number): Promise<Job[] | number> => {
    const request = requestOf(limit);
    const sure = isSure;
    isSure = false;
    const awaited = sure ? await claimAtOnce(request) : null;
    if (awaited !== null) return awaited;
    // Many looks find nothing: those take no lock that others wait for.
    const restMs = await restOf(null);
    if (restMs > 0) return restMs;
    const again = requestOf(limit);
    return (
      (await claimAtOnce(again)) ??
      (await claimJobs(context.database, again, () => context.crash("engine.claim.before-commit")))
    );
  };

  const claim = async (mine: symbol) => {
    const limit = context.parallelism - inFlight.size;
    if (limit <= 0) return context.pollMs;
    const nowMs = context.nowMs();
    const jobs = await claimDue(limit);
    if (typeof jobs === "number") return jobs;
    if (running !== mine) return 0; // stopped meanwhile: these leases lost their process lock, others adopt them
    jobs.forEach(begin);
    if (jobs.length > 0) await context.crash("engine.claim.after-commit");
    // As many as were asked for: there may be more, and who has ended meanwhile has not rung for
    // them.
    if (jobs.length > 0) return jobs.length === limit ? 0 : context.pollMs;
    return Math.max(1, await restOf(nowMs));
  };

  const turn = async (mine: symbol): Promise<number> => {
    await session.ensure();
    await upkeep();
    return await claim(mine);
  };

  const prepare = async () => {
    await session.ensure();
    await registerCrons(context);
    await prune(context.database, context.nowMs() - context.retentionMs);
  };

  const run = async (mine: symbol) => {
    let prepared = false;
    let troubles = 0;
    while (running === mine) {
      bell.reset();
      try {
        if (!prepared) await prepare();
        prepared = true;
        const restMs = await turn(mine);
        troubles = 0;
        if (running === mine) await bell.rung(restMs);
      } catch (error) {
        troubles += 1;
        if (troubles === 1 || !isTransient(error)) {
          context.logger.warn(`the engine could not look for work, and tries again: ${messageOf(error)}`, error);
        }
        if (running === mine) await bell.rung(Math.min(1_000, 25 * 2 ** Math.min(troubles, 6)));
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
    begun: () => begun,
    served,
    wake(surely = false) {
      isSure ||= surely;
      bell.ring();
    },
    start(served) {
      partitions = served;
      if (running !== null) return;
      running = Symbol("loop");
      upkeepDueMs = 0;
      renewal = setInterval(renew, context.leaseMs / 3);
      loop = run(running);
    },
    async stop(graceMs) {
      running = null;
      bell.ring();
      const over = AbortSignal.timeout(graceMs);
      await within(over, loop);
      while (inFlight.size > 0 && !over.aborted) await within(over, Promise.race(inFlight.values()));
      clearInterval(renewal);
      try {
        await within(AbortSignal.timeout(releaseTimeoutMs), releaseJobs(context.database, context.holder));
      } catch (error) {
        context.logger.warn(`leases could not be released, others adopt them: ${messageOf(error)}`, error);
      }
      session.close();
    },
  };
}
