import { itemAt } from "../../domain/known.ts";
import { type Counts, makeCounts, sumCounts } from "./count.ts";

// Test runners write their summaries for people, so counts read from them are shown as estimates.

type Reader = (lines: readonly string[]) => Counts[];
type LineReader = (line: string) => Counts | null;

/**
 * Adds up the tests in the summaries of known runners (several workspaces print several). Null if
 * there is none.
 */
export function countRunnerSummary(lines: readonly string[]): Counts | null {
  const results = summariesIn(lines);
  // `pnpm -r`, turbo, lerna and compose prefix every line with a name.
  return sumCounts(results.length > 0 ? results : summariesIn(lines.map(withoutPrefix)));
}

function summariesIn(lines: readonly string[]): Counts[] {
  const results: Counts[] = [];
  for (const read of [...readers, ...lineReaders.map(perLine)]) results.push(...read(lines));
  return results;
}

function withoutPrefix(line: string): string {
  return line.replace(/^@?[\w./-]+(?:[ :][\w:-]+)?\s*[:|] ?/, "");
}

function perLine(read: LineReader): Reader {
  return (lines) => lines.map(read).filter((one) => one !== null);
}

/** The number before a word, as in `3 passed`; 0 when the word is missing. */
function before(line: string, word: string): number {
  return Number(new RegExp(`(\\d+)\\s+(?:${word})\\b`).exec(line)?.[1] ?? 0);
}

/** The number after a word, as in `Failures: 2` or `errors=1`. */
function after(line: string, word: string): number {
  return Number(new RegExp(`\\b(?:${word})\\s*[:=]\\s*(\\d+)`, "i").exec(line)?.[1] ?? 0);
}

const lineReaders: readonly LineReader[] = [
  // vitest: `      Tests  1 failed | 4 passed | 1 skipped (6)`, `Tests  no tests`
  (line) => {
    if (/^\s*Tests\s+no tests\s*$/.test(line)) return makeCounts(0, 0, 0);
    if (!/^\s*Tests\s+\d+ (?:passed|failed|skipped|todo)\b.*\(\d+\)\s*$/.test(line)) return null;
    return makeCounts(before(line, "passed"), before(line, "failed"), before(line, "skipped") + before(line, "todo"));
  },
  // jest: `Tests:       1 failed, 2 skipped, 5 passed, 8 total`
  (line) => {
    if (!/^\s*Tests:\s+.*\d+ total\s*$/.test(line)) return null;
    return makeCounts(before(line, "passed"), before(line, "failed"), before(line, "skipped") + before(line, "todo"));
  },
  // pytest: `=== 1 failed, 5 passed, 2 skipped in 0.12s ===`, with -q without the bars
  (line) => {
    if (/^=* ?no tests ran in [\d.]+s/.test(line)) return makeCounts(0, 0, 0);
    if (
      !/^(?:=+ )?\d+ (?:passed|failed|errors?|skipped|xfailed|xpassed|deselected|warnings?)\b.* in [\d.:]+s?/.test(line)
    ) {
      return null;
    }
    const failed = before(line, "failed") + before(line, "errors?");
    const skipped = before(line, "skipped") + before(line, "xfailed");
    return makeCounts(before(line, "passed") + before(line, "xpassed"), failed, skipped);
  },
  // cargo: `test result: ok. 5 passed; 0 failed; 1 ignored; …`
  (line) => {
    if (!/^\s*test result: (?:ok|FAILED)\./.test(line)) return null;
    return makeCounts(before(line, "passed"), before(line, "failed"), before(line, "ignored"));
  },
  // cargo nextest: `Summary [ 0.1s] 5 tests run: 5 passed, 1 skipped`
  (line) => {
    if (!/^\s*Summary \[.*\] +\d+(?:\/\d+)? tests? run:/.test(line)) return null;
    return makeCounts(before(line, "passed"), before(line, "failed"), before(line, "skipped"));
  },
  // rspec: `5 examples, 1 failure, 1 pending`
  (line) => {
    const total = /^(\d+) examples?, \d+ failures?\b/.exec(line)?.[1];
    if (total === undefined) return null;
    const failed = before(line, "failures?") + before(line, "errors? occurred");
    const skipped = before(line, "pending");
    return makeCounts(Math.max(0, Number(total) - before(line, "failures?") - skipped), failed, skipped);
  },
  // minitest: `5 runs, 10 assertions, 1 failures, 0 errors, 1 skips`
  (line) => {
    const total = /^(\d+) (?:runs|tests), \d+ assertions, /.exec(line)?.[1];
    if (total === undefined) return null;
    const failed = before(line, "failures?") + before(line, "errors?");
    const skipped = before(line, "skips") + before(line, "pendings");
    const assertions = before(line, "assertions");
    return { ...makeCounts(Math.max(0, Number(total) - failed - skipped), failed, skipped), assertions };
  },
  // mix: `5 tests, 1 failure, 2 skipped`
  (line) => {
    const total =
      /^(?:\d+ (?:doctests?|properties|property), )*(\d+) tests?, \d+ failures?(?:, \d+ (?:skipped|excluded))*\s*$/.exec(
        line,
      )?.[1];
    if (total === undefined) return null;
    const skipped = before(line, "skipped") + before(line, "excluded");
    return makeCounts(
      Math.max(0, Number(total) - before(line, "failures?") - skipped),
      before(line, "failures?"),
      skipped,
    );
  },
  // phpunit: `OK (5 tests, 10 assertions)`, `Tests: 5, Assertions: 10, Failures: 1, Skipped: 1.`
  (line) => {
    const whole = /^OK \((\d+) tests?, \d+ assertions?\)/.exec(line)?.[1];
    if (whole !== undefined) return { ...makeCounts(Number(whole), 0, 0), assertions: before(line, "assertions?") };
    if (!/^Tests: \d+, Assertions: \d+/.test(line)) return null;
    const failed = after(line, "Failures") + after(line, "Errors");
    const skipped = after(line, "Skipped") + after(line, "Incomplete");
    const passed = Math.max(0, after(line, "Tests") - failed - skipped);
    return { ...makeCounts(passed, failed, skipped), assertions: after(line, "Assertions") };
  },
  // Maven: only the total, `Tests run: 5, Failures: 1, Errors: 0, Skipped: 1` (the line of a class
  // continues with its time)
  (line) => {
    if (!/Tests run: \d+, Failures: \d+, Errors: \d+, Skipped: \d+\s*$/.test(line)) return null;
    const failed = after(line, "Failures") + after(line, "Errors");
    return makeCounts(
      Math.max(0, after(line, "Tests run") - failed - after(line, "Skipped")),
      failed,
      after(line, "Skipped"),
    );
  },
  // dotnet: `Passed!  - Failed:     0, Passed:     5, Skipped:     0, Total:     5`
  (line) => {
    if (!/^\s*(?:Passed|Failed)!\s+- Failed:\s*\d+, Passed:\s*\d+/.test(line)) return null;
    return makeCounts(after(line, "Passed"), after(line, "Failed"), after(line, "Skipped"));
  },
  // deno: `ok | 5 passed | 0 failed | 1 ignored (12ms)`
  (line) => {
    if (!/^\s*(?:ok|FAILED) \| \d+ passed\b.*\| \d+ failed/.test(line)) return null;
    return makeCounts(before(line, "passed"), before(line, "failed"), before(line, "ignored"));
  },
  // ctest: `100% tests passed, 0 tests failed out of 5`
  (line) => {
    const match = /^\d+% tests passed, (\d+) tests? failed out of (\d+)/.exec(line);
    return match === null ? null : makeCounts(Number(match[2]) - Number(match[1]), Number(match[1]), 0);
  },
  // ava: `5 tests passed`, `1 test failed`, `1 test skipped`
  (line) => {
    const match = /^\s+(\d+) tests? (passed|failed|skipped|todo)\s*$/.exec(line);
    if (match === null) return null;
    const number = Number(match[1]);
    if (match[2] === "passed") return makeCounts(number, 0, 0);
    return match[2] === "failed" ? makeCounts(0, number, 0) : makeCounts(0, 0, number);
  },
];

const readers: readonly Reader[] = [nodeSpec, blocks, unittest, go];

/** node:test's spec reporter: `ℹ tests 5`, `ℹ pass 4`, … */
function nodeSpec(lines: readonly string[]): Counts[] {
  const results: Record<string, number>[] = [];
  for (const line of lines) {
    const match = /^\s*ℹ (tests|pass|fail|cancelled|skipped|todo) (\d+)\s*$/.exec(line);
    if (match === null) continue;
    if (match[1] === "tests") results.push({});
    if (results.length > 0) itemAt(results, -1)[itemAt(match, 1)] = Number(match[2]);
  }
  return results.map((one) => {
    const of = (name: string) => one[name] ?? 0;
    return {
      total: of("tests"),
      passed: of("pass"),
      failed: of("fail") + of("cancelled"),
      skipped: of("skipped") + of("todo"),
    };
  });
}

/**
 * mocha (`5 passing (12ms)`), playwright (`5 passed (3.2s)`) and bun (`5 pass`): a block of short
 * lines with one number each.
 */
function blocks(lines: readonly string[]): Counts[] {
  const results: Counts[] = [];
  let block: Counts | null = null;
  for (const line of lines) {
    const match =
      /^\s{1,4}(\d+) (passing|failing|pending|passed|failed|flaky|skipped|did not run|interrupted|pass|fail|skip|todo)(?: \([\d.,]+ ?m?s?h?\))?\s*$/.exec(
        line,
      );
    if (match === null) {
      if (block !== null && line.trim() === "") continue;
      // playwright lists the failed tests, indented deeper, between its numbers
      if (block !== null && /^\s{4,}\S/.test(line)) continue;
      if (block !== null) results.push(block);
      block = null;
      continue;
    }
    block = sumCounts([...(block === null ? [] : [block]), ofWord(itemAt(match, 2), Number(match[1]))]);
  }
  if (block !== null) results.push(block);
  return results;
}

function ofWord(word: string, number: number): Counts {
  if (/^(?:pass|flaky)/.test(word)) return makeCounts(number, 0, 0);
  return /^(?:fail|interrupted)/.test(word) ? makeCounts(0, number, 0) : makeCounts(0, 0, number);
}

/** unittest: `Ran 5 tests in 0.001s`, then `OK (skipped=1)` or `FAILED (failures=1, errors=1)`. */
function unittest(lines: readonly string[]): Counts[] {
  const results: Counts[] = [];
  lines.forEach((line, index) => {
    const total = /^Ran (\d+) tests? in [\d.]+s/.exec(line)?.[1];
    if (total === undefined) return;
    const result = lines.slice(index + 1, index + 4).find((next) => /^(?:OK|FAILED|NO TESTS RAN)\b/.test(next)) ?? "";
    const failed =
      after(result, "(?<!expected )failures") + after(result, "errors") + after(result, "unexpected successes");
    const skipped = after(result, "skipped") + after(result, "expected failures");
    results.push(makeCounts(Math.max(0, Number(total) - failed - skipped), failed, skipped));
  });
  return results;
}

/**
 * go test: each top-level test with `-v` or `-json`, otherwise one per package, because at least
 * one has run.
 */
function go(lines: readonly string[]): Counts[] {
  const tests = lines.filter((line) => !line.startsWith("{"));
  const ran = (kind: string) => tests.filter((line) => line.startsWith(`--- ${kind}: `)).length;
  if (tests.some((line) => /^=== RUN /.test(line))) return [makeCounts(ran("PASS"), ran("FAIL"), ran("SKIP"))];
  const json = goJson(lines);
  if (json !== null) return [json];
  const passed = tests.filter(
    (line) => /^ok\s+\S+\s+(?:[\d.]+s|\(cached\))/.test(line) && !/no tests to run/.test(line),
  );
  const empty = tests.some(
    (line) => /^\?\s+\S+\s+\[no test files\]/.test(line) || /^ok\s.*\[no tests to run\]/.test(line),
  );
  const failed = Math.max(ran("FAIL"), tests.filter((line) => /^FAIL\s+\S+\s/.test(line)).length);
  return passed.length + failed > 0 || empty ? [makeCounts(passed.length, failed, 0)] : [];
}

function goJson(lines: readonly string[]): Counts | null {
  const ended = (action: string) =>
    lines.filter(
      (line) => line.startsWith("{") && line.includes(`"Action":"${action}"`) && /"Test":"[^"/]+"/.test(line),
    ).length;
  const results = makeCounts(ended("pass"), ended("fail"), ended("skip"));
  return results.total > 0 ? results : null;
}
