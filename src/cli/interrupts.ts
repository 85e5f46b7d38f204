/** Signals that ask the command to stop: Ctrl-C, a polite kill, and a closed terminal. */
const leaving = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

const causes = { SIGINT: "Ctrl-C", SIGTERM: "SIGTERM", SIGHUP: "SIGHUP: its terminal was closed" } as const;

/** Nobody reads what the command prints any more (`| head`). */
export const readerGone = "a closed pipe";

/**
 * npm forwards a Ctrl-C that the terminal already sent to us; one this soon after the first is a
 * duplicate.
 */
const sameMs = 300;

export interface SignalSource {
  on(signal: (typeof leaving)[number], listener: () => void): unknown;
  off(signal: (typeof leaving)[number], listener: () => void): unknown;
}

/** Counts interrupts: the first one asks to stop, the second one insists. */
export interface Interrupts {
  readonly count: number;
  /** The cause of the first interrupt, in words. */
  readonly cause: string;
  /**
   * Calls back on every interrupt with the count so far and its cause, and at once if there were
   * any already.
   */
  on(listener: (count: number, cause: string) => void): void;
  /** Acts as if Ctrl-C had been typed, for this cause. */
  raise(cause?: string): void;
  /** Resolves at the next interrupt. */
  next(): Promise<void>;
  dispose(): void;
}

export function watchInterrupts(source: SignalSource, now: () => number = Date.now): Interrupts {
  let count = 0;
  let last = Number.NEGATIVE_INFINITY;
  const listeners: ((count: number, cause: string) => void)[] = [];
  let first: string = causes.SIGINT;
  const raise = (cause: string = causes.SIGINT): void => {
    if (now() - last < sameMs) return;
    last = now();
    count += 1;
    if (count === 1) first = cause;
    for (const listener of [...listeners]) listener(count, cause);
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
      if (count > 0) listener(count, first);
    },
    raise,
    next: () => new Promise((resolve) => listeners.push(() => resolve())),
    dispose: () => {
      for (const { signal, listener } of signalled) source.off(signal, listener);
    },
  };
}
