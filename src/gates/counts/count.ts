import type { Evidence } from "../../domain/gate/finding.ts";

export interface Counts {
  readonly total: number;
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  /** Present if the report counts them. */
  readonly assertions?: number;
}

export type TestCounts = NonNullable<Evidence["tests"]>;

/** Adds up counts of several runs (workspaces, packages); null for none. */
export function sumCounts(all: readonly Counts[]): Counts | null {
  if (all.length === 0) return null;
  return all.reduce((sum, one) => ({
    total: sum.total + one.total,
    passed: sum.passed + one.passed,
    failed: sum.failed + one.failed,
    skipped: sum.skipped + one.skipped,
    ...withAssertions(sum.assertions === undefined ? one.assertions : sum.assertions + (one.assertions ?? 0)),
  }));
}

/** Builds counts from the number of each kind. */
export function makeCounts(passed: number, failed: number, skipped: number): Counts {
  return { total: passed + failed + skipped, passed, failed, skipped };
}

/** Returns the field `assertions`, or nothing when the report has no number. */
export const withAssertions = (assertions: number | undefined): { assertions?: number } =>
  assertions === undefined ? {} : { assertions };
