import type { FindingView, GateView } from "../../coordinator/build/build-view.ts";
import { type AddedCheck, type AddedChecks, addedText } from "../../domain/gate/added-checks.ts";
import type { Evidence } from "../../domain/gate/finding.ts";
import { count, duration, oneLine } from "../output/format.ts";
import type { Tone } from "../output/palette.ts";
import type { Line } from "./line.ts";

const tones: Record<string, Tone> = {
  passed: "good",
  failed: "bad",
  inconclusive: "bad",
  absent: "dim",
  "not-due": "dim",
  off: "dim",
};
const shownFindings = 10;

/** Lines for a judged gate: verdict and evidence, and its findings if it did not pass. */
export function gateLines(waveNumber: number, gate: GateView): Line[] {
  const verdict = gate.verdict ?? "inconclusive";
  const round = gate.round > 1 ? `, round ${gate.round}` : "";
  const idle = verdict === "absent" || verdict === "not-due" || verdict === "off";
  const summary = idle ? oneLine(gate.reason ?? "") : evidenceText(gate.evidence);
  const why = idle || verdict === "passed" || gate.reason === null ? "" : ` (${oneLine(gate.reason)})`;
  // The reason of a gate that is not due yet says so itself.
  const said = verdict === "not-due" ? summary : `${verdict}${why}${summary === "" ? "" : `: ${summary}`}`;
  const text = `  ${gate.gate} of wave ${waveNumber}${round}: ${said}`;
  const added = addedCheckLines(gate.evidence?.added, "    ");
  const head: Line = {
    tone: tones[verdict] ?? "plain",
    text,
    ...(idle && added.length === 0 ? { minor: true } : {}),
  };
  return verdict === "passed" || idle ? [head, ...added] : [head, ...added, ...findingLines(gate.findings, "    ")];
}

/**
 * Lines for the checks that the gate's agent added, with those that could not run and why. Failures
 * are among the findings.
 */
export function addedCheckLines(added: AddedChecks | undefined, indent: string): Line[] {
  if (added === undefined) return [];
  const isWhole = added.lack === null && added.checks.every(({ result }) => result?.outcome === "passed");
  const head: Line = { tone: isWhole ? "plain" : "warn", text: `${indent}${oneLine(addedText(added))}` };
  return [head, ...added.checks.flatMap((check) => checkLines(check, `${indent}  `))];
}

function checkLines({ name, command, result }: AddedCheck, indent: string): Line[] {
  if (result?.outcome !== "not-run") return [];
  return [{ tone: "warn", text: `${indent}${oneLine(`${name}: could not be run: ${result.note}: ${command}`)}` }];
}

/** Command, exit code, tests counted, duration (W6). */
export function evidenceText(evidence: Evidence | null): string {
  if (evidence === null) return "no evidence";
  const parts: string[] = [];
  if (evidence.command !== null && evidence.command !== "") parts.push(oneLine(evidence.command));
  if (evidence.timedOut) parts.push("exceeded its timeout");
  else if (evidence.signal !== null) parts.push(`ended by ${evidence.signal}`);
  else if (evidence.exitCode !== null) parts.push(`exit ${evidence.exitCode}`);
  if (evidence.tests !== null) parts.push(testsText(evidence.tests));
  if (evidence.exitCode === null) parts.push(...evidence.notes.slice(0, 2).map(oneLine));
  parts.push(duration(evidence.durationMs));
  return parts.join(", ");
}

function testsText(tests: NonNullable<Evidence["tests"]>): string {
  const rest = [
    ...(tests.failed > 0 ? [`${tests.failed} failed`] : []),
    ...(tests.skipped > 0 ? [`${tests.skipped} skipped`] : []),
  ];
  const estimated = tests.source === "runner" ? "estimated " : "";
  return `${estimated}${count(tests.total, "test")}${rest.length === 0 ? "" : ` (${rest.join(", ")})`}`;
}

/** Findings, worst first, with file and line. */
export function findingLines(findings: readonly FindingView[], indent: string): Line[] {
  const order = ["critical", "high", "medium", "low"];
  const sorted = [...findings].sort((left, right) => order.indexOf(left.severity) - order.indexOf(right.severity));
  const lines: Line[] = sorted.slice(0, shownFindings).map((finding) => ({
    tone: finding.severity === "low" || finding.severity === "medium" ? "warn" : "bad",
    text: `${indent}${finding.severity} ${placeOf(finding)}${oneLine(finding.message)}`,
  }));
  if (sorted.length <= shownFindings) return lines;
  return [...lines, { tone: "dim", text: `${indent}and ${count(sorted.length - shownFindings, "finding")} more` }];
}

function placeOf({ file, line }: FindingView): string {
  if (file === null) return "";
  return line === null ? `${oneLine(file)}: ` : `${oneLine(file)}:${line}: `;
}
