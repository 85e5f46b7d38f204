import type { Finding } from "../domain/gate/finding.ts";
import { atLeast, type Severity, type Verdict } from "../domain/status.ts";

/** Fails if a finding is at least as severe as `block`. */
export function judgeFindings(findings: readonly Finding[], block: Severity): Verdict {
  return findings.some((finding) => atLeast(finding.severity, block)) ? "failed" : "passed";
}
