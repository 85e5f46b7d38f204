import type { Plan } from "../../domain/plan/plan.ts";

/** Returns when the plan's wall-clock budget ends, counted from now. */
export function deadlineFrom(plan: Plan, now: Date): Date | null {
  const { wallClockMs } = plan.limits.budget;
  return wallClockMs === null ? null : new Date(now.getTime() + wallClockMs);
}
