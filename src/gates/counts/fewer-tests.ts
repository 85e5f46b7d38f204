import type { TestCounts } from "./count.ts";

/** The counts of the same gate on the wave's base. */
export interface EarlierCounts {
  readonly sha: string;
  /** The command that was counted; we compare only the same command, or any command if null. */
  readonly command: string | null;
  readonly tests: TestCounts;
  /** Whether a task of the wave says `mayChangeTests`. */
  readonly mayBeFewer: boolean;
}

/**
 * Compares the counts of a run with those of its base. `lack` names the missing tests or assertions
 * with both numbers; `note` explains why fewer is acceptable.
 */
export function compareCounts(
  now: TestCounts | null,
  command: string,
  earlier: EarlierCounts,
): { readonly lack: string | null; readonly note: string | null } {
  const drops = dropsIn(now, earlier.tests);
  if (drops.length === 0) return { lack: null, note: null };
  const comparison = `${drops.join(" and ")} at the last passed wave (${earlier.sha.slice(0, 10)})`;
  if (earlier.mayBeFewer) return { lack: null, note: `${comparison}; a task of this wave says mayChangeTests` };
  if (earlier.command !== null && earlier.command !== command)
    return { lack: null, note: `${comparison}, where the command was different: ${earlier.command}` };
  const remedy = "a task that may remove tests says mayChangeTests: true";
  return { lack: `${comparison}; ${remedy}${estimateHint(now, earlier.tests)}`, note: null };
}

function dropsIn(now: TestCounts | null, before: TestCounts): string[] {
  const ran = (counts: TestCounts | null) => (counts === null ? 0 : counts.total - counts.skipped);
  const drops: string[] = [];
  if (ran(now) < ran(before)) drops.push(`${tests(ran(now), now)} ran, ${tests(ran(before), before)}`);
  // A report without assertions proves nothing about them.
  const [less, more] = [now?.assertions, before.assertions];
  if (less !== undefined && more !== undefined && less < more) drops.push(`${less} assertions were made, ${more}`);
  return drops;
}

function tests(number: number, counts: TestCounts | null): string {
  const estimated = counts?.source === "runner" ? " (estimated)" : "";
  return `${number} ${number === 1 ? "test" : "tests"}${estimated}`;
}

const estimateHint = (now: TestCounts | null, before: TestCounts): string =>
  now?.source === "runner" || before.source === "runner"
    ? "; a number read from a summary is an estimate: set gates.testing.report for an exact one"
    : "";
