import { type NetworkPolicy, networkOf } from "../domain/sandbox/network.ts";
import type { BuildRow } from "../store/port.ts";

/**
 * Returns the network policy of a build's sandbox: the mode chosen at its request, and the hosts of
 * its plan.
 */
export const networkPolicyOf = ({ network, plan }: Pick<BuildRow, "network" | "plan">): NetworkPolicy =>
  network === "allowlist" ? networkOf(plan) : { mode: network, hosts: [] };
