import { z } from "@hono/zod-openapi";
import { limitTenant, listTenants } from "../../api/tenants.ts";
import { defaultTenant } from "../../coordinator/build/request/project.ts";
import { WavesmithError } from "../../domain/errors.ts";
import { runsServer } from "../access/operators.ts";
import { type ApiContext, type Endpoint, endpoint, idParams } from "./endpoint.ts";

const amounts = z.looseObject({
  builds: z.number().nullable(),
  tasks: z.number().nullable(),
  sandboxes: z.number().nullable(),
  usd: z.number().nullable(),
});
const tenantReply = z
  .looseObject({ id: z.string(), name: z.string(), limits: amounts, own: z.array(z.string()), use: amounts })
  .openapi("Tenant");
/** Null: no limit; `default`: what the settings say. */
const count = z.union([z.number().int().min(0).max(9_999), z.null(), z.literal("default")]).optional();
const limitsBody = z.strictObject({
  builds: count,
  tasks: count,
  sandboxes: count,
  usd: z.union([z.number().min(0).max(9_999_999), z.null(), z.literal("default")]).optional(),
});

/** The tenants. Admins of the default tenant run the server, so they see and limit all tenants. */
export function tenantEndpoints({ app: { ports, allTenants } }: ApiContext): Endpoint[] {
  return [
    endpoint("get /tenants", {
      summary: "List tenants with their limits and what they use; yours, or all for admins of the default tenant",
      needs: "admin",
      reply: z.looseObject({ items: z.array(tenantReply) }),
      handle: async ({ caller }) => ({ body: { items: await listTenants(runsServer(caller) ? allTenants : ports) } }),
    }),
    endpoint("put /tenants/{id}/limits", {
      summary: "Set limits of a tenant, by its name; null: none, default: as the settings say",
      needs: "admin",
      params: idParams,
      body: limitsBody,
      reply: tenantReply,
      async handle({ params, body, caller }) {
        if (runsServer(caller)) return { body: await limitTenant(allTenants, params.id, body) };
        // Another tenant's name is answered like one that does not exist (W11).
        if (params.id !== caller.tenant) throw new WavesmithError("not-found", `there is no tenant ${params.id}`);
        throw new WavesmithError("unsupported", "a tenant cannot change its own limits", {
          remedy: `ask the operator of this server: an admin key of the tenant ${defaultTenant} can`,
        });
      },
    }),
  ];
}
