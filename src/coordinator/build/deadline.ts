import type { Plan } from "../../domain/plan.ts";

/** When the plan's wall-clock budget, counted anew, is used up. */
export function deadlineFrom(plan: Plan, now: Date): Date | null {
  const { wallClockMs } = plan.limits.budget;
  return wallClockMs === null ? null : new Date(now.getTime() + wallClockMs);
}
