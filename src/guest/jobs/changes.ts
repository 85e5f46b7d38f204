/** Notifies waiters that something changed. */
export interface ChangeNotifier {
  announce(): void;
  /** Resolves at the next change, after `waitMs`, or when the signal aborts. */
  next(waitMs: number, signal: AbortSignal): Promise<void>;
}

/** Creates a notifier without memory: callers check their condition, wait, and check again. */
export function createChanges(): ChangeNotifier {
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

/** Waits until `holds` is true, `waitMs` have passed or the signal aborts. */
export async function waitUntil(
  changes: ChangeNotifier,
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
