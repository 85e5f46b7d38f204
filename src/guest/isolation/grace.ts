/** Calls `kill` when the shortest requested grace period is over. */
export interface GraceTimer {
  /** Starts the grace period, or shortens the running one. */
  shorten(graceMs: number): void;
  clear(): void;
}

/** Creates a timer whose deadline can only move closer. */
export function createGraceTimer(kill: () => void): GraceTimer {
  let timer: NodeJS.Timeout | null = null;
  let deadline = Number.POSITIVE_INFINITY;
  return {
    shorten: (graceMs) => {
      const requested = performance.now() + graceMs;
      if (requested >= deadline) return;
      deadline = requested;
      if (timer !== null) clearTimeout(timer);
      timer = setTimeout(kill, graceMs);
    },
    clear: () => {
      if (timer !== null) clearTimeout(timer);
      deadline = Number.NEGATIVE_INFINITY;
    },
  };
}
