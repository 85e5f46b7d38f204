import { type Counts, counts, sumCounts } from "./count.ts";

// TAP 13/14 (https://testanything.org). node:test and tape end with `# tests N` comments, which
// include nested tests. Without them we count only the top level, because a nested plan belongs to
// its test.

/**
 * Counts the tests of a TAP stream (the sum of several in a row); null when the output is not TAP.
 */
export function countTap(lines: readonly string[]): Counts | null {
  if (!isTap(lines)) return null;
  return sumCounts(summaries(lines)) ?? topLevel(lines);
}

/** A version line or a plan, at the left margin. */
export function isTap(lines: readonly string[]): boolean {
  return lines.some((line) => /^TAP version 1\d\s*$/.test(line) || /^1\.\.\d+(?:\s|$)/.test(line));
}

function summaries(lines: readonly string[]): Counts[] {
  const found: Record<string, number>[] = [];
  for (const line of lines) {
    const match = /^# (tests|pass|fail|cancelled|skipped|skip|todo)\s+(\d+)\s*$/.exec(line);
    if (match === null) continue;
    if (match[1] === "tests") found.push({ tests: Number(match[2]) });
    else if (found.length > 0) found.at(-1)![match[1]!] = Number(match[2]);
  }
  // A test may print "# tests 3" itself, but a real summary also says how many passed or failed.
  return found.filter((one) => one.tests === 0 || one.pass !== undefined || one.fail !== undefined).map(toCounts);
}

function toCounts(summary: Record<string, number>): Counts {
  const of = (name: string) => summary[name] ?? 0;
  const skipped = of("skipped") + of("skip") + of("todo");
  return { total: of("tests"), passed: of("pass"), failed: of("fail") + of("cancelled"), skipped };
}

function topLevel(lines: readonly string[]): Counts | null {
  let planned = 0;
  let seen = 0;
  const kinds = { passed: 0, failed: 0, skipped: 0 };
  for (const line of lines) {
    const plan = /^1\.\.(\d+)/.exec(line);
    if (plan !== null) planned += Number(plan[1]);
    const point = /^(not )?ok\b(.*)$/.exec(line);
    if (point === null) continue;
    seen += 1;
    if (/\s#\s*(?:skip|todo)/i.test(point[2]!)) kinds.skipped += 1;
    else kinds[point[1] === undefined ? "passed" : "failed"] += 1;
  }
  // Tests that were planned but never reported did not pass.
  return counts(kinds.passed, kinds.failed + Math.max(0, planned - seen), kinds.skipped);
}
