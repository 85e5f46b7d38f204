import type { TaskRow } from "../../store/port.ts";
import type { Ports } from "../port.ts";

export async function waveMembers(ports: Pick<Ports, "store">, waveId: string): Promise<TaskRow[]> {
  const members = await ports.store.waveTasks.list({ waveId });
  return ports.store.tasks.list({ id: members.map((member) => member.taskId) }, { by: "position" });
}

/** Whether a fix may change tests: only if every task of the wave may (W7). */
export const mayChangeTests = (members: readonly TaskRow[]): boolean =>
  members.length > 0 && members.every((member) => member.definition.mayChangeTests);
