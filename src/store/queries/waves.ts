import type { Tables, TaskRow, WaveRow } from "../port.ts";

/** Finds the wave of the build that was started last. */
export const latestWaveOf = ({ waves }: Pick<Tables, "waves">, buildId: string): Promise<WaveRow | null> =>
  waves.find({ buildId }, { by: "number", descending: true });

/** Returns the ids of the tasks that a wave holds. */
export async function memberIdsOf({ waveTasks }: Pick<Tables, "waveTasks">, waveId: string): Promise<TaskRow["id"][]> {
  return (await waveTasks.list({ waveId })).map(({ taskId }) => taskId);
}
