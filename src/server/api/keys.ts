import { z } from "@hono/zod-openapi";
import { createKey, listKeys, revokeKey } from "../../api/keys.ts";
import { type Caller, scopes } from "../../domain/access.ts";
import { runsServer, tenantMeant } from "../access/operators.ts";
import { type ApiContext, type Endpoint, endpoint, idParams } from "./endpoint.ts";

const keyReply = z
  .looseObject({
    id: z.string(),
    name: z.string(),
    scope: z.enum(scopes),
    status: z.enum(["active", "expired", "revoked"]),
    createdBy: z.string().nullable(),
    createdAt: z.string(),
    expiresAt: z.string().nullable(),
    revokedAt: z.string().nullable(),
    usedAt: z.string().nullable(),
  })
  .openapi("Key");
const mostDays = 3_650;
const tenant = z.string().trim().min(1).max(80).optional();
const tenantQuery = z.strictObject({ tenant });

/** The keys of the caller's tenant. People who run the server may name any tenant. */
export function keyEndpoints({ app }: ApiContext): Endpoint[] {
  const portsFor = (caller: Caller) => (runsServer(caller) ? app.allTenants : app.ports);
  return [
    endpoint("get /keys", {
      summary: "List the keys of your tenant, newest first; admins of the default tenant name any tenant",
      needs: "admin",
      query: tenantQuery,
      reply: z.looseObject({ items: z.array(keyReply) }),
      handle: async ({ caller, query }) => ({
        body: { items: await listKeys(portsFor(caller), tenantMeant(caller, query.tenant)) },
      }),
    }),
    endpoint("post /keys", {
      summary: "Create a key; its text is in this answer only",
      needs: "admin",
      body: z
        .strictObject({
          name: z.string().trim().min(1).max(80),
          scope: z.enum(scopes).default("build"),
          expiresInDays: z.number().int().min(1).max(mostDays).optional(),
          expiresInHours: z
            .number()
            .int()
            .min(1)
            .max(mostDays * 24)
            .optional(),
          tenant,
        })
        .refine(({ expiresInDays, expiresInHours }) => expiresInDays === undefined || expiresInHours === undefined, {
          message: "expiresInDays and expiresInHours cannot be used together",
        }),
      reply: keyReply.extend({ tenant: z.string(), key: z.string() }).openapi("NewKey"),
      status: 201,
      async handle({ body: { name, scope, ...body }, caller }) {
        const hours = body.expiresInHours ?? (body.expiresInDays === undefined ? null : body.expiresInDays * 24);
        const wanted = { tenant: tenantMeant(caller, body.tenant), name, scope, createdBy: caller.name };
        const made = await createKey(portsFor(caller), {
          ...wanted,
          validMs: hours === null ? null : hours * 60 * 60_000,
        });
        return { body: { ...made.view, tenant: wanted.tenant, key: made.key } };
      },
    }),
    endpoint("delete /keys/{id}", {
      summary: "Revoke a key, and end the sessions that it opened",
      needs: "admin",
      params: idParams,
      query: tenantQuery,
      reply: keyReply,
      handle: async ({ params, query, caller }) => ({
        body: await revokeKey(portsFor(caller), tenantMeant(caller, query.tenant), params.id),
      }),
    }),
  ];
}
