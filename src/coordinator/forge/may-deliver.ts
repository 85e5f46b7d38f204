import { WavesmithError } from "../../domain/errors.ts";
import type { Plan } from "../../domain/plan/plan.ts";
import { defaultTenant, tenantIdFor } from "../build/request/project.ts";

// MD1. The forges' credentials are this machine's, and so the default tenant's, like its secrets.
// Another tenant's builds neither push, nor read private repositories, nor get what webhooks bring.

/** Whether a tenant's builds may use the forges of this installation. */
export const usesForges = (tenantId: string): boolean => tenantId === tenantIdFor(defaultTenant);

/** Refuses a plan that delivers to a repository, for any but the default tenant. */
export function refuseDelivery({ deliver }: Pick<Plan, "deliver">, tenantId: string): void {
  if (deliver.repo === null || usesForges(tenantId)) return;
  throw new WavesmithError("unsupported", `only the tenant ${defaultTenant} delivers to the forges of this server`, {
    remedy: "leave deliver.repo out",
  });
}
