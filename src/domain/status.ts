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
/** Builds that hold their project: no other build of it may start. */
export const activeBuildStatuses: readonly BuildStatus[] = ["running", "waiting", "cancelling"];
/** Builds that use a sandbox now. */
export const sandboxBuildStatuses: readonly BuildStatus[] = ["running", "cancelling"];
/** Builds that have ended, until somebody retries them. */
export const endedBuildStatuses: readonly BuildStatus[] = ["completed", "failed", "cancelled"];
/** Builds that a person's command can still act on; a failed one can be retried. */
export const steerableBuildStatuses: readonly BuildStatus[] = ["queued", "running", "waiting", "failed"];
/** Builds that continue without a person. */
export const movingBuildStatuses: readonly BuildStatus[] = ["queued", "running", "cancelling"];

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
/** Waves that have started and not ended. */
export const liveWaveStatuses: readonly WaveStatus[] = ["running", "joining", "gating", "fixing", "waiting"];

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
/** Tasks of a wave that have no outcome yet. */
export const openTaskStatuses: readonly TaskStatus[] = ["assigned", "running", "joining"];

export const attemptStatusSchema = z.enum(["requested", "starting", "running", "finishing", "settled"]);
export type AttemptStatus = z.infer<typeof attemptStatusSchema>;
/** Attempts that are not settled. */
export const liveAttemptStatuses: readonly AttemptStatus[] = ["requested", "starting", "running", "finishing"];
/** Attempts whose job may exist and whose work is not being kept yet. */
export const startedAttemptStatuses: readonly AttemptStatus[] = ["starting", "running"];

/** How an attempt ended. */
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
/** Gate runs without a verdict. */
export const liveGateRunStatuses = ["requested", "running"] as const;

export const verdictSchema = z.enum(["passed", "failed", "inconclusive", "absent", "not-due", "off"]);
export type Verdict = z.infer<typeof verdictSchema>;

export const severitySchema = z.enum(["low", "medium", "high", "critical"]);
export type Severity = z.infer<typeof severitySchema>;
/** Whether `severity` is at or above `threshold`. */
export function atLeast(severity: Severity, threshold: Severity): boolean {
  return severitySchema.options.indexOf(severity) >= severitySchema.options.indexOf(threshold);
}

/** Jobs that have not ended. */
export const liveJobStatuses = ["intended", "running"] as const;
