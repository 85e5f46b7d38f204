import type { Ports } from "../port.ts";
import { countFailure } from "./schedule-failures.ts";

/** Counts the ends of the builds that schedules started; the third failure in a row pauses one. */
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
