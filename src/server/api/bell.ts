/** Wakes one waiter. A ring before it waits is kept for it. */
export interface Bell {
  ring(): void;
  /** Resolves at the first ring since the last call returned, or after this many ms. */
  rung(ms: number): Promise<void>;
}

/** Creates a bell; promises of `node:timers` with signals would cost several times as much. */
export function createBell(): Bell {
  let isRung = false;
  let wake: (() => void) | null = null;
  return {
    ring() {
      isRung = true;
      wake?.();
    },
    async rung(ms) {
      if (!isRung)
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, ms);
          wake = () => {
            clearTimeout(timer);
            resolve();
          };
        });
      wake = null;
      isRung = false;
    },
  };
}
