import type { EngineContext } from "../context.ts";
import { type ClaimRequest, claimJobs, claimUnlimited, type EngineJob } from "./claims.ts";
import { nextDueMs } from "./leases.ts";

/** Finds the jobs that this process may run now. */
export interface JobFinder {
  /** Returns at most `limit` jobs, or how long it is until there may be some, in milliseconds. */
  claimDue(limit: number): Promise<EngineJob[] | number>;
  /**
   * Returns how long to sleep: until the next unleased job due after `afterMs`, at most until the
   * next poll.
   */
  msUntilWork(afterMs: number | null): Promise<number>;
  /** Makes the next claim skip the check whether there is any work. */
  expectWork(): void;
}

/** Creates the finder for the partitions that are served; null for all. */
export function createJobFinder(context: EngineContext, served: () => string[] | null): JobFinder {
  let hasWorkForSure = false;
  const servedWork = () => ({ functionIds: [...context.specs().keys()], partitions: served() });
  const msUntilWork = async (afterMs: number | null): Promise<number> => {
    const dueMs = await nextDueMs(context.database, servedWork(), afterMs);
    return Math.min(context.pollMs, Math.max(0, (dueMs ?? Number.POSITIVE_INFINITY) - context.nowMs()));
  };
  const requestOf = (limit: number): ClaimRequest => {
    const { holder, leaseMs } = context;
    return { limit, holder, leaseMs, nowMs: context.nowMs(), ...servedWork() };
  };
  const claimDue = async (limit: number): Promise<EngineJob[] | number> => {
    const request = requestOf(limit);
    const knowsOfWork = hasWorkForSure;
    hasWorkForSure = false;
    const claimedJobs = knowsOfWork ? await claimWithoutLock(context, request) : null;
    if (claimedJobs !== null) return claimedJobs;
    // Most polls find nothing, so check first without the lock that other processes wait for.
    const restMs = await msUntilWork(null);
    if (restMs > 0) return restMs;
    const freshRequest = requestOf(limit);
    return (
      (await claimWithoutLock(context, freshRequest)) ??
      (await claimJobs(context.database, freshRequest, () => context.crash("engine.claim.before-commit")))
    );
  };
  return {
    claimDue,
    msUntilWork,
    expectWork: () => {
      hasWorkForSure = true;
    },
  };
}

/** Returns null when a function limits how many of its runs work at once. */
async function claimWithoutLock(context: EngineContext, request: ClaimRequest): Promise<EngineJob[] | null> {
  if ([...context.specs().values()].some((spec) => spec.isLimited)) return null;
  await context.crash("engine.claim.before-commit");
  return claimUnlimited(context.database, request);
}
