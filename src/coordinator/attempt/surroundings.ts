import { posix } from "node:path";
import { isAgentFile } from "../../domain/agent-files.ts";
import type { SandboxEndpoint } from "../../sandbox/port.ts";
import type { BuildRow } from "../../store/port.ts";
import type { Ports } from "../port.ts";

// Agents also read what lies in the folders above their tree, and in their home. Where each job has
// a mount namespace of its own (`local`) no other can write there; elsewhere only the user inside
// keeps jobs apart, which is none.

/** Whether no job can write where another one reads, but for what they share on purpose. */
export const keepsJobsApart = ({ sandboxDriver }: BuildRow): boolean => sandboxDriver === "local";

/**
 * Removes what others put above the trees for agents to take as instructions, and with `home` a
 * home that somebody made ready before its first use. To be called before an agent's job is
 * started. Nothing there is ever work of anybody's.
 */
export async function clearSurroundings(
  ports: Ports,
  { guest }: SandboxEndpoint,
  { build, home }: { build: BuildRow; home: string | null },
): Promise<void> {
  if (keepsJobsApart(build)) return;
  const above = ["", "trees", `trees/${build.id}`, "homes", `homes/${build.id}`];
  const lists = await Promise.all(above.map((folder) => guest.list(folder).catch(() => []))); // Some are not there yet.
  for (const { path } of lists.flat()) {
    if (!isAgentFile(posix.basename(path))) continue;
    ports.log.warn(`${path} lay above the trees of agents, who take it as instructions: a task put it there; removed`);
    await guest.remove(path, { recursive: true });
  }
  if (home !== null && (await guest.stat(home)) !== null) await guest.remove(home, { recursive: true });
}
