/** Signals that mean "leave": Ctrl-C, a polite kill, and the terminal being closed. */
const leaving = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

const causes = { SIGINT: "Ctrl-C", SIGTERM: "SIGTERM", SIGHUP: "SIGHUP: its terminal was closed" } as const;

/** Nobody is left to see what the command prints (`| head`). */
export const readerGone = "a pipe that nobody reads any more";

/**
 * npm hands a Ctrl-C on that the terminal has sent to us already; so soon after the first, it is
 * the same one.
 */
const sameMs = 300;

export interface SignalSource {
  on(signal: (typeof leaving)[number], listener: () => void): unknown;
  off(signal: (typeof leaving)[number], listener: () => void): unknown;
}

/** Ctrl-C, counted: the first asks, the second insists. */
export interface Interrupts {
  readonly count: number;
  /** What the first one was, in words. */
  readonly cause: string;
  /**
   * Calls back at every one from now on, with how many there have been; and at once when there were
   * some.
   */
  on(listener: (count: number) => void): void;
  /** As if Ctrl-C had been typed, for this cause. */
  raise(cause?: string): void;
  /** Resolves at the next one. */
  next(): Promise<void>;
  dispose(): void;
}

export function watchInterrupts(source: SignalSource, now: () => number = Date.now): Interrupts {
  let count = 0;
  let last = Number.NEGATIVE_INFINITY;
  const listeners: ((count: number) => void)[] = [];
  let first: string = causes.SIGINT;
  const raise = (cause: string = causes.SIGINT): void => {
    if (now() - last < sameMs) return;
    last = now();
    count += 1;
    if (count === 1) first = cause;
    for (const listener of [...listeners]) listener(count);
  };
  const signalled = leaving.map((signal) => ({ signal, listener: (): void => raise(causes[signal]) }));
  for (const { signal, listener } of signalled) source.on(signal, listener);
  return {
    get count() {
      return count;
    },
    get cause() {
      return first;
    },
    on: (listener) => {
      listeners.push(listener);
      if (count > 0) listener(count);
    },
    raise,
    next: () => new Promise((resolve) => listeners.push(() => resolve())),
    dispose: () => {
      for (const { signal, listener } of signalled) source.off(signal, listener);
    },
  };
}
