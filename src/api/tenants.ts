import { tenantIdFor } from "../coordinator/build/request/project.ts";
import type { Ports } from "../coordinator/port.ts";
import { limitsFor, type OwnLimits, type TenantLimits } from "../domain/access.ts";
import { WavesmithError } from "../domain/errors.ts";
import { liveAttemptStatuses, movingBuildStatuses } from "../domain/status.ts";

type TenantPorts = Pick<Ports, "store" | "tenantLimits">;
type TenantRow = Awaited<ReturnType<Ports["store"]["tenants"]["get"]>>;

/** A tenant with its limits and what it uses of them. */
export interface TenantView {
  readonly id: string;
  readonly name: string;
  readonly createdAt: Date;
  /** The limit in force; null: no limit. */
  readonly limits: TenantLimits;
  /** The limits that were set for this tenant; the others come from the settings. */
  readonly own: readonly string[];
  readonly use: { readonly [Name in keyof TenantLimits]: number };
}

/** Lists the tenants that the store shows, by name. */
export async function listTenants(ports: TenantPorts): Promise<TenantView[]> {
  const rows = await ports.store.tenants.list({}, { by: "name" });
  return Promise.all(rows.map((row) => view(ports, row)));
}

/**
 * Changes limits of a tenant: null removes a limit, `default` restores the one in the settings.
 * Fails with `not-found`.
 */
export async function limitTenant(
  ports: TenantPorts,
  name: string,
  change: { readonly [Name in keyof TenantLimits]?: number | null | "default" | undefined },
): Promise<TenantView> {
  const row = await ports.store.transaction("limit-tenant", async (transaction) => {
    const found = await transaction.tenants.find({ id: tenantIdFor(name) });
    if (found === null) throw noTenant(name);
    const before = await transaction.lockTenant(found.id);
    const said = Object.entries({ ...before.limits, ...change }).filter(
      ([, value]) => value !== "default" && value !== undefined,
    );
    const limits = Object.fromEntries(said) as OwnLimits;
    const [changed] = await transaction.tenants.update({ id: found.id }, { limits });
    return changed ?? before;
  });
  return view(ports, row);
}

const noTenant = (name: string): WavesmithError =>
  new WavesmithError("not-found", `there is no tenant ${name}`, {
    remedy: "wavesmith tenants lists them; a tenant's first key makes it: wavesmith keys create NAME --tenant TENANT",
  });

async function view({ store, tenantLimits }: TenantPorts, row: TenantRow): Promise<TenantView> {
  const { id, name, createdAt, limits: own } = row;
  const builds = await store.builds.pick({ tenantId: id, status: [...movingBuildStatuses, "waiting"] }, ["id"]);
  const ids = builds.map((build) => build.id);
  const tasks = await store.attempts.pick({ buildId: ids, status: liveAttemptStatuses, kind: "task" }, ["id"]);
  const running = await store.sandboxes.pick({ state: "running" }, ["projectId"]);
  const projectId = running.map((sandbox) => sandbox.projectId);
  const sandboxes = await store.projects.pick({ tenantId: id, id: projectId }, ["id"]);
  const { microUsd } = await store.tenantSpending(id);
  const use = { builds: ids.length, tasks: tasks.length, sandboxes: sandboxes.length, usd: microUsd / 1_000_000 };
  return { id, name, createdAt, limits: limitsFor(own, tenantLimits), own: Object.keys(own), use };
}
