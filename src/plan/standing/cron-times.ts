import { Cron } from "croner";
import type { ScheduleTimes } from "../../domain/schedule.ts";

/**
 * Returns the first time that a cron matches after a given moment, in its time zone; null if there
 * is none.
 */
export function nextCronTime({ cron, timezone }: ScheduleTimes, after: Date): Date | null {
  return compiled({ cron, timezone }).nextRun(after);
}

/** Counts the times that a cron matches after one moment and up to another, to `most` at most. */
export function countCronTimes(times: ScheduleTimes, after: Date, until: Date, most: number): number {
  const cron = compiled(times);
  let count = 0;
  for (let next = cron.nextRun(after); next !== null && next <= until && count < most; next = cron.nextRun(next))
    count += 1;
  return count;
}

/** Whether the cron has five fields that some date matches, in a known time zone. */
export function isCron(times: ScheduleTimes): boolean {
  if (times.cron.trim().split(/\s+/).length !== 5) return false;
  try {
    return nextCronTime(times, new Date(0)) !== null;
  } catch {
    return false; // croner's words are about its own fields
  }
}

const compiled = ({ cron, timezone }: ScheduleTimes): Cron => new Cron(cron, { timezone, paused: true });
