import { itemAt } from "../../domain/known.ts";
import { type Counts, makeCounts, sumCounts } from "./count.ts";

// TAP 13/14 (https://testanything.org). node:test and tape end with `# tests N` comments, which
// include nested tests. Without those comments we count only the top level, because a nested plan
// belongs to its test.

/** Counts the tests of one or several TAP streams; null when the output is not TAP. */
export function countTap(lines: readonly string[]): Counts | null {
  if (!isTap(lines)) return null;
  const summed = sumCounts(summaries(lines));
  return summed === null ? topLevel(lines) : withDirectives(summed, lines);
}

/** Whether the output has a TAP version or a plan at the left margin. */
export function isTap(lines: readonly string[]): boolean {
  return lines.some((line) => /^TAP version 1\d\s*$/.test(line) || /^1\.\.\d+(?:\s|$)/.test(line));
}

function summaries(lines: readonly string[]): Counts[] {
  const summaryList: Record<string, number>[] = [];
  for (const line of lines) {
    const match = /^# (tests|pass|fail|cancelled|skipped|skip|todo)\s+(\d+)\s*$/.exec(line);
    if (match === null) continue;
    if (match[1] === "tests") summaryList.push({ tests: Number(match[2]) });
    else if (summaryList.length > 0) itemAt(summaryList, -1)[itemAt(match, 1)] = Number(match[2]);
  }
  // A test may print "# tests 3" itself, but a real summary also says how many passed or failed.
  return summaryList.filter((one) => one.tests === 0 || one.pass !== undefined || one.fail !== undefined).map(toCounts);
}

function toCounts(summary: Record<string, number>): Counts {
  const of = (name: string) => summary[name] ?? 0;
  const skipped = of("skipped") + of("skip") + of("todo");
  return { total: of("tests"), passed: of("pass"), failed: of("fail") + of("cancelled"), skipped };
}

/**
 * Corrects a summary by the points: AVA counts a todo among its failures, and mocha does not count
 * what was skipped.
 */
function withDirectives(counts: Counts, lines: readonly string[]): Counts {
  const points = lines.filter((line) => /^\s*(?:not )?ok\b/.test(line));
  const left = points.filter((line) => directive.test(line));
  const failedPoints = points.filter((line) => /^\s*not ok\b/.test(line) && !directive.test(line)).length;
  const todos = left.filter((line) => /^\s*not ok\b/.test(line)).length;
  const failed = Math.max(Math.min(counts.failed, failedPoints), counts.failed - todos);
  const counted = lines.some((line) => /^# skip(?:ped)?\s+\d/.test(line)) ? counts.skipped : left.length;
  const skipped = Math.max(counts.skipped, counted) + counts.failed - failed;
  return { ...counts, ...makeCounts(counts.passed, failed, skipped) };
}

const directive = /\s#\s*(?:skip|todo)/i;

function topLevel(lines: readonly string[]): Counts | null {
  // vitest and node-tap put the tests of a file in braces: then those are the tests.
  if (lines.some((line) => /^(?:not )?ok\b.*\{\s*$/.test(line))) return insideBraces(lines);
  let planned = 0;
  let seen = 0;
  const kinds = { passed: 0, failed: 0, skipped: 0 };
  for (const line of lines) {
    const plan = /^1\.\.(\d+)/.exec(line);
    if (plan !== null) planned += Number(plan[1]);
    const point = /^(not )?ok\b(.*)$/.exec(line);
    if (point === null) continue;
    seen += 1;
    if (directive.test(itemAt(point, 2))) kinds.skipped += 1;
    else kinds[point[1] === undefined ? "passed" : "failed"] += 1;
  }
  // Tests that were planned but never reported did not pass.
  return makeCounts(kinds.passed, kinds.failed + Math.max(0, planned - seen), kinds.skipped);
}

function insideBraces(lines: readonly string[]): Counts {
  const points = lines.filter((line) => /^\s*(?:not )?ok\b.*[^{\s]\s*$/.test(line));
  const skipped = points.filter((line) => directive.test(line)).length;
  const failed = points.filter((line) => /^\s*not ok\b/.test(line) && !directive.test(line)).length;
  return makeCounts(points.length - skipped - failed, failed, skipped);
}
