import { sameActionLimit } from "./protocol.ts";

/** Notices an agent that does the same thing again and again. */
export function createLoopWatch(): (action: { id: string; title: string; input: unknown }) => string | null {
  let last = "";
  let times = 0;
  const seen = new Set<string>();
  return ({ id, title, input }) => {
    // Each call counts once, however often it is updated.
    if (seen.has(id)) return null;
    seen.add(id);
    const action = `${title}\0${JSON.stringify(input ?? null)}`;
    times = action === last ? times + 1 : 1;
    last = action;
    return times < sameActionLimit ? null : `it did the same ${times} times in a row: ${title}`;
  };
}
