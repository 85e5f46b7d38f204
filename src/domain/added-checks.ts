import { z } from "zod";
import { verdictSchema } from "./status.ts";

// Checks that a gate's agent proposes once our own have held, and that we run ourselves. They can
// fail a gate and never make one pass.

const addedCheckSchema = z.object({
  name: z.string(),
  /** A shell command line. */
  command: z.string(),
  why: z.string(),
  /**
   * Paths it names that were in its agent's tree alone: what fails for want of one was not checked.
   */
  needs: z.array(z.string()),
  /** Why it is never run; null: it is. */
  refused: z.string().nullable(),
  /** What came of it on the run's commit; null: nothing yet. */
  result: z
    .object({
      outcome: z.enum(["passed", "failed", "not-run"]),
      exitCode: z.number().int().nullable(),
      durationMs: z.number(),
      /** The last lines of output, secrets masked. */
      outputTail: z.string(),
      /** Why it could not be run. */
      note: z.string().nullable(),
    })
    .nullable(),
});
export type AddedCheck = z.infer<typeof addedCheckSchema>;

/** What a gate's agent added to one run of it. */
export const addedChecksSchema = z.object({
  role: z.string(),
  /** What is under way: the agent is asked, or its checks are run; null: neither. */
  phase: z.enum(["asking", "running"]).nullable(),
  /**
   * Whether the agent was asked in this run; if not, its checks are those it added to an earlier
   * run of the wave.
   */
  asked: z.boolean(),
  /** What our own checks had said before, and says the gate unless a check fails. */
  own: z.object({ verdict: verdictSchema, reason: z.string().nullable() }),
  /** Why there are no checks, when the agent did not do its part; null otherwise. */
  lack: z.string().nullable(),
  checks: z.array(addedCheckSchema),
});
export type AddedChecks = z.infer<typeof addedChecksSchema>;

/** In one line: how many checks there are and what came of them. */
export function addedText({ role, asked, lack, checks }: AddedChecks): string {
  if (lack !== null) return `agent ${role} added no checks: ${lack}`;
  if (checks.length === 0) return `agent ${role} added no checks`;
  const many = `${checks.length} ${checks.length === 1 ? "check" : "checks"}`;
  const said = asked ? `agent ${role} added ${many}` : `${many} that agent ${role} had added before`;
  const number = (outcome: string): number => checks.filter(({ result }) => result?.outcome === outcome).length;
  const parts = [
    ...(["passed", "failed"] as const).map((outcome) => ({ count: number(outcome), text: outcome })),
    { count: number("not-run"), text: "could not be run" },
  ];
  const outcomes = parts.filter(({ count }) => count > 0).map(({ count, text }) => `${count} ${text}`);
  return outcomes.length === 0 ? said : `${said}: ${outcomes.join(", ")}`;
}

/** What a check ran and printed. */
export const checkOutput = ({ command, result }: AddedCheck): string => `$ ${command}\n${result?.outputTail ?? ""}`;

/**
 * What failed checks ran and printed: data, for whoever mends what they found; null when none
 * failed.
 */
export function failedOutput(added: AddedChecks | undefined): string | null {
  const failed = added?.checks.filter(({ result }) => result?.outcome === "failed") ?? [];
  return failed.length === 0 ? null : failed.map(checkOutput).join("\n");
}
