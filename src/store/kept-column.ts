import type { BuildRow } from "./port.ts";

/**
 * A large column that is read once and kept in memory, for tables whose rows are read far more
 * often than it changes. The same version of a row always has the same value.
 */
export interface KeptColumn {
  readonly name: string;
  version(row: object): string;
  find(version: string): unknown;
  /**
   * Only for what is committed: a transaction that is rolled back may have read a value that never
   * was.
   */
  keep(version: string, value: unknown): void;
}

const mostKept = 50;

/**
 * A build's plan: every step of every task reads the build's row, and whoever changes the plan
 * raises its version.
 */
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

/** Many share it, so nobody may change it. */
function frozen<Value>(value: Value): Value {
  if (typeof value !== "object" || value === null) return value;
  for (const inner of Object.values(value)) frozen(inner);
  return Object.freeze(value);
}
