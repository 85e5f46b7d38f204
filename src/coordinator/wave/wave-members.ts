import type { TaskRow } from "../../store/port.ts";
import type { Ports } from "../port.ts";

export async function waveMembers(ports: Pick<Ports, "store">, waveId: string): Promise<TaskRow[]> {
  const members = await ports.store.waveTasks.list({ waveId });
  return ports.store.tasks.list({ id: members.map((member) => member.taskId) }, { by: "position" });
}

/** For a fix, tests may change only when every task of the wave says so (W7). */
export const mayChangeTests = (members: readonly TaskRow[]): boolean =>
  members.length > 0 && members.every((member) => member.definition.mayChangeTests);
