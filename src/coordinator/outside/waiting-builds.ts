import { requestCancel } from "../build/stop/cancel-build.ts";
import type { Ports } from "../port.ts";

/** Cancels waiting builds whose requests' ids begin with `requests`, except the newest. */
export async function cancelWaiting(
  ports: Ports,
  requests: string,
  { newest, reason }: { newest: string; reason: string },
): Promise<void> {
  const waiting = await ports.store.builds.pick({ status: "queued" }, ["id", "eventId"]);
  for (const { id, eventId } of waiting)
    if (id !== newest && eventId.startsWith(requests)) await requestCancel(ports, id, reason, { unlessStarted: true });
}
