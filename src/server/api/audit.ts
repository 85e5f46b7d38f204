import { z } from "@hono/zod-openapi";
import { listAudit } from "../../api/audit.ts";
import { runsServer } from "../access/operators.ts";
import { type ApiContext, cursorValue, type Endpoint, endpoint, page, pageOf, pageQuery } from "./endpoint.ts";

const auditReply = z
  .looseObject({
    id: z.number(),
    at: z.string(),
    actor: z.string(),
    via: z.string(),
    action: z.string(),
    target: z.string().nullable(),
    result: z.number(),
    tenant: z.string(),
  })
  .openapi("AuditEntry");

/** The audit log: who requested which change. */
export function auditEndpoints({ app: { ports, allTenants } }: ApiContext): Endpoint[] {
  return [
    endpoint("get /audit", {
      summary: "List who asked for which change, newest first; in every tenant for admins of the default tenant",
      needs: "admin",
      query: pageQuery,
      reply: pageOf(auditReply),
      async handle({ caller, query: { cursor, limit } }) {
        const seen = runsServer(caller) ? allTenants : ports;
        const rows = await listAudit(seen, { limit: limit + 1, ...cursorValue(cursor, "number") });
        return { body: page(rows, { limit, cursorOf: ({ id }) => id, show: (row) => row }) };
      },
    }),
  ];
}
