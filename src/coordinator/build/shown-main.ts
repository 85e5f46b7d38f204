import type { BuildRow } from "../../store/port.ts";
import type { Ports } from "../port.ts";

/** Checks main out in a running sandbox; `repo` of a stopped one follows at its next start. */
export async function showMain(ports: Ports, { projectId, sandboxDriver }: BuildRow, sha: string): Promise<void> {
  const endpoint = await ports.driver(sandboxDriver).find(projectId);
  if (endpoint !== null) await ports.workspace.syncVolume(projectId, endpoint.guest, sha);
}
