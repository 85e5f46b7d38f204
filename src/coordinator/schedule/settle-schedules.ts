import type { Ports } from "../port.ts";
import { countFailure } from "./schedule-failures.ts";

/**
 * Records how the builds that schedules started ended; a third failure in a row pauses the
 * schedule.
 */
export async function settleSchedules(ports: Ports): Promise<void> {
  const { store } = ports;
  for (const row of await store.schedules.list({ isSettled: false })) {
    const { id, lastBuildId } = row;
    const build = lastBuildId === null ? null : await store.builds.find({ id: lastBuildId });
    const mine = { id, lastBuildId, isSettled: false };
    if (build === null || build.status === "cancelled") await store.schedules.update(mine, { isSettled: true });
    else if (build.status === "completed") await store.schedules.update(mine, { isSettled: true, failures: 0 });
    else if (build.status === "failed") await countFailure(ports, row, build.reason ?? "its build failed");
  }
}
