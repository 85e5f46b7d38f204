import type { Ports } from "../coordinator/port.ts";

type AuditRow = Awaited<ReturnType<Ports["store"]["auditEntries"]["get"]>>;

/** An entry of the audit log as it is shown. */
export interface AuditEntryView extends Omit<AuditRow, "tenantId" | "at"> {
  readonly at: string;
  /** The tenant's name. */
  readonly tenant: string;
}

interface AuditPage {
  readonly limit: number;
  /** Lists the entries before the one with this id. */
  readonly after?: number;
}

/** Lists who asked for which change, newest first, in the tenants whose rows the store shows. */
export async function listAudit({ store }: Pick<Ports, "store">, page: AuditPage): Promise<AuditEntryView[]> {
  const rows = await store.auditEntries.list({}, { by: "id", descending: true, ...page });
  const names = new Map((await store.tenants.list({})).map(({ id, name }) => [id, name]));
  return rows.map(({ id, at, actor, via, action, target, result, tenantId }) => ({
    ...{ id, at: at.toISOString(), actor, via, action, target, result },
    tenant: names.get(tenantId) ?? "",
  }));
}
