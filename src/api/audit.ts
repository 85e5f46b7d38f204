import type { Ports } from "../coordinator/port.ts";

type AuditRow = Awaited<ReturnType<Ports["store"]["auditEntries"]["get"]>>;

/** An entry of the audit log as it is shown. */
export const auditJson = ({ id, at, actor, via, action, target, result }: AuditRow) => ({
  ...{ id, at, actor, via, action, target, result },
});
