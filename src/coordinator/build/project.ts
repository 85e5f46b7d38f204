import { derivedId, type ProjectId, type TenantId } from "../../domain/ids.ts";

export const defaultTenant = "default";

export const tenantIdFor = (tenant: string): TenantId => derivedId("tenant", tenant);

/**
 * A project's id follows from its tenant and name, so that everybody who names it finds the same.
 */
export const projectIdFor = (tenant: string, project: string): ProjectId => derivedId("project", tenant, project);
