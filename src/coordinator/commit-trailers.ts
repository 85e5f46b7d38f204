import type { BuildRow, TaskRow, WaveRow } from "../store/port.ts";

/** Returns the trailers that say which build, wave and task a commit belongs to. */
export const commitTrailers = (
  build: Pick<BuildRow, "id">,
  wave: Pick<WaveRow, "number">,
  taskKey: TaskRow["key"] | null,
): string[] => [
  `Wavesmith-Build: ${build.id}`,
  `Wavesmith-Wave: ${wave.number}`,
  ...(taskKey === null ? [] : [`Wavesmith-Task: ${taskKey}`]),
];
