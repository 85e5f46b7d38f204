import type { Random } from "../support/random-plan.ts";

// The seed decides which process continues: a process that wants an effect outside itself waits for
// a turn, and turns are given one at a time. The effects of a turn run until the next request for
// one before anything else happens.

/** A process that drives builds; once it is dead, none of its code runs again. */
export interface Orchestrator {
  readonly name: string;
  isAlive: boolean;
}

export interface Turns {
  /** Resolves when it is this process's turn; never if its orchestrator dies first. */
  wait(of: Orchestrator, what: string): Promise<void>;
  readonly waiting: number;
  /**
   * Gives a turn to one of the waiting processes, and returns which; `settled` resolves once it has
   * run as far as it can.
   */
  give(random: Random): string;
  /** Forgets everything about a dead orchestrator. */
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
