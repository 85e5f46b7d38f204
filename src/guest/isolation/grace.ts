/** Runs `kill` once the shortest grace asked for is over. */
export interface GraceTimer {
  /** Starts the grace, or shortens the one that runs. */
  shorten(graceMs: number): void;
  clear(): void;
}

/** A deadline that can only come nearer. */
export function createGraceTimer(kill: () => void): GraceTimer {
  let timer: NodeJS.Timeout | null = null;
  let deadline = Number.POSITIVE_INFINITY;
  return {
    shorten: (graceMs) => {
      const asked = performance.now() + graceMs;
      if (asked >= deadline) return;
      deadline = asked;
      if (timer !== null) clearTimeout(timer);
      timer = setTimeout(kill, graceMs);
    },
    clear: () => {
      if (timer !== null) clearTimeout(timer);
      deadline = Number.NEGATIVE_INFINITY;
    },
  };
}
