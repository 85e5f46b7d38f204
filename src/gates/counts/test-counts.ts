import type { TestReport } from "../port.ts";
import { outputLines } from "../text.ts";
import type { TestCounts } from "./count.ts";
import { countJunit } from "./junit.ts";
import { countRunnerSummary } from "./runner-summary.ts";
import { countTap } from "./tap.ts";

/**
 * Counts the tests that ran: from JUnit reports, otherwise TAP, otherwise a runner's summary. Null
 * without a count.
 */
export function countTests(output: string, junit: readonly { readonly xml: string }[]): TestCounts | null {
  const lines = outputLines(output);
  const fromJunit = countJunit(junit);
  if (fromJunit !== null && fromJunit.total > 0) return { ...fromJunit, source: "junit" };
  const fromTap = countTap(lines);
  if (fromTap !== null) return { ...fromTap, source: "tap" };
  const scraped = countRunnerSummary(lines);
  if (scraped !== null) return { ...scraped, source: "runner" };
  return fromJunit === null ? null : { ...fromJunit, source: "junit" };
}

/** Counts the tests of the one report that the plan asks for; null when there is none. */
export function countReport({ format, text }: TestReport): TestCounts | null {
  if (text === null) return null;
  const found = format === "junit" ? countJunit([{ xml: text }]) : countTap(outputLines(text));
  return found === null ? null : { ...found, source: format };
}
