/** Calls with the same id run one after the other. */
export interface Turns {
  inTurn<T>(id: string, act: () => Promise<T>): Promise<T>;
  /** Resolves when the calls made so far have ended. */
  allSettled(): Promise<unknown>;
}

export function createTurns(): Turns {
  const turns = new Map<string, Promise<unknown>>();
  return {
    inTurn(id, act) {
      const mine = (turns.get(id) ?? Promise.resolve()).then(act);
      const settled = mine.then(
        () => undefined,
        () => undefined, // The caller gets the error; the next one only waits.
      );
      turns.set(id, settled);
      void settled.then(() => turns.get(id) === settled && turns.delete(id));
      return mine;
    },
    allSettled: () => Promise.all(turns.values()),
  };
}
