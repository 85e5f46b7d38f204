import type { ApiType } from "../../src/client/client.ts";

interface Place {
  readonly x: number;
  readonly y: number;
}

/** Where the waves and tasks of a graph are, in pixels. */
export interface WaveLayout {
  readonly lanes: ReadonlyMap<number, { readonly x: number; readonly width: number }>;
  readonly places: ReadonlyMap<string, Place>;
  readonly card: { readonly width: number; readonly height: number };
  readonly width: number;
  readonly height: number;
}

const card = { width: 208, height: 72 };
const gap = 8;
const pad = 10;
const headHeight = 72;
const laneGap = 26;
/** A wave with more tasks than this gets a second column. */
const fewRows = 8;

/** Puts every wave into a lane, from left to right, and its tasks below each other. */
export function layWaves({ waves, tasks }: ApiType<"BuildGraph">): WaveLayout {
  const largest = Math.max(1, ...waves.map((wave) => wave.tasks.length));
  // Keeps a wave about as high as it is wide: five hundred tasks become a block, not a tower.
  const rows = Math.max(fewRows, Math.ceil(Math.sqrt(largest * 1.6)));
  const lanes = new Map<number, { x: number; width: number }>();
  const places = new Map<string, Place>();
  const known = new Map(tasks.map(({ id, wave }) => [id, wave]));
  let x = 0;
  let mostRows = 1;
  for (const { number, tasks: members } of waves) {
    // A task that a conflict sent back is shown in its last wave alone.
    const own = members.filter((id) => known.get(id) === number);
    const columns = Math.max(1, Math.ceil(own.length / rows));
    const perColumn = Math.ceil(own.length / columns);
    const width = 2 * pad + columns * card.width + (columns - 1) * gap;
    for (const [index, id] of own.entries()) {
      const column = Math.floor(index / perColumn);
      const row = index % perColumn;
      places.set(id, {
        x: x + pad + column * (card.width + gap),
        y: headHeight + row * (card.height + gap),
      });
    }
    mostRows = Math.max(mostRows, perColumn);
    lanes.set(number, { x, width });
    x += width + laneGap;
  }
  const height = headHeight + mostRows * (card.height + gap) + pad - gap;
  return { lanes, places, card, width: Math.max(0, x - laneGap), height };
}
