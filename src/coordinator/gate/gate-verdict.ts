import type { Evidence, Finding } from "../../domain/finding.ts";
import type { Verdict } from "../../domain/status.ts";
import type { Mask } from "../masking/masking.ts";

/** What the database keeps of a finished gate run. */
export interface Judged {
  readonly verdict: Verdict;
  readonly reason: string | null;
  readonly fixable: boolean;
  readonly evidence: Evidence | null;
  readonly findings: Finding[];
  /** Those of the findings that count, where others are kept and cannot block. */
  readonly blocking?: readonly Finding[];
}

export const cancelled: Judged = {
  verdict: "inconclusive",
  reason: "the build was cancelled",
  fixable: false,
  evidence: null,
  findings: [],
};

/** A fixer could have gone on, had there been time. */
export const outOfTime: Judged = { ...cancelled, reason: "the time limit of the plan is used up", fixable: true };

export const noEvidence = (sha: string, notes: string[]): Evidence => ({
  sha,
  command: null,
  exitCode: null,
  signal: null,
  timedOut: false,
  durationMs: 0,
  outputTail: "",
  tests: null,
  notes,
});

export function maskJudged(cover: Mask, judged: Judged): Judged {
  const { evidence, blocking } = judged;
  return {
    ...judged,
    reason: judged.reason === null ? null : cover(judged.reason),
    evidence: evidence === null ? null : { ...evidence, outputTail: cover(evidence.outputTail) },
    findings: judged.findings.map((finding) => maskFinding(cover, finding)),
    ...(blocking === undefined ? {} : { blocking: blocking.map((finding) => maskFinding(cover, finding)) }),
  };
}

export const maskFinding = (cover: Mask, finding: Finding): Finding => ({
  ...finding,
  message: cover(finding.message),
  file: finding.file === null ? null : cover(finding.file),
});
