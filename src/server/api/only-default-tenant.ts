import { defaultTenant } from "../../coordinator/build/request/project.ts";
import type { Caller } from "../../domain/access.ts";
import { WavesmithError } from "../../domain/errors.ts";

/**
 * Refuses other tenants what exists once for the whole server: for them, there is none (W11).
 */
export function onlyDefaultTenant({ tenant }: Caller): void {
  if (tenant === defaultTenant) return;
  throw new WavesmithError("not-found", "your tenant has no settings of its own");
}
