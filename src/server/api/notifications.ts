import { z } from "@hono/zod-openapi";
import { notificationJson, sendNotificationsAgain } from "../../api/notifications.ts";
import { retryNotices } from "../../coordinator/notification/deliver-notices.ts";
import { WavesmithError } from "../../domain/errors.ts";
import {
  type ApiContext,
  cursorValue,
  type Endpoint,
  endpoint,
  idParams,
  page,
  pageOf,
  pageQuery,
} from "./endpoint.ts";

const notificationReply = z
  .looseObject({
    id: z.string(),
    buildId: z.string(),
    event: z.string(),
    title: z.string(),
    to: z.string(),
    status: z.enum(["waiting", "sent", "dead"]),
    tries: z.number(),
    problem: z.string().nullable(),
    nextAt: z.string().nullable(),
    createdAt: z.string(),
    sentAt: z.string().nullable(),
  })
  .openapi("Notification");

const listQuery = pageQuery.extend({
  status: z.enum(["waiting", "sent", "dead"]).optional(),
  latest: z.enum(["true", "false"]).default("false"),
});

export function notificationEndpoints({ app: { ports } }: ApiContext): Endpoint[] {
  return [
    endpoint("get /notifications", {
      summary: "List what `notify` sent, and what waits or was given up; ?latest=true: the newest first, on one page",
      query: listQuery,
      reply: pageOf(notificationReply),
      async handle({ caller, query: { cursor, limit, status, latest } }) {
        const where = { tenantId: caller.tenantId, ...(status === undefined ? {} : { status }) };
        if (latest === "true") {
          const newest = await ports.store.notifications.list(where, { by: "createdAt", descending: true, limit });
          return { body: { items: newest.map(notificationJson), nextCursor: null } };
        }
        const order = { by: "id" as const, limit: limit + 1, ...cursorValue(cursor, "string") };
        const rows = await ports.store.notifications.list(where, order);
        return { body: page(rows, { limit, cursorOf: ({ id }) => id, show: notificationJson }) };
      },
    }),
    endpoint("post /notifications/{id}/replay", {
      summary: "Send a notification again",
      params: idParams,
      reply: notificationReply,
      status: 202,
      async handle({ caller, params: { id } }) {
        const row = await ports.store.notifications.find({ id, tenantId: caller.tenantId });
        if (row === null) throw new WavesmithError("not-found", `there is no notification ${id}`);
        await retryNotices(ports, id);
        return { body: notificationJson(await ports.store.notifications.get({ id })) };
      },
    }),
    endpoint("post /notifications/replay", {
      summary: "Send a notification again, or all that were not sent, and wait for the outcome",
      body: z.strictObject({ id: z.string().min(1).max(100).optional() }),
      reply: z.looseObject({ tried: z.number(), failed: z.array(notificationReply) }),
      handle: async ({ body: { id } }) => ({ body: await sendNotificationsAgain(ports, id ?? null) }),
    }),
  ];
}
