import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { reportedFailures } from "../../src/gates/counts/reported-failures.ts";
import { countTests } from "../../src/gates/counts/test-counts.ts";

// Runners' output for four tests: one passes, one passes or fails, one is skipped, and one is a
// todo, pending or expected to fail.

const said = (runner: string, end: "good" | "bad"): string =>
  readFileSync(new URL(`../support/runner-output/${runner}-${end}.txt`, import.meta.url), "utf8");

const runners = [
  ["ava", "ava 6.4.1", "runner"],
  ["avatap", "ava 6.4.1 --tap", "tap"],
  ["mocha", "mocha 11.8.0", "runner"],
  ["mochatap", "mocha 11.8.0 --reporter tap", "tap"],
  ["jest", "jest 29.7.0", "runner"],
  ["vitest", "vitest 3.2.7", "runner"],
  ["vitesttap", "vitest 3.2.7 --reporter=tap", "tap"],
  ["node", "node --test of Node 20.20.2", "tap"],
  ["unittest", "unittest of Python 3", "runner"],
  ["pytest", "pytest 9.0.3", "runner"],
  ["cargo", "cargo test of Rust 1.95", "runner"],
] as const;

describe.each(runners)("the output of %s", (runner, _version, source) => {
  it("has the number of its tests, and no failure if a test was skipped", () => {
    expect(countTests(said(runner, "good"), [])).toEqual({ total: 4, passed: 2, failed: 0, skipped: 2, source });
    expect(reportedFailures(said(runner, "good"), [])).toEqual([]);
  });

  it("has the test that failed", () => {
    const counts = countTests(said(runner, "bad"), []);
    // AVA does not say how many passed when one fails.
    const passed = runner === "ava" ? 0 : 1;
    expect(counts).toEqual({ total: 3 + passed, passed, failed: 1, skipped: 2, source });
    expect(reportedFailures(said(runner, "bad"), [])[0]).toMatch(/ has 1 failed test$/);
  });
});
