// Holds calls until a budget has room for them.
//
// B1. First come, first served: while a call of a build waits, later ones of that build wait behind
// it.
// B2. No wait is endless: it ends with room, a refusal, the agent hanging up, or its time limit.
import { setTimeout as sleep } from "node:timers/promises";
import type { Granted, ModelOwner } from "./port.ts";
import type { Attempted } from "./reserve-call.ts";

export interface BudgetQueue {
  isEmpty(buildId: string): boolean;
  /**
   * Asks for room in order, and again after each settled call of the build. Rejects when the signal
   * aborts.
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
const lookAgainMs = 1_000;

interface Waiting {
  readonly ownerId: string;
  /** Tries again. */
  wake: () => void;
}

/** Creates the queue of this process; one process answers all calls of a project. */
export function createBudgetQueue(longestWaitMs: number): BudgetQueue {
  const queues = new Map<string, Waiting[]>();
  const wake = (buildId: string): void => queues.get(buildId)?.[0]?.wake();
  return {
    isEmpty: (buildId) => !queues.has(buildId),
    waiting: (ownerId) => [...queues.values()].flat().filter((one) => one.ownerId === ownerId).length,
    wake,
    async grant({ id: ownerId, buildId }, { attempt, note }, signal) {
      const mine: Waiting = { ownerId, wake: () => undefined };
      const queue = queues.get(buildId) ?? [];
      queues.set(buildId, queue);
      queue.push(mine);
      const deadline = performance.now() + longestWaitMs;
      try {
        if (queue[0] !== mine) await note();
        for (;;) {
          const woken = wakening(mine, signal);
          const attempted = queue[0] === mine ? await attempt() : null;
          if (attempted !== null && !("waitingId" in attempted)) return attempted;
          signal.throwIfAborted();
          if (performance.now() > deadline) return tooLong(longestWaitMs);
          await woken;
        }
      } finally {
        queue.splice(queue.indexOf(mine), 1);
        if (queue.length === 0) queues.delete(buildId);
        wake(buildId);
      }
    },
  };
}

/**
 * Resolves when it is time to try again. Created before each try, so that no wake-up in between is
 * lost.
 */
function wakening(mine: Waiting, signal: AbortSignal): Promise<void> {
  const over = new AbortController();
  const stop = (): void => over.abort();
  mine.wake = stop;
  signal.addEventListener("abort", stop, { once: true });
  return sleep(lookAgainMs, undefined, { signal: over.signal, ref: false })
    .catch(() => undefined) // It was woken.
    .finally(() => signal.removeEventListener("abort", stop));
}

const tooLong = (ms: number): Granted => ({
  callId: null,
  isOver: false,
  reason: `other calls have held the rest of the budget for ${Math.round(ms / 1000)} s`,
});
