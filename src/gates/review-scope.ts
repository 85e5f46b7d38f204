import type { Finding } from "../domain/gate/finding.ts";
import { atLeast, type Severity } from "../domain/status.ts";
import type { ChangedFile } from "../workspace/port.ts";
import { leastConfidence } from "./review.ts";
import { toRepositoryPath } from "./text.ts";

/** A critic's findings: `candidates` may block the wave; `aside` are kept but never block. */
export interface SortedReview {
  readonly candidates: Finding[];
  readonly aside: Finding[];
}

export interface ReviewScope {
  readonly block: Severity;
  /** The wave's changes. */
  readonly changed: readonly ChangedFile[];
  /** The unified diff of one changed file. */
  readonly diffOf: (file: ChangedFile) => Promise<string>;
}

/**
 * Separates findings that may block from the others. A finding may block if it is severe and
 * confident enough and within the wave's diff, context lines included. A finding without a file is
 * about the whole wave.
 */
export async function sortReview(findings: readonly Finding[], scope: ReviewScope): Promise<SortedReview> {
  const candidates: Finding[] = [];
  const aside: Finding[] = [];
  for (const finding of findings) {
    const isSure = (finding.confidence ?? 1) >= leastConfidence;
    if (!isSure || !atLeast(finding.severity, scope.block)) aside.push(finding);
    else if (await isInside(finding, scope)) candidates.push(finding);
    else aside.push(setAside(finding, "outside this wave's changes"));
  }
  return { candidates, aside };
}

/** Marks a finding as unable to block, with the reason. */
export const setAside = (finding: Finding, why: string): Finding => ({
  ...finding,
  severity: "low",
  message: `${why}, so it cannot block (reported as ${finding.severity}): ${finding.message}`,
});

async function isInside({ file, line }: Finding, { changed, diffOf }: ReviewScope): Promise<boolean> {
  if (file === null) return true;
  const path = toRepositoryPath(file);
  const change = changed.find((one) => one.path === path || one.from === path);
  if (change === undefined) return false;
  // Deleted and binary files have no lines to compare.
  if (line === null || change.status === "deleted" || change.binary) return true;
  return hunks(await diffOf(change)).some(({ first, last }) => line >= first && line <= last);
}

/**
 * Returns the line ranges of the new file that a unified diff shows. Content lines start with a
 * blank, `+` or `-`, so none looks like a header.
 */
function hunks(diff: string): { first: number; last: number }[] {
  return [...diff.matchAll(/^@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@/gm)].map(([, start, count]) => {
    const first = Number(start);
    return { first, last: first + Math.max(1, Number(count ?? 1)) - 1 };
  });
}
