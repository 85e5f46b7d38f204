/** Waits for a promise until the signal, whichever comes first. */
export async function within(signal: AbortSignal, promise: Promise<unknown>): Promise<void> {
  if (signal.aborted) return;
  let stop: () => void = () => undefined;
  const aborted = new Promise<void>((resolve) => {
    stop = resolve;
    signal.addEventListener("abort", stop, { once: true });
  });
  await Promise.race([promise, aborted]);
  signal.removeEventListener("abort", stop);
}

/** Lets a loop rest until there may be something to do. */
export interface Bell {
  ring(): void;
  /** Forgets earlier rings. */
  reset(): void;
  /** Resolves at the next ring, at once if it rang since the reset, or after the time. */
  rung(timeoutMs: number): Promise<void>;
}

/** A ring while nobody rests is kept until the next `reset`. */
export function createBell(): Bell {
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
