import { messageOf } from "../domain/errors.ts";
import type { ProjectId } from "../domain/ids.ts";
import type { BuildRow } from "../store/port.ts";
import type { Ports } from "./port.ts";

const mostNamed = 5;

/**
 * A failure's reason, with the hosts that the sandbox was denied since then and what to write in the plan: programs often
 * say no more than that something could not be found. Other tasks in the same sandbox may have asked for them.
 */
export async function withDenials(
  ports: Pick<Ports, "egress" | "log">,
  { network, projectId }: Pick<BuildRow, "network" | "projectId">,
  { reason, since }: { readonly reason: string; readonly since: Date },
): Promise<string> {
  if (network !== "allowlist") return reason;
  const denied = await ports.egress.denied(projectId as ProjectId, since).catch((error: unknown) => {
    ports.log.warn(`what the network denied cannot be read: ${messageOf(error)}`);
    return [];
  });
  if (denied.length === 0) return reason;
  const named = denied.slice(0, mostNamed);
  const more = denied.length > named.length ? ` and ${denied.length - named.length} more` : "";
  const entries = named.map((host) => `"${host}"`).join(", ");
  return `${reason}; meanwhile the network denied ${named.join(", ")}${more} (if it is needed: network: { allow: [${entries}] } in the plan)`;
}
