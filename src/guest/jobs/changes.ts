/** Wakes whoever waits for something to change. */
export interface Changes {
  announce(): void;
  /** Settles at the next change, after `waitMs`, or when the signal fires. */
  next(waitMs: number, signal: AbortSignal): Promise<void>;
}

/** A bell without memory: callers look first, wait, and look again. */
export function createChanges(): Changes {
  const waiting = new Set<() => void>();
  return {
    announce: () => {
      for (const wake of [...waiting]) wake();
    },
    next: (waitMs, signal) =>
      new Promise((resolve) => {
        const wake = (): void => {
          clearTimeout(timer);
          waiting.delete(wake);
          signal.removeEventListener("abort", wake);
          resolve();
        };
        const timer = setTimeout(wake, waitMs);
        waiting.add(wake);
        signal.addEventListener("abort", wake);
        if (signal.aborted) wake();
      }),
  };
}

/** Waits until `holds` or `waitMs` are over or the signal fires. */
export async function waitUntil(
  changes: Changes,
  holds: () => boolean,
  options: { waitMs: number; signal: AbortSignal },
): Promise<void> {
  const deadline = performance.now() + options.waitMs;
  while (!holds() && !options.signal.aborted) {
    const leftMs = deadline - performance.now();
    if (leftMs <= 0) return;
    await changes.next(leftMs, options.signal);
  }
}
