import type { Evidence, Finding } from "../../domain/gate/finding.ts";
import type { Verdict } from "../../domain/status.ts";
import type { Mask } from "../masking/masking.ts";

/** The result of a finished gate run, as the database stores it. */
export interface Judged {
  readonly verdict: Verdict;
  readonly reason: string | null;
  readonly fixable: boolean;
  readonly evidence: Evidence | null;
  readonly findings: Finding[];
  /** The findings that block, if others are kept that cannot. */
  readonly blocking?: readonly Finding[];
}

/** The outcome of a run's job. */
export type GateOutcome =
  | { readonly kind: "verdict"; readonly judged: Judged }
  /** The run continues with another part, in its own job, with the evidence so far. */
  | { readonly kind: "goes-on"; readonly evidence: Evidence }
  | { readonly kind: "lost"; readonly reason: string | null };

export const cancelled: Judged = {
  verdict: "inconclusive",
  reason: "the build was cancelled",
  fixable: false,
  evidence: null,
  findings: [],
};

/** Fixable, because a fixer could have continued if there had been time. */
export const outOfTime: Judged = { ...cancelled, reason: "the plan's time limit is used up", fixable: true };

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
