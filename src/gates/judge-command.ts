import type { Evidence } from "../domain/gate/finding.ts";
import type { TestCounts } from "./counts/count.ts";
import { compareCounts } from "./counts/fewer-tests.ts";
import { reportedFailures } from "./counts/reported-failures.ts";
import { countReport, countTests } from "./counts/test-counts.ts";
import { createFailure } from "./failures/failure.ts";
import { findFailures } from "./failures/find-failures.ts";
import type { CommandVerdictRequest, GateResult } from "./port.ts";
import { evidenceTail, outputLines } from "./text.ts";

/** Judges a command's run (W6). A run that cannot be judged is `inconclusive` and never passes. */
export function judgeCommand(original: CommandVerdictRequest): GateResult {
  const request = withReport(original);
  const tests =
    original.report === undefined ? countTests(original.output, original.junit) : countReport(original.report);
  const evidence = evidenceOf(request, tests);
  if (request.stage.timedOut) return timedOut(request, evidence);
  if (isCommandNotFound(request)) return commandNotFound(request, evidence);
  if (request.stage.exitCode !== 0) return failed(request, evidence);
  const faults = reportFaults(request);
  if (faults.length > 0) return failedInReport(request, evidence, faults);
  const lack = lackOfTests(tests, request);
  if (lack !== null) return tooFewTests(evidence, lack);
  return judgeAgainstEarlier(request, evidence);
}

/** Adds the report that the plan requires, because failures in it count too. */
function withReport(request: CommandVerdictRequest): CommandVerdictRequest {
  const { report } = request;
  if (report === undefined || report.text === null || report.format !== "junit") return request;
  return { ...request, junit: [...request.junit, { path: reportVariable, xml: report.text }] };
}

const reportVariable = "$WAVESMITH_REPORT";

/**
 * Returns the contradictions in the reports of a command that exited with 0, because an exit code
 * is easily lost or forged.
 */
function reportFaults({ output, junit, report, oddReports = [] }: CommandVerdictRequest): string[] {
  const tap = report?.format === "tap" && report.text !== null ? reportedFailures(report.text, []) : [];
  const odd = report?.odd == null ? oddReports : [...oddReports, `${reportVariable} ${report.odd}`];
  return [...reportedFailures(output, junit), ...tap, ...odd];
}

function failedInReport(request: CommandVerdictRequest, evidence: Evidence, faults: readonly string[]): GateResult {
  const message = `${request.command} exited with 0, but ${faults.join(", and ")}`;
  const tests = findFailures(request.output, request.junit).filter((finding) => finding.rule !== "command-failed");
  return {
    verdict: "failed",
    evidence,
    findings: [createFailure("reported-failure", message), ...tests],
    reason: null,
  };
}

/** Fails a run with fewer tests than on the wave's base, because a removed test cannot fail. */
function judgeAgainstEarlier(request: CommandVerdictRequest, evidence: Evidence): GateResult {
  const passed: GateResult = { verdict: "passed", evidence, findings: [], reason: null };
  if (request.earlier == null) return passed;
  const { lack, note } = compareCounts(evidence.tests, request.command, request.earlier);
  if (lack !== null) return { ...passed, verdict: "failed", findings: [createFailure("fewer-tests", lack)] };
  return note === null ? passed : { ...passed, evidence: { ...evidence, notes: [...evidence.notes, note] } };
}

function evidenceOf(request: CommandVerdictRequest, tests: TestCounts | null): Evidence {
  const { stage } = request;
  return {
    sha: request.sha,
    command: request.command,
    exitCode: stage.exitCode,
    signal: stage.signal,
    timedOut: stage.timedOut,
    durationMs: stage.durationMs ?? 0,
    outputTail: evidenceTail(request.output),
    tests,
    notes: notesOf(request, tests),
  };
}

function notesOf(request: CommandVerdictRequest, tests: TestCounts | null): string[] {
  const notes: string[] = [];
  if (tests?.source === "runner") notes.push("the number of tests is estimated from the runner's summary");
  if (request.stage.truncated) notes.push("the middle of the output was cut");
  if (request.stage.outOfMemory) notes.push("a process of the command was killed because memory ran out");
  return notes;
}

function timedOut(request: CommandVerdictRequest, evidence: Evidence): GateResult {
  const seconds = Math.round(evidence.durationMs / 1_000);
  const otherFindings = findFailures(request.output, request.junit).filter(
    (finding) => finding.rule !== "command-failed",
  );
  const finding = createFailure("timed-out", `${request.command} did not end within its time (${seconds} s)`);
  return { verdict: "inconclusive", evidence, findings: [finding, ...otherFindings], reason: "timed-out" };
}

function commandNotFound(request: CommandVerdictRequest, evidence: Evidence): GateResult {
  const line = missingProgram(request.output) ?? request.stage.error ?? "the shell found no such command";
  const finding = createFailure("command-not-found", `${request.command} could not be run: ${line}`);
  return { verdict: "inconclusive", evidence, findings: [finding], reason: "command-not-found" };
}

const notFound =
  /^\S+: (?:\d+: |line \d+: )?\S+: (?:command )?not found|: \S+: (?:command )?not found|: command not found: |make: \S+: No such file or directory$|No module named (?:pytest|nose|tox)\b|^error: no such command/;

/**
 * Finds the line in which a shell, or an interpreter given a test runner, reports a missing
 * program.
 */
function missingProgram(output: string): string | null {
  return outputLines(output).findLast((line) => notFound.test(line)) ?? null;
}

/**
 * Whether the command itself was missing. 126 and 127 are clear, and npm passes them on; pnpm, yarn
 * and make exit with another code but print the shell's. A test that fails because it calls a
 * missing program is a failing test.
 */
function isCommandNotFound(request: CommandVerdictRequest): boolean {
  const { exitCode, error } = request.stage;
  if (exitCode === 126 || exitCode === 127) return true;
  if (error !== null && exitCode === null) return /not found|no such file|ENOENT|EACCES/i.test(error);
  if (exitCode === 0) return false;
  if (/No module named (?:pytest|nose|tox)\s*$/m.test(request.output)) return true;
  const reportsMissing = /(?:exit (?:code|status)|Error|status) 12[67]\b|ELIFECYCLE|no such command/.test(
    request.output,
  );
  return (
    reportsMissing && missingProgram(request.output) !== null && countTests(request.output, request.junit) === null
  );
}

function failed(request: CommandVerdictRequest, evidence: Evidence): GateResult {
  if (request.minTests !== null && request.minTests > 0 && foundNoTests(request)) {
    return tooFewTests(evidence, "the runner found no tests");
  }
  const findings = findFailures(request.output, request.junit);
  const end = endOf(request);
  if (end === null) return { verdict: "failed", evidence, findings, reason: null };
  const [first] = findings;
  // Without a named failure there is one finding: the last line of the output.
  const lastLine = first?.rule === "command-failed" && request.output.trim() !== "" ? first.message : null;
  const cause = createFailure("command-failed", lastLine === null ? end : `${end}; it last printed: ${lastLine}`);
  const named = findings.filter((finding) => finding.rule !== "command-failed");
  return { verdict: "failed", evidence, findings: [cause, ...named], reason: null };
}

/** Says how the command ended when its exit code does not. */
function endOf({ command, stage: { error, exitCode, outOfMemory, signal } }: CommandVerdictRequest): string | null {
  if (error?.startsWith(command)) return error;
  if (error === null && exitCode !== null) return null;
  const reason = error ?? (outOfMemory ? "it ran out of memory" : `it was ended by ${signal ?? "a signal"}`);
  return `${command} did not end by itself: ${reason}`;
}

/** Whether the runner found no tests: pytest exits with 5, others with 1 and these messages. */
function foundNoTests(request: CommandVerdictRequest): boolean {
  if (request.stage.exitCode === 5 && /no tests ran|\bdeselected\b|NO TESTS RAN/.test(request.output)) return true;
  return /^\s*(?:No test (?:suite )?files found|No tests found|Error: No test files found|Error: No tests found)/m.test(
    outputLines(request.output).join("\n"),
  );
}

/** Explains why too few tests ran; null if enough did. Skipped tests do not count. */
function lackOfTests(tests: TestCounts | null, { minTests, report }: CommandVerdictRequest): string | null {
  if (tests === null) {
    if (minTests === null || minTests === 0) return null;
    if (report !== undefined)
      return `the command wrote no ${report.format} report with tests to ${reportVariable}, and at least ${minTests} must run: gates.testing.report in the plan asks for one`;
    return `no test count was found and at least ${minTests} must run: let the command print TAP or its runner's summary, or write a JUnit XML report; for a command that counts no tests, set gates.testing.minTests: 0`;
  }
  const ranCount = tests.total - tests.skipped;
  const required = minTests ?? 1;
  if (ranCount >= required) return null;
  const skipped = tests.skipped > 0 ? `, ${tests.skipped} ${tests.skipped === 1 ? "was" : "were"} skipped` : "";
  return `${ranCount} ${ranCount === 1 ? "test" : "tests"} ran${skipped}, at least ${required} must`;
}

function tooFewTests(evidence: Evidence, lack: string): GateResult {
  return {
    verdict: "inconclusive",
    evidence: { ...evidence, notes: [...evidence.notes, lack] },
    findings: [createFailure("too-few-tests", lack)],
    reason: "too-few-tests",
  };
}
