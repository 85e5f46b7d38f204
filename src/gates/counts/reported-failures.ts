import { outputLines } from "../text.ts";
import { countJunit } from "./junit.ts";
import { countRunnerSummary } from "./runner-summary.ts";
import { countTap } from "./tap.ts";

/** Failures outside any test, in the summaries of vitest, jest and TAP. */
const outsideTests: readonly [RegExp, string][] = [
  [/^\s*Errors {1,10}\d{1,9} errors?\s*$/, "vitest reports errors outside its tests"],
  [/^\s*Test Files {1,10}\d{1,9} failed\b/, "vitest reports failed test files"],
  [/^\s*Test Suites:\s+\d{1,9} failed\b/, "jest reports failed test suites"],
  [/^Bail out!/, "the TAP output ends with a bail-out"],
];

/**
 * Returns the failures in any report, whatever the exit code. Every source counts, so a forged
 * report cannot hide another.
 */
export function reportedFailures(output: string, junit: readonly { readonly xml: string }[]): string[] {
  const lines = outputLines(output);
  const counted: [string, number][] = [
    ["the JUnit report", countJunit(junit)?.failed ?? 0],
    ["the TAP output", countTap(lines)?.failed ?? 0],
    ["the runner's summary", countRunnerSummary(lines)?.failed ?? 0],
  ];
  const tests = counted.flatMap(([source, failed]) =>
    failed > 0 ? [`${source} has ${failed} failed ${failed === 1 ? "test" : "tests"}`] : [],
  );
  const others = outsideTests.filter(([pattern]) => lines.some((line) => pattern.test(line)));
  return [...tests, ...others.map(([, text]) => text)];
}
