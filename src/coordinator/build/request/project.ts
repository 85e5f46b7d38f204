import { derivedId, type ProjectId, type TenantId } from "../../../domain/ids.ts";

export const defaultTenant = "default";

export const tenantIdFor = (tenant: string): TenantId => derivedId("tenant", tenant);

/** Derives a project's id from its tenant and name, so that everyone who names it gets the same. */
export const projectIdFor = (tenant: string, project: string): ProjectId => derivedId("project", tenant, project);
