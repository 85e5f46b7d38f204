import { type NetworkPolicy, networkOf } from "../../domain/network.ts";
import type { BuildRow } from "../../store/port.ts";

/**
 * What the sandbox of a build may reach: how far was decided when the build was requested, which
 * hosts its plan says.
 */
export const networkPolicyOf = ({ network, plan }: Pick<BuildRow, "network" | "plan">): NetworkPolicy =>
  network === "allowlist" ? networkOf(plan) : { mode: network, hosts: [] };
