import type { Finding } from "../domain/finding.ts";
import { atLeast, type Severity } from "../domain/status.ts";
import type { ChangedFile } from "../workspace/port.ts";
import { leastConfidence } from "./review.ts";
import { repositoryPath } from "./text.ts";

/**
 * A critic's findings: those that would block, and the others, which are kept, say why and never
 * do.
 */
export interface SortedReview {
  readonly candidates: Finding[];
  readonly aside: Finding[];
}

export interface ReviewScope {
  readonly block: Severity;
  /** What the wave changed. */
  readonly changed: readonly ChangedFile[];
  /** The unified diff of one changed file. */
  readonly diffOf: (file: ChangedFile) => Promise<string>;
}

/**
 * Sorts findings by whether they may block: severe enough, sure enough, and in what the wave
 * changed, the lines around a change included. One that names no file is about the wave as a whole.
 */
export async function sortReview(findings: readonly Finding[], scope: ReviewScope): Promise<SortedReview> {
  const candidates: Finding[] = [];
  const aside: Finding[] = [];
  for (const finding of findings) {
    const isSure = (finding.confidence ?? 1) >= leastConfidence;
    if (!isSure || !atLeast(finding.severity, scope.block)) aside.push(finding);
    else if (await isInside(finding, scope)) candidates.push(finding);
    else aside.push(setAside(finding, "outside of what this wave changed"));
  }
  return { candidates, aside };
}

/** A finding that is kept and cannot block, and why. */
export const setAside = (finding: Finding, why: string): Finding => ({
  ...finding,
  severity: "low",
  message: `${why}, so it cannot block (said to be ${finding.severity}): ${finding.message}`,
});

async function isInside({ file, line }: Finding, { changed, diffOf }: ReviewScope): Promise<boolean> {
  if (file === null) return true;
  const path = repositoryPath(file);
  const change = changed.find((one) => one.path === path || one.from === path);
  if (change === undefined) return false;
  // A file that is gone, and one that is not text, have no lines to be outside of.
  if (line === null || change.status === "deleted" || change.binary) return true;
  return hunks(await diffOf(change)).some(({ first, last }) => line >= first && line <= last);
}

/**
 * The parts of the new file that a unified diff shows. Lines of files begin with a blank, `+` or
 * `-`, so none looks like a header.
 */
function hunks(diff: string): { first: number; last: number }[] {
  return [...diff.matchAll(/^@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@/gm)].map(([, start, count]) => {
    const first = Number(start);
    return { first, last: first + Math.max(1, Number(count ?? 1)) - 1 };
  });
}
