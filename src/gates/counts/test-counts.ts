import type { TestReport } from "../port.ts";
import { outputLines } from "../text.ts";
import type { TestCounts } from "./count.ts";
import { countJunit } from "./junit.ts";
import { countRunnerSummary } from "./runner-summary.ts";
import { countTap } from "./tap.ts";

/**
 * Counts the tests from JUnit reports, otherwise from TAP, otherwise from a runner's summary. Null
 * if there is no count.
 */
export function countTests(output: string, junit: readonly { readonly xml: string }[]): TestCounts | null {
  const lines = outputLines(output);
  const fromJunit = countJunit(junit);
  if (fromJunit !== null && fromJunit.total > 0) return { ...fromJunit, source: "junit" };
  const fromTap = countTap(lines);
  if (fromTap !== null) return { ...fromTap, source: "tap" };
  const fromSummary = countRunnerSummary(lines);
  if (fromSummary !== null) return { ...fromSummary, source: "runner" };
  return fromJunit === null ? null : { ...fromJunit, source: "junit" };
}

/** Counts the tests of the report that the plan requires; null when there is none. */
export function countReport({ format, text }: TestReport): TestCounts | null {
  if (text === null) return null;
  const counts = format === "junit" ? countJunit([{ xml: text }]) : countTap(outputLines(text));
  return counts === null ? null : { ...counts, source: format };
}
