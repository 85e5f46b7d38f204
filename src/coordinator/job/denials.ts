import { messageOf } from "../../domain/errors.ts";
import type { BuildRow } from "../../store/port.ts";
import type { Ports } from "../port.ts";

const mostNamed = 5;

/**
 * A failure's reason, with the hosts that the sandbox was denied since then and what to write in
 * the plan, and those that did not answer: programs often say no more than that something could not
 * be found. Other tasks in the same sandbox may have asked for them.
 */
export async function withDenials(
  ports: Pick<Ports, "egress" | "driver" | "log">,
  build: Pick<BuildRow, "network" | "projectId" | "sandboxDriver">,
  { reason, since }: { readonly reason: string; readonly since: Date },
): Promise<string> {
  try {
    if (build.network === "none") return reason + refusedText(await refusedSince(ports, build, since));
    if (build.network !== "allowlist") return reason;
    const projectId = build.projectId;
    const unreachable = await ports.egress.unreachable(projectId, since);
    return reason + deniedText(await ports.egress.denied(projectId, since)) + unreachableText(unreachable);
  } catch (error) {
    ports.log.warn(`what the network denied cannot be read: ${messageOf(error)}`);
    return reason;
  }
}

/**
 * What was asked for in a sandbox without a network; a sandbox that is gone has taken that with it.
 */
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
    : `; the network is off (network: none), and meanwhile ${named(hosts)} was asked for ${remedy(hosts)}`;

const deniedText = (hosts: readonly string[]): string =>
  hosts.length === 0 ? "" : `; meanwhile the network denied ${named(hosts)} ${remedy(hosts)}`;

const unreachableText = (hosts: readonly string[]): string =>
  hosts.length === 0 ? "" : `; meanwhile ${named(hosts)} could not be reached, although that is allowed`;

function named(hosts: readonly string[]): string {
  const more = hosts.length > mostNamed ? ` and ${hosts.length - mostNamed} more` : "";
  return `${hosts.slice(0, mostNamed).join(", ")}${more}`;
}

function remedy(hosts: readonly string[]): string {
  const entries = hosts.slice(0, mostNamed).map((host) => `"${host}"`);
  return `(if it is needed: network: { allow: [${entries.join(", ")}] } in the plan)`;
}
