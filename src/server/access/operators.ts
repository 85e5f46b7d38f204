import { defaultTenant } from "../../coordinator/build/request/project.ts";
import type { Caller } from "../../domain/access.ts";
import { WavesmithError } from "../../domain/errors.ts";

/** Whether a caller's tenant runs the server. Its admins see and change what all tenants share. */
export const runsServer = ({ tenant }: Pick<Caller, "tenant">): boolean => tenant === defaultTenant;

/** Fails with `usage` for a caller whose tenant does not run the server. */
export function requireOperator(caller: Pick<Caller, "tenant">, what: string): void {
  if (runsServer(caller)) return;
  throw new WavesmithError("usage", `${what} serves all tenants`, {
    remedy: `use an admin key of the tenant ${defaultTenant}`,
  });
}

/**
 * Answers other tenants that the settings, which exist once for the whole server, are not there
 * (W11).
 */
export function hideSettings(caller: Pick<Caller, "tenant">): void {
  if (!runsServer(caller)) throw new WavesmithError("not-found", "your tenant has no settings of its own");
}

/**
 * Returns the name of the tenant that an admin means: any for those who run the server, otherwise
 * only the caller's own. Another one is answered like one that does not exist (W11).
 */
export function tenantMeant(caller: Pick<Caller, "tenant">, named: string | undefined): string {
  if (named === undefined || named === caller.tenant || runsServer(caller)) return named ?? caller.tenant;
  throw new WavesmithError("not-found", `there is no tenant ${named}`);
}
