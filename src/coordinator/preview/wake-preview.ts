import { eventsOf } from "../build-events.ts";
import type { Ports } from "../port.ts";

/** Requests the start of a sleeping preview; safe for many callers at once. */
export async function wakePreview(ports: Ports, buildId: string): Promise<void> {
  const ids = { jobKey: `preview-${buildId}-${ports.ids("job")}`, sandboxId: ports.ids("sandbox") };
  await ports.store.transaction("preview-wake", async (transaction) => {
    const build = await transaction.lockBuild(buildId);
    const [row] = await transaction.previews.update(
      { buildId, status: "asleep" },
      { ...ids, status: "starting", port: 0, starts: 1, reason: null, requestedAt: ports.clock.now() },
    );
    if (row === undefined) return;
    // The job's key is new, so this event's id is too (W13).
    await eventsOf(transaction, build).deployPreview(row, ids.jobKey, 0);
  });
}
