import { addressShown } from "../coordinator/notification/deliver-notices.ts";
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
