import { failuresToPause } from "../../domain/schedule.ts";
import type { ScheduleRow } from "../../store/port.ts";
import { eventsOf } from "../build-events.ts";
import type { Ports } from "../port.ts";

/**
 * Counts a failure of a schedule, once for each of its runs, and pauses it after the third in a
 * row, in the transaction that reports the pause.
 */
export async function countFailure(
  ports: Pick<Ports, "store" | "log">,
  { id, lastBuildId, lastRunAt, isSettled, failures, name }: ScheduleRow,
  reason: string,
): Promise<void> {
  const count = failures + 1;
  const isPaused = count >= failuresToPause;
  const note = isPaused ? `paused after ${count} failures in a row, the last: ${reason}` : reason;
  const isCounted = await ports.store.transaction("settle-schedule", async (transaction) => {
    const build = lastBuildId === null ? null : await transaction.builds.find({ id: lastBuildId });
    if (build !== null) await transaction.lockBuild(build.id);
    const [counted] = await transaction.schedules.update(
      { id, lastBuildId, lastRunAt, isSettled, failures },
      { isSettled: true, failures: count, note, ...(isPaused ? { status: "paused" as const } : {}) },
    );
    if (counted === undefined) return false;
    if (isPaused && build !== null) await eventsOf(transaction, build).schedulePaused(counted, note);
    return true;
  });
  if (isCounted) ports.log.warn(`the schedule ${name} (${id}): ${note}`);
}
