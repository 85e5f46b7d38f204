import type { Caller } from "../../domain/access.ts";
import { messageOf } from "../../domain/errors.ts";
import type { ApiContext } from "../api/endpoint.ts";

interface AskedChange {
  /** The route, such as `POST /builds/{id}/cancel`. */
  readonly action: string;
  readonly params: Readonly<Record<string, string>>;
  /** The status of the answer. */
  readonly result: number;
}

/** Adds an asked change to the audit log of the caller's tenant. A failure is only warned of. */
export async function recordRequest(
  { app, warn }: Pick<ApiContext, "app" | "warn">,
  { tenantId, name }: Caller,
  { action, params, result }: AskedChange,
): Promise<void> {
  const target = Object.values(params).join(" ").slice(0, 300);
  const entry = { tenantId, at: app.ports.clock.now(), actor: name, via: "api" as const, action, result };
  await app.ports.store.auditEntries
    .insert({ ...entry, target: target === "" ? null : target })
    .catch((error: unknown) => warn(`${action} by ${name} is missing in the audit log: ${messageOf(error)}`));
}
