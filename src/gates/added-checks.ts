import { z } from "zod";
import type { Finding } from "../domain/finding.ts";
import type { StageState } from "../sandbox/port.ts";
import { failure } from "./failures/failure.ts";
import { judgeCommand } from "./judge-command.ts";
import type { AddedCheckRequest, GateResult, JudgedCheck, ProposedCheck } from "./port.ts";
import { readResult } from "./review.ts";
import { outputLines } from "./text.ts";

const most = { checks: 10, name: 80, command: 2_000, why: 500 };

const words = (longest: number) =>
  z
    .string()
    .trim()
    .min(1)
    .max(longest)
    .refine((text) => !/[\u0000-\u001f\u007f-\u009f]/.test(text), { error: "it is not one line of plain text" });
const checkSchema = z.object({
  name: words(most.name),
  command: z
    .string()
    .trim()
    .min(1)
    .max(most.command)
    .refine((text) => !/[\u0000-\u0008\u000b-\u001f\u007f]/.test(text), { error: "it has control characters" }),
  why: words(most.why),
});
const proposalSchema = z.object({ checks: z.array(checkSchema).max(most.checks) });

/** The JSON schema of a gate agent's result. */
export const checksJsonSchema = {
  type: "object",
  properties: {
    checks: {
      type: "array",
      maxItems: most.checks,
      items: {
        type: "object",
        properties: {
          name: { type: "string", minLength: 1, maxLength: most.name, description: "what holds, in a few words" },
          command: {
            type: "string",
            minLength: 1,
            maxLength: most.command,
            description: "a shell command for the root of the tree; exit 0: it holds",
          },
          why: {
            type: "string",
            minLength: 1,
            maxLength: most.why,
            description: "the part of the wave's work that needs it, in one line",
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
  readResult(resultFile, proposalSchema, remedy, "its").checks;

const mostPaths = 40;

/**
 * Finds words of a command that may be paths below the tree's root, without quotes and a leading
 * `./`.
 */
export function pathsIn(command: string): string[] {
  const found = command
    .split(/[\s'"`;|&<>(){}=,:]+/)
    .map((word) => word.replace(/^(?:\.\/)+/, "").replace(/\/+$/, ""))
    .filter((word) => /^[\p{L}\p{N}_.@][\p{L}\p{N}_.@+/-]*$/u.test(word) && !/(?:^|\/)\.{1,2}(?:\/|$)/.test(word));
  return [...new Set(found)].slice(0, mostPaths);
}

/**
 * Judges a check that we ran: it passed, failed with its own exit code, or was not a valid check.
 */
export function judgeAddedCheck(request: AddedCheckRequest): JudgedCheck {
  const { check, stage, output, sha, jobEnd } = request;
  if (check.refused !== null) return notRun(check.refused);
  if (stage === null || stage.status === "skipped" || stage.status === "pending")
    return notRun(jobEnd ?? "its job ended before it");
  const judged = judgeCommand({ sha, command: check.command, stage, output, junit: [], minTests: null });
  const { exitCode, durationMs, outputTail } = judged.evidence;
  const ran = { exitCode, durationMs, outputTail };
  // An added check is judged by its exit code; we ignore its output.
  if (exitCode === 0 && !judged.evidence.timedOut)
    return { result: { ...ran, outcome: "passed", note: null }, findings: [] };
  const note = whyNoCheck(request, stage, judged);
  if (note !== null) return { result: { ...ran, outcome: "not-run", note }, findings: [] };
  return { result: { ...ran, outcome: "failed", note: null }, findings: findingsOf(request, judged) };
}

/**
 * Explains why a check that did not pass says nothing about the commit; null if it was valid and
 * failed.
 */
function whyNoCheck(request: AddedCheckRequest, stage: StageState, judged: GateResult): string | null {
  const lacking = lackOf(request);
  if (lacking !== null) return lacking;
  if (stage.outOfMemory) return "it ran out of memory";
  if (judged.verdict === "failed") return isEnded(judged.evidence.exitCode) ? "it was stopped early" : null;
  // The report already shows the command and that it could not run.
  const { command } = request.check;
  const said = judged.findings[0]?.message ?? judged.reason;
  return said === null
    ? null
    : said.replace(`${command} could not be run: `, () => "").replace(`${command} `, () => "");
}

function findingsOf({ check, output }: AddedCheckRequest, { evidence, findings }: GateResult): Finding[] {
  const { name, why, command } = check;
  const told = failure("added-check", `${name} (${why}): exit ${evidence.exitCode} of ${command}`);
  // Missing output needs no mention.
  const more = output.trim() === "" ? findings.filter(({ rule }) => rule !== "command-failed") : findings;
  return [told, ...more.map((finding) => ({ ...finding, message: `${name}: ${finding.message}` }))];
}

/**
 * Whether SIGKILL or SIGTERM ended it, also as reported by a shell: out of memory, or stopped from
 * outside.
 */
const isEnded = (exitCode: number | null): boolean => exitCode === null || exitCode === 137 || exitCode === 143;

const notRun = (note: string): JudgedCheck => ({
  result: { outcome: "not-run", exitCode: null, durationMs: 0, outputTail: "", note },
  findings: [],
});

const saysMissing = /no such file|cannot find|can't open|cannot open|could not find|not found|does not exist|ENOENT/i;

/** Names the files that a failing check lacked but its agent had; null if there are none. */
function lackOf({ check, missing, output }: AddedCheckRequest): string | null {
  const [path] = missing;
  if (path !== undefined) return `it needs ${path}, which only its agent's tree had`;
  // Each job has its own temporary files.
  const temporary = check.command.match(/\/(?:var\/)?tmp\/[\w.@+/-]+/g) ?? [];
  const lines = outputLines(output).filter((line) => saysMissing.test(line));
  const named = temporary.find((place) => lines.some((line) => line.includes(place)));
  return named === undefined ? null : `it needs ${named}, which is not in the commit`;
}
