import { createHash } from "node:crypto";
import { sameActionLimit } from "./protocol.ts";

/** A tool call that is over: what it was really called with, and what came of it. */
export interface SettledCall {
  readonly id: string;
  readonly title: string;
  readonly input: unknown;
  readonly result: unknown;
}

/**
 * Notices an agent that does the same thing again and again with the same result: waiting for a
 * change is no loop.
 */
export function createLoopWatch(): (call: SettledCall) => string | null {
  let last = "";
  let times = 0;
  const seen = new Set<string>();
  return ({ id, title, input, result }) => {
    // Each call counts once, however often it is updated.
    if (seen.has(id)) return null;
    seen.add(id);
    const action = createHash("sha256")
      .update(JSON.stringify([title, input ?? null, result ?? null]))
      .digest("hex");
    times = action === last ? times + 1 : 1;
    last = action;
    return times < sameActionLimit ? null : `it did the same ${times} times in a row, with the same result: ${title}`;
  };
}
