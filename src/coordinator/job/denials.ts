import { messageOf } from "../../domain/errors.ts";
import type { BuildRow } from "../../store/port.ts";
import type { Ports } from "../port.ts";

const maxNamedHosts = 5;

/** Agents ask these by themselves, for news and statistics, and work without them. */
const agentsOwnHosts = /(^|\.)chatgpt\.com(:\d+)?$/;

/**
 * Adds to a failure's reason the hosts that the sandbox was denied since then, with the setting
 * that allows them, and the hosts that did not answer, because programs often do not name them. The
 * requests may come from other tasks in the same sandbox.
 */
export async function withDenials(
  ports: Pick<Ports, "egress" | "driver" | "log">,
  build: Pick<BuildRow, "network" | "projectId" | "sandboxDriver">,
  { reason, since }: { readonly reason: string; readonly since: Date },
): Promise<string> {
  try {
    const needed = (hosts: readonly string[]): string[] => hosts.filter((host) => !agentsOwnHosts.test(host));
    if (build.network === "none") return reason + refusedText(needed(await refusedSince(ports, build, since)));
    if (build.network !== "allowlist") return reason;
    const projectId = build.projectId;
    const unreachable = await ports.egress.unreachable(projectId, since);
    return reason + deniedText(needed(await ports.egress.denied(projectId, since))) + unreachableText(unreachable);
  } catch (error) {
    ports.log.warn(`cannot read which hosts were denied: ${messageOf(error)}`);
    return reason;
  }
}

/** Returns the hosts requested in a sandbox without a network; none if the sandbox is gone. */
async function refusedSince(
  ports: Pick<Ports, "driver">,
  { projectId, sandboxDriver }: Pick<BuildRow, "projectId" | "sandboxDriver">,
  since: Date,
): Promise<string[]> {
  const endpoint = await ports.driver(sandboxDriver).find(projectId);
  const { egress } = (await endpoint?.guest.health()) ?? { egress: null };
  return (egress?.refused ?? []).filter(({ at }) => new Date(at) >= since).map(({ host }) => host);
}

const refusedText = (hosts: readonly string[]): string =>
  hosts.length === 0
    ? ""
    : `; the network is off (network: none), but programs tried to reach ${named(hosts)} ${remedy(hosts)}`;

const deniedText = (hosts: readonly string[]): string =>
  hosts.length === 0 ? "" : `; meanwhile the network denied ${named(hosts)} ${remedy(hosts)}`;

const unreachableText = (hosts: readonly string[]): string =>
  hosts.length === 0 ? "" : `; meanwhile ${named(hosts)} could not be reached, although that is allowed`;

function named(hosts: readonly string[]): string {
  const more = hosts.length > maxNamedHosts ? ` and ${hosts.length - maxNamedHosts} more` : "";
  return `${hosts.slice(0, maxNamedHosts).join(", ")}${more}`;
}

function remedy(hosts: readonly string[]): string {
  const entries = hosts.slice(0, maxNamedHosts).map((host) => `"${host}"`);
  return `(if it is needed: network: { allow: [${entries.join(", ")}] } in the plan)`;
}
