import { z } from "@hono/zod-openapi";
import { createKey, listKeys, revokeKey } from "../../api/keys.ts";
import { scopes } from "../../domain/access.ts";
import { type ApiContext, type Endpoint, endpoint, idParams } from "./endpoint.ts";

const keyReply = z
  .looseObject({
    id: z.string(),
    name: z.string(),
    scope: z.enum(scopes),
    status: z.string(),
    createdAt: z.string(),
    expiresAt: z.string().nullable(),
  })
  .openapi("Key");
const mostDays = 3_650;

/** The keys of the caller's tenant. */
export function keyEndpoints({ app: { ports } }: ApiContext): Endpoint[] {
  return [
    endpoint("get /keys", {
      summary: "List the keys of your tenant, newest first",
      needs: "admin",
      reply: z.looseObject({ items: z.array(keyReply) }),
      handle: async ({ caller }) => ({ body: { items: await listKeys(ports, caller.tenant) } }),
    }),
    endpoint("post /keys", {
      summary: "Make a key; its text is in this answer only",
      needs: "admin",
      body: z.strictObject({
        name: z.string().trim().min(1).max(80),
        scope: z.enum(scopes).default("build"),
        expiresInDays: z.number().int().min(1).max(mostDays).optional(),
      }),
      reply: keyReply.extend({ key: z.string() }).openapi("NewKey"),
      status: 201,
      async handle({ body: { name, scope, expiresInDays }, caller }) {
        const validMs = expiresInDays === undefined ? null : expiresInDays * 24 * 60 * 60_000;
        const { tenant } = caller;
        const made = await createKey(ports, { tenant, name, scope, validMs, createdBy: caller.name });
        return { body: { ...made.view, key: made.key } };
      },
    }),
    endpoint("delete /keys/{id}", {
      summary: "Revoke a key, and end the sessions that it opened",
      needs: "admin",
      params: idParams,
      reply: keyReply,
      handle: async ({ params, caller }) => ({ body: await revokeKey(ports, caller.tenant, params.id) }),
    }),
  ];
}
