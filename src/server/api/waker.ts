/** Wakes one waiter. If nobody waits, the next wait ends at once. */
export interface Waker {
  wake(): void;
  /** Resolves at the first wake since the last wait ended, or after this many ms. */
  wait(ms: number): Promise<void>;
}

/** Creates a waker; promises of `node:timers` with signals would cost several times as much. */
export function createWaker(): Waker {
  let isAwake = false;
  let endWait: (() => void) | null = null;
  return {
    wake() {
      isAwake = true;
      endWait?.();
    },
    async wait(ms) {
      if (!isAwake)
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, ms);
          endWait = () => {
            clearTimeout(timer);
            resolve();
          };
        });
      endWait = null;
      isAwake = false;
    },
  };
}
