import { defaultTenant, tenantIdFor } from "../../coordinator/build/request/project.ts";
import type { Store } from "../parts.ts";
import { requester } from "./requester.ts";

interface DoneCommand {
  /** Its words, such as `sandbox rm`. */
  readonly action: string;
  /** The ids it named. */
  readonly target: string | null;
  /** The name of the tenant; default: the default tenant. */
  readonly tenant?: string;
  /** Its exit code. */
  readonly result: number;
}

/** Adds a command that changed something to the audit log. */
export async function recordCommand(store: Store, done: DoneCommand): Promise<void> {
  const { action, target, tenant = defaultTenant, result } = done;
  const tenantId = tenantIdFor(tenant);
  await store.tenants.insertIfAbsent({ id: tenantId, name: tenant });
  await store.auditEntries.insert({ tenantId, actor: requester(), via: "cli", action, target, result });
}
