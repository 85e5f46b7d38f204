import { z } from "zod";

export const buildStatusSchema = z.enum([
  "queued",
  "running",
  "waiting",
  "cancelling",
  "completed",
  "failed",
  "cancelled",
]);
export type BuildStatus = z.infer<typeof buildStatusSchema>;

export const waveStatusSchema = z.enum([
  "running",
  "joining",
  "gating",
  "fixing",
  "waiting",
  "passed",
  "blocked",
  "failed",
  "cancelled",
]);
export type WaveStatus = z.infer<typeof waveStatusSchema>;

export const taskStatusSchema = z.enum([
  "pending",
  "assigned",
  "running",
  "joining",
  "completed",
  "failed",
  "skipped",
  "cancelled",
  "removed",
]);
export type TaskStatus = z.infer<typeof taskStatusSchema>;

export const attemptStatusSchema = z.enum(["requested", "starting", "running", "finishing", "settled"]);
export type AttemptStatus = z.infer<typeof attemptStatusSchema>;

/** How an attempt ended (contract 3). */
export const attemptOutcomeSchema = z.enum([
  "succeeded",
  "failed",
  "timed-out",
  "cancelled",
  "lost",
  "refused",
  "over-budget",
]);
export type AttemptOutcome = z.infer<typeof attemptOutcomeSchema>;

export const gateNameSchema = z.enum(["testing", "critic", "integration"]);
export type GateName = z.infer<typeof gateNameSchema>;
/** The order in which the gates of a wave run. */
export const gateNames: readonly GateName[] = gateNameSchema.options;

export const verdictSchema = z.enum(["passed", "failed", "inconclusive", "absent", "not-due", "off"]);
export type Verdict = z.infer<typeof verdictSchema>;

export const severitySchema = z.enum(["low", "medium", "high", "critical"]);
export type Severity = z.infer<typeof severitySchema>;
/** Whether `severity` is at or above `threshold`. */
export function atLeast(severity: Severity, threshold: Severity): boolean {
  return severitySchema.options.indexOf(severity) >= severitySchema.options.indexOf(threshold);
}
