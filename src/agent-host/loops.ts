import { createHash } from "node:crypto";
import { sameActionLimit, sameUnseenLimit } from "./protocol.ts";

/** A finished tool call: its final input and its result. */
export interface SettledCall {
  readonly id: string;
  readonly title: string;
  readonly input: unknown;
  readonly result: unknown;
}

/**
 * Detects an agent that repeats the same action with the same result. The result counts, because
 * polling for a change is not a loop.
 */
export function createLoopWatch(): (call: SettledCall) => string | null {
  let last = "";
  let times = 0;
  const seen = new Set<string>();
  return ({ id, title, input, result }) => {
    // Each call counts once, no matter how often it is updated.
    if (seen.has(id)) return null;
    seen.add(id);
    const isUnseen = result === undefined;
    const action = createHash("sha256")
      .update(JSON.stringify([title, input ?? null, result ?? null]))
      .digest("hex");
    times = action === last ? times + 1 : 1;
    last = action;
    if (times < (isUnseen ? sameUnseenLimit : sameActionLimit)) return null;
    const count = times;
    times = 0;
    return `it made the same call ${count} times in a row${isUnseen ? "" : ", with the same result"}: ${title}`;
  };
}
