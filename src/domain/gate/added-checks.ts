import { z } from "zod";
import { verdictSchema } from "../status.ts";

// Checks that a gate's agent proposes once the gate's own checks have passed. We run them
// ourselves; they can fail a gate but never make it pass.

const addedCheckSchema = z.object({
  name: z.string(),
  /** A shell command line. */
  command: z.string(),
  why: z.string(),
  /**
   * Paths that the check names and that exist only in its agent's tree. If one is missing, a
   * failure proves nothing.
   */
  needs: z.array(z.string()),
  /** Why the check is never run; null if it is run. */
  refused: z.string().nullable(),
  /** The check's result on the run's commit; null: not run yet. */
  result: z
    .object({
      outcome: z.enum(["passed", "failed", "not-run"]),
      exitCode: z.number().int().nullable(),
      durationMs: z.number(),
      /** The last lines of output, secrets masked. */
      outputTail: z.string(),
      /** Why the check could not be run. */
      note: z.string().nullable(),
    })
    .nullable(),
});
export type AddedCheck = z.infer<typeof addedCheckSchema>;

/** The checks that a gate's agent added to one gate run. */
export const addedChecksSchema = z.object({
  role: z.string(),
  /** Whether the agent is being asked or its checks are running; null: neither. */
  phase: z.enum(["asking", "running"]).nullable(),
  /**
   * Whether the agent was asked in this run; if not, the checks come from an earlier run of the
   * wave.
   */
  asked: z.boolean(),
  /** The result of the gate's own checks, which stands unless an added check fails. */
  own: z.object({ verdict: verdictSchema, reason: z.string().nullable() }),
  /** Why the agent proposed no checks, if that was its fault; null otherwise. */
  lack: z.string().nullable(),
  checks: z.array(addedCheckSchema),
});
export type AddedChecks = z.infer<typeof addedChecksSchema>;

/** Summarises in one line how many checks there are and how they ended. */
export function addedText({ role, asked, lack, checks }: AddedChecks): string {
  if (lack !== null) return `agent ${role} added no checks: ${lack}`;
  if (checks.length === 0) return `agent ${role} added no checks`;
  const checkCount = `${checks.length} ${checks.length === 1 ? "check" : "checks"}`;
  const summary = asked ? `agent ${role} added ${checkCount}` : `${checkCount} that agent ${role} had added before`;
  const number = (outcome: string): number => checks.filter(({ result }) => result?.outcome === outcome).length;
  const parts = [
    ...(["passed", "failed"] as const).map((outcome) => ({ count: number(outcome), text: outcome })),
    { count: number("not-run"), text: "could not be run" },
  ];
  const outcomes = parts.filter(({ count }) => count > 0).map(({ count, text }) => `${count} ${text}`);
  return outcomes.length === 0 ? summary : `${summary}: ${outcomes.join(", ")}`;
}

/** Returns what a check ran and printed. */
export const checkOutput = ({ command, result }: AddedCheck): string => `$ ${command}\n${result?.outputTail ?? ""}`;

/** Returns what failed checks ran and printed, as data for the fixer; null when none failed. */
export function failedOutput(added: AddedChecks | undefined): string | null {
  const failed = added?.checks.filter(({ result }) => result?.outcome === "failed") ?? [];
  return failed.length === 0 ? null : failed.map(checkOutput).join("\n");
}
