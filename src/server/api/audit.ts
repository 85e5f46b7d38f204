import { z } from "@hono/zod-openapi";
import { auditJson } from "../../api/audit.ts";
import { type ApiContext, cursorValue, type Endpoint, endpoint, page, pageOf, pageQuery } from "./endpoint.ts";

const auditReply = z
  .looseObject({ id: z.number(), at: z.string(), actor: z.string(), action: z.string(), result: z.number() })
  .openapi("AuditEntry");

/** The audit log: who requested which change. */
export function auditEndpoints({ app }: ApiContext): Endpoint[] {
  return [
    endpoint("get /audit", {
      summary: "List who asked for which change, newest first",
      needs: "admin",
      query: pageQuery,
      reply: pageOf(auditReply),
      async handle({ query: { cursor, limit } }) {
        const order = { by: "id" as const, descending: true, limit: limit + 1, ...cursorValue(cursor, "number") };
        const rows = await app.ports.store.auditEntries.list({}, order);
        return { body: page(rows, { limit, cursorOf: ({ id }) => id, show: auditJson }) };
      },
    }),
  ];
}
