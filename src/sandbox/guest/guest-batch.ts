// Small requests that are made at the same moment travel together.
// B1. Of a batch each call has its own answer or failure, the same as it would have alone.
// B2. What takes long is never in one with what is quick: a lane each.
import { WavesmithError } from "../../domain/errors.ts";
import type { BatchAnswer, BatchCall } from "../../guest/protocol.ts";
import { refusalOf } from "./guest-connection.ts";

/** One of a batch's calls. */
export interface Small<Result> {
  /** `quick`: asks or makes something small; `tidy`: removes. */
  readonly lane: "quick" | "tidy";
  readonly call: BatchCall;
  /** How it is asked when it is the only one. */
  readonly alone: () => Promise<Result>;
  /** Reads its value. Throws when that is not of the protocol. */
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

/** `send` asks for a batch and gives its answers, or null when this guest takes none. */
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
      for (const [index, one] of waiting.entries()) settle(name, one, answers[index]!);
    } catch (error) {
      for (const { reject } of waiting) reject(error);
    }
  };
  return {
    together: <Result>(small: Small<Result>) =>
      new Promise<Result>((resolve, reject) => {
        // Whoever waits for the same thing as we do has asked by the end of this turn.
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
