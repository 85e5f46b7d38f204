// Small requests of the same moment travel together.

import { WavesmithError } from "../../domain/errors.ts";
import { itemAt } from "../../domain/known.ts";
import type { BatchAnswer, BatchCall } from "../../guest/protocol.ts";
import { refusalOf } from "./guest-connection.ts";

/** One call of a batch. */
export interface Small<Result> {
  /** `quick` reads or makes something small; `tidy` removes. */
  readonly lane: "quick" | "tidy";
  readonly call: BatchCall;
  /** How to make the call when it is the only one. */
  readonly alone: () => Promise<Result>;
  /** Parses the answer. Throws when it violates the protocol. */
  readonly read: (value: unknown) => Result;
}

export interface Batching {
  together<Result>(small: Small<Result>): Promise<Result>;
}

interface Waiting {
  readonly small: Small<unknown>;
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Creates the batching of calls. `send` sends a batch and returns its answers, or null when this
 * guest takes no batches.
 */
export function createBatching(
  name: string,
  send: (lane: Small<unknown>["lane"], calls: readonly BatchCall[]) => Promise<readonly BatchAnswer[] | null>,
): Batching {
  const lanes: Record<Small<unknown>["lane"], Waiting[]> = { quick: [], tidy: [] };

  const leave = async (lane: Small<unknown>["lane"]): Promise<void> => {
    const waiting = lanes[lane];
    lanes[lane] = [];
    if (waiting.length === 1) return askAlone(waiting);
    try {
      const answers = await send(
        lane,
        waiting.map(({ small }) => small.call),
      );
      if (answers === null) return askAlone(waiting);
      if (answers.length !== waiting.length)
        throw new WavesmithError("guest-protocol", `the guest gave ${answers.length} answers, not ${waiting.length}`);
      for (const [index, one] of waiting.entries()) settle(name, one, itemAt(answers, index));
    } catch (error) {
      for (const { reject } of waiting) reject(error);
    }
  };
  return {
    together: <Result>(small: Small<Result>) =>
      new Promise<Result>((resolve, reject) => {
        // Callers that wait for the same event as we do have called by the end of this turn.
        if (lanes[small.lane].length === 0) setImmediate(() => void leave(small.lane));
        lanes[small.lane].push({ small, resolve: resolve as Waiting["resolve"], reject });
      }),
  };
}

function askAlone(waiting: readonly Waiting[]): void {
  for (const { small, resolve, reject } of waiting) small.alone().then(resolve, reject);
}

function settle(name: string, { small, resolve, reject }: Waiting, answer: BatchAnswer): void {
  try {
    if ("fault" in answer) throw refusalOf(name, small.call.call, answer.fault);
    resolve(small.read(answer.value));
  } catch (error) {
    reject(error);
  }
}
