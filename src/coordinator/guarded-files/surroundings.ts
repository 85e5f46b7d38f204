import { posix } from "node:path";
import { isAgentFile } from "../../domain/paths/agent-files.ts";
import type { SandboxEndpoint } from "../../sandbox/port.ts";
import type { BuildRow } from "../../store/port.ts";
import type { Ports } from "../port.ts";

// Agents also read the folders above their tree and their home. With a mount namespace for each job
// (`local`), other jobs cannot write there. Other drivers do not keep jobs apart like that.

/** Whether no job can write where another one reads, except in folders that they share. */
export const keepsJobsApart = ({ driverTraits }: Pick<Ports, "driverTraits">, { sandboxDriver }: BuildRow): boolean =>
  driverTraits(sandboxDriver).isolation === "jobs";

/**
 * Removes agent files that other jobs put above the trees and, with `home`, a home that another job
 * filled before its first use. Call it before an agent's job starts. It never removes work.
 */
export async function clearSurroundings(
  ports: Ports,
  { guest }: SandboxEndpoint,
  { build, home }: { build: BuildRow; home: string | null },
): Promise<void> {
  if (keepsJobsApart(ports, build)) return;
  const above = ["", "trees", `trees/${build.id}`, "homes", `homes/${build.id}`];
  const lists = await Promise.all(above.map((folder) => guest.list(folder).catch(() => []))); // some do not exist yet
  for (const { path } of lists.flat()) {
    if (!isAgentFile(posix.basename(path))) continue;
    ports.log.warn(`${path} lay above the trees of agents, who take it as instructions: a task put it there; removed`);
    await guest.remove(path, { recursive: true });
  }
  if (home !== null && (await guest.stat(home)) !== null) await guest.remove(home, { recursive: true });
}
