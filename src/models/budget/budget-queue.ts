// Holds calls until a budget has room for them.
//
// BQ1. First come, first served: while a call waits, later calls of the same build queue behind it.
// BQ2. Every wait ends: with room, a refusal, the agent hanging up, or the time limit.
import { setTimeout as sleep } from "node:timers/promises";
import type { Granted, ModelOwner } from "../port.ts";
import type { Attempted } from "./reserve-call.ts";

export interface BudgetQueue {
  isEmpty(buildId: string): boolean;
  /**
   * Waits in the queue, then tries to get room after each settled call of the build. Rejects when
   * the signal aborts.
   */
  grant(owner: ModelOwner, call: QueuedCall, signal: AbortSignal): Promise<Granted>;
  /** How many calls of this owner are waiting. */
  waiting(ownerId: string): number;
  /** Reports that a call of this build was settled. */
  wake(buildId: string): void;
}

interface QueuedCall {
  /** Tries to get room. */
  attempt(): Promise<Attempted>;
  /** Records that the call waits behind others. */
  note(): Promise<void>;
}

/**
 * Poll at this interval, because another process may settle a call, or a person may raise a limit,
 * without notifying us.
 */
const pollMs = 1_000;

interface Waiting {
  readonly ownerId: string;
  /** Tries again. */
  wake: () => void;
}

/** Creates this process's queue. One process answers all calls of a project, so one is enough. */
export function createBudgetQueue(longestWaitMs: number): BudgetQueue {
  const queues = new Map<string, Waiting[]>();
  const wake = (buildId: string): void => queues.get(buildId)?.[0]?.wake();
  return {
    isEmpty: (buildId) => !queues.has(buildId),
    waiting: (ownerId) => [...queues.values()].flat().filter((one) => one.ownerId === ownerId).length,
    wake,
    async grant({ id: ownerId, buildId }, { attempt, note }, signal) {
      const entry: Waiting = { ownerId, wake: () => undefined };
      const queue = queues.get(buildId) ?? [];
      queues.set(buildId, queue);
      queue.push(entry);
      const deadline = performance.now() + longestWaitMs;
      try {
        if (queue[0] !== entry) await note();
        for (;;) {
          const wakeUp = waitForWake(entry, signal);
          const result = queue[0] === entry ? await attempt() : null;
          if (result !== null && !("waitingId" in result)) return result;
          signal.throwIfAborted();
          if (performance.now() > deadline) return tooLong(longestWaitMs);
          await wakeUp;
        }
      } finally {
        queue.splice(queue.indexOf(entry), 1);
        if (queue.length === 0) queues.delete(buildId);
        wake(buildId);
      }
    },
  };
}

/** Resolves when it is time to try again. Create it before each try, so that no wake-up is lost. */
function waitForWake(entry: Waiting, signal: AbortSignal): Promise<void> {
  const controller = new AbortController();
  const endWait = (): void => controller.abort();
  entry.wake = endWait;
  signal.addEventListener("abort", endWait, { once: true });
  return sleep(pollMs, undefined, { signal: controller.signal, ref: false })
    .catch(() => undefined) // woken before the time
    .finally(() => signal.removeEventListener("abort", endWait));
}

const tooLong = (ms: number): Granted => ({
  callId: null,
  isOver: false,
  reason: `other calls have held the rest of the budget for ${Math.round(ms / 1000)} s`,
});
