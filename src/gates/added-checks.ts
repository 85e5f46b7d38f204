import { z } from "zod";
import type { Finding } from "../domain/gate/finding.ts";
import type { StageState } from "../sandbox/port.ts";
import { createFailure } from "./failures/failure.ts";
import { judgeCommand } from "./judge-command.ts";
import type { AddedCheckRequest, GateResult, JudgedCheck, ProposedCheck } from "./port.ts";
import { parseGateResult } from "./review.ts";
import { outputLines } from "./text.ts";

const limits = { checks: 10, name: 80, command: 2_000, why: 500 };

const words = (longest: number) =>
  z
    .string()
    .trim()
    .min(1)
    .max(longest)
    .refine((text) => !/[\u0000-\u001f\u007f-\u009f]/.test(text), { error: "it is not one line of plain text" });
const checkSchema = z.object({
  name: words(limits.name),
  command: z
    .string()
    .trim()
    .min(1)
    .max(limits.command)
    .refine((text) => !/[\u0000-\u0008\u000b-\u001f\u007f]/.test(text), { error: "it has control characters" }),
  why: words(limits.why),
});
const proposalSchema = z.object({ checks: z.array(checkSchema).max(limits.checks) });

/** The JSON schema of a gate agent's result. */
export const checksJsonSchema = {
  type: "object",
  properties: {
    checks: {
      type: "array",
      maxItems: limits.checks,
      items: {
        type: "object",
        properties: {
          name: { type: "string", minLength: 1, maxLength: limits.name, description: "what it checks, in a few words" },
          command: {
            type: "string",
            minLength: 1,
            maxLength: limits.command,
            description: "a shell command, run at the root of the tree; exit 0 means that the check passes",
          },
          why: {
            type: "string",
            minLength: 1,
            maxLength: limits.why,
            description: "the part of the wave's work that needs this check, in one line",
          },
        },
        required: ["name", "command", "why"],
      },
    },
  },
  required: ["checks"],
} as const;

const remedy = 'write { "checks": [{ "name", "command", "why" }] }, at most ten';

/**
 * Reads the checks of a gate agent's result file. Fails with `usage` and every problem when it does
 * not match the schema.
 */
export const parseChecks = (resultFile: string): ProposedCheck[] =>
  parseGateResult(resultFile, proposalSchema, remedy, "its").checks;

const maxPaths = 40;

/**
 * Finds words of a command that may be paths below the tree's root, without quotes and a leading
 * `./`.
 */
export function pathsIn(command: string): string[] {
  const paths = command
    .split(/[\s'"`;|&<>(){}=,:]+/)
    .map((word) => word.replace(/^(?:\.\/)+/, "").replace(/\/+$/, ""))
    .filter((word) => /^[\p{L}\p{N}_.@][\p{L}\p{N}_.@+/-]*$/u.test(word) && !/(?:^|\/)\.{1,2}(?:\/|$)/.test(word));
  return [...new Set(paths)].slice(0, maxPaths);
}

/** Judges a check that we ran: it passed, it failed with its own exit code, or it was not valid. */
export function judgeAddedCheck(request: AddedCheckRequest): JudgedCheck {
  const { check, stage, output, sha, jobEnd } = request;
  if (check.refused !== null) return notRun(check.refused);
  if (stage === null || stage.status === "skipped" || stage.status === "pending")
    return notRun(jobEnd ?? "its job ended before the check ran");
  const commandResult = judgeCommand({ sha, command: check.command, stage, output, junit: [], minTests: null });
  const { exitCode, durationMs, outputTail } = commandResult.evidence;
  const run = { exitCode, durationMs, outputTail };
  // An added check is judged by its exit code; we ignore its output.
  if (exitCode === 0 && !commandResult.evidence.timedOut)
    return { result: { ...run, outcome: "passed", note: null }, findings: [] };
  const note = explainInvalidCheck(request, stage, commandResult);
  if (note !== null) return { result: { ...run, outcome: "not-run", note }, findings: [] };
  return { result: { ...run, outcome: "failed", note: null }, findings: findingsOf(request, commandResult) };
}

/**
 * Explains why a check that did not pass says nothing about the commit; null if it was valid and
 * failed.
 */
function explainInvalidCheck(request: AddedCheckRequest, stage: StageState, commandResult: GateResult): string | null {
  const lack = findLack(request);
  if (lack !== null) return lack;
  if (stage.outOfMemory) return "it ran out of memory";
  if (commandResult.verdict === "failed")
    return isKilled(commandResult.evidence.exitCode) ? "it was stopped early" : null;
  // The report already shows the command and that it could not run.
  const { command } = request.check;
  const message = commandResult.findings[0]?.message ?? commandResult.reason;
  return message === null
    ? null
    : message.replace(`${command} could not be run: `, () => "").replace(`${command} `, () => "");
}

function findingsOf({ check, output }: AddedCheckRequest, { evidence, findings }: GateResult): Finding[] {
  const { name, why, command } = check;
  const finding = createFailure("added-check", `${name} (${why}): exit ${evidence.exitCode} of ${command}`);
  // Do not mention missing output.
  const more = output.trim() === "" ? findings.filter(({ rule }) => rule !== "command-failed") : findings;
  return [finding, ...more.map((other) => ({ ...other, message: `${name}: ${other.message}` }))];
}

/** Whether SIGKILL or SIGTERM ended the command, directly or as reported by a shell. */
const isKilled = (exitCode: number | null): boolean => exitCode === null || exitCode === 137 || exitCode === 143;

const notRun = (note: string): JudgedCheck => ({
  result: { outcome: "not-run", exitCode: null, durationMs: 0, outputTail: "", note },
  findings: [],
});

const saysMissing = /no such file|cannot find|can't open|cannot open|could not find|not found|does not exist|ENOENT/i;

/** Names the files that a failing check lacked but its agent had; null if there are none. */
function findLack({ check, missing, output }: AddedCheckRequest): string | null {
  const [path] = missing;
  if (path !== undefined) return `it needs ${path}, which only its agent's tree had`;
  // Each job has its own temporary files.
  const temporary = check.command.match(/\/(?:var\/)?tmp\/[\w.@+/-]+/g) ?? [];
  const lines = outputLines(output).filter((line) => saysMissing.test(line));
  const missingPath = temporary.find((place) => lines.some((line) => line.includes(place)));
  return missingPath === undefined ? null : `it needs ${missingPath}, which is not in the commit`;
}
