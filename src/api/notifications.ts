import { addressShown, deliverDueNotices, retryNotices } from "../coordinator/notification/deliver-notices.ts";
import type { Ports } from "../coordinator/port.ts";
import { WavesmithError } from "../domain/errors.ts";
import type { NotificationRow } from "../store/port.ts";

/** Returns a notification as JSON, without the secret part of its address. */
export const notificationJson = (row: NotificationRow) => ({
  id: row.id,
  buildId: row.buildId,
  event: row.event,
  title: row.title,
  to: addressShown(row.address),
  status: row.status,
  tries: row.tries,
  problem: row.problem,
  nextAt: row.status === "waiting" ? row.nextAt.toISOString() : null,
  createdAt: row.createdAt.toISOString(),
  sentAt: row.sentAt?.toISOString() ?? null,
});

export type NotificationView = ReturnType<typeof notificationJson>;

export interface Replayed {
  readonly tried: number;
  /** The notifications that failed again. */
  readonly failed: readonly NotificationView[];
}

/**
 * Sends a notification again, or with null all that were not sent, and waits for the outcome. Fails
 * with `not-found`.
 */
export async function sendNotificationsAgain(ports: Ports, id: string | null): Promise<Replayed> {
  const tried = await retryNotices(ports, id);
  if (id !== null && tried === 0) {
    throw new WavesmithError("not-found", `there is no notification ${id}`, {
      remedy: "wavesmith notifications lists them",
    });
  }
  while ((await deliverDueNotices(ports, "all")) > 0);
  const rows = await ports.store.notifications.list(id === null ? { status: "waiting" } : { id });
  return { tried, failed: rows.filter(({ status, tries }) => status !== "sent" && tries > 0).map(notificationJson) };
}
