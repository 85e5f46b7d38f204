/** Ends an agent that says nothing for a time, unless it waits for a person or its provider. */
export function createSilenceLimit(
  idleMs: number,
  { isPaused, end }: { readonly isPaused: () => Promise<boolean>; readonly end: () => void },
): { restart(): void; hold(): () => void; stop(): void } {
  const stalled = async (): Promise<void> => {
    const timer = idle;
    const waits = await isPaused();
    if (idle !== timer) return; // It has reported something, is waiting for a person, or has ended.
    if (waits) return restart();
    end();
  };
  let idle: NodeJS.Timeout | null = setTimeout(stalled, idleMs);
  let held = 0;
  const restart = (): void => {
    if (idle !== null) clearTimeout(idle);
    idle = held === 0 ? setTimeout(stalled, idleMs) : null;
  };
  return {
    restart,
    hold() {
      held += 1;
      restart();
      return () => {
        held -= 1;
        restart();
      };
    },
    stop() {
      if (idle !== null) clearTimeout(idle);
      idle = null;
    },
  };
}
