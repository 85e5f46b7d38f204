/** Waits until the promise settles or the signal aborts; rejects if the promise does so first. */
export async function waitUntilAborted(signal: AbortSignal, promise: Promise<unknown>): Promise<void> {
  if (signal.aborted) return;
  let onAbort: () => void = () => undefined;
  const aborted = new Promise<void>((resolve) => {
    onAbort = resolve;
    signal.addEventListener("abort", onAbort, { once: true });
  });
  await Promise.race([promise, aborted]);
  signal.removeEventListener("abort", onAbort);
}

/** Lets a loop sleep until there may be something to do. */
export interface WakeSignal {
  /** Ends the wait; while nobody waits, the signal is kept until the next `reset`. */
  raise(): void;
  /** Forgets earlier signals. */
  reset(): void;
  /**
   * Resolves at the next signal, at once if there was one since the reset, or after the timeout.
   */
  wait(timeoutMs: number): Promise<void>;
}

export function createWakeSignal(): WakeSignal {
  let isRaised = false;
  let endWait: () => void = () => undefined;
  return {
    raise() {
      isRaised = true;
      endWait();
    },
    reset() {
      isRaised = false;
    },
    wait(timeoutMs) {
      if (isRaised) return Promise.resolve();
      return new Promise((resolve) => {
        const timer = setTimeout(resolve, timeoutMs);
        endWait = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    },
  };
}
