import { z } from "@hono/zod-openapi";
import { notificationJson } from "../../api/notifications.ts";
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
  })
  .openapi("Notification");

export function notificationEndpoints({ app: { ports } }: ApiContext): Endpoint[] {
  return [
    endpoint("get /notifications", {
      summary: "List what `notify` sent, and what waits or was given up",
      query: pageQuery.extend({ status: z.enum(["waiting", "sent", "dead"]).optional() }),
      reply: pageOf(notificationReply),
      async handle({ caller, query: { cursor, limit, status } }) {
        const order = { by: "id" as const, limit: limit + 1, ...cursorValue(cursor, "string") };
        const where = { tenantId: caller.tenantId, ...(status === undefined ? {} : { status }) };
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
  ];
}
