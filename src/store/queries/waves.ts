import type { Tables, WaveRow } from "../port.ts";

/** Finds the wave of the build that was started last. */
export const latestWaveOf = ({ waves }: Pick<Tables, "waves">, buildId: string): Promise<WaveRow | null> =>
  waves.find({ buildId }, { by: "number", descending: true });
