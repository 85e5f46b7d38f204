/** Signals that mean "leave": Ctrl-C, a polite kill, and the terminal being closed. */
const leaving = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** npm hands a Ctrl-C on that the terminal has sent to us already; so soon after the first, it is the same one. */
const sameMs = 300;

export interface SignalSource {
  on(signal: (typeof leaving)[number], listener: () => void): unknown;
  off(signal: (typeof leaving)[number], listener: () => void): unknown;
}

/** Ctrl-C, counted: the first asks, the second insists. */
export interface Interrupts {
  readonly count: number;
  /** Calls back at every one from now on, with how many there have been; and at once when there were some. */
  on(listener: (count: number) => void): void;
  /** As if Ctrl-C had been typed. */
  raise(): void;
  /** Resolves at the next one. */
  next(): Promise<void>;
  dispose(): void;
}

export function watchInterrupts(source: SignalSource, now: () => number = Date.now): Interrupts {
  let count = 0;
  let last = Number.NEGATIVE_INFINITY;
  const listeners: ((count: number) => void)[] = [];
  const raise = (): void => {
    if (now() - last < sameMs) return;
    last = now();
    count += 1;
    for (const listener of [...listeners]) listener(count);
  };
  for (const signal of leaving) source.on(signal, raise);
  return {
    get count() {
      return count;
    },
    on: (listener) => {
      listeners.push(listener);
      if (count > 0) listener(count);
    },
    raise,
    next: () => new Promise((resolve) => listeners.push(() => resolve())),
    dispose: () => {
      for (const signal of leaving) source.off(signal, raise);
    },
  };
}
