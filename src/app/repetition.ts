/** Work that a process repeats. */
export interface Repetition {
  start(): void;
  /** Waits for the work under way, after which there is no more. */
  stop(): Promise<void>;
}

/** Repeats work, which never fails and returns the pause in ms until the next time. */
export function createRepetition(work: () => Promise<number>): Repetition {
  let timer: NodeJS.Timeout | null = null;
  let working: Promise<void> = Promise.resolve();
  const next = (): void => {
    working = work().then((pauseMs) => {
      if (timer !== null) timer = setTimeout(next, pauseMs);
    });
  };
  return {
    start() {
      timer = setTimeout(next, 0);
    },
    async stop() {
      if (timer !== null) clearTimeout(timer);
      timer = null;
      await working;
    },
  };
}
