import type { Random } from "../support/random-plan.ts";

// The seed decides which process continues: one that wants to do something outside itself waits for
// a turn, and one turn is given at a time. Its effects run until the next request for a turn before
// anything else happens.

/** A process that drives builds; once it is dead, none of its code runs again. */
export interface Orchestrator {
  readonly name: string;
  isAlive: boolean;
}

export interface Turns {
  /** Resolves when it is this one's turn; never when its orchestrator dies first. */
  wait(of: Orchestrator, what: string): Promise<void>;
  readonly waiting: number;
  /**
   * Gives one of those who wait its turn, and tells which; how far it comes is seen once all has
   * `settled`.
   */
  give(random: Random): string;
  /** Everything of a dead orchestrator is forgotten. */
  forget(of: Orchestrator): void;
}

export function createTurns(): Turns {
  let open: { of: Orchestrator; what: string; resume: () => void }[] = [];
  return {
    wait: (of, what) => new Promise((resume) => open.push({ of, what, resume })),
    get waiting() {
      return open.length;
    },
    give(random) {
      const [chosen] = open.splice(random.between(0, open.length - 1), 1);
      chosen!.resume();
      return `${chosen!.of.name} ${chosen!.what}`;
    },
    forget(of) {
      open = open.filter((turn) => turn.of !== of);
    },
  };
}

/** Resolves once everything that can run without a turn has run. */
export const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
