import type { BuildRow } from "../port.ts";

/**
 * A large column that is read once and cached in memory, because it changes far less often than its
 * rows are read. The same version of a row always has the same value.
 */
export interface KeptColumn {
  readonly name: string;
  version(row: object): string;
  find(version: string): unknown;
  /**
   * Caches a committed value; a transaction that rolls back may have read one that never existed.
   */
  keep(version: string, value: unknown): void;
}

const mostKept = 50;

/** Caches builds' plans, because every step reads its build's row. A change raises the version. */
export function createKeptPlans(): KeptColumn {
  const plans = new Map<string, unknown>();
  return {
    name: "plan",
    version: (row) => {
      const { id, planVersion } = row as BuildRow;
      return `${id} ${planVersion}`;
    },
    find: (version) => plans.get(version),
    keep(version, plan) {
      const [oldest] = plans.keys();
      if (plans.size >= mostKept && oldest !== undefined) plans.delete(oldest);
      plans.set(version, frozen(plan));
    },
  };
}

/** Freezes a value, because many callers share it. */
function frozen<Value>(value: Value): Value {
  if (typeof value !== "object" || value === null) return value;
  for (const inner of Object.values(value)) frozen(inner);
  return Object.freeze(value);
}
