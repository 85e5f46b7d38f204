import type { ServerResponse } from "node:http";

/** Handles calls whose agent hung up, and the end of this process. */
export interface HangUp {
  /** The agent hung up. */
  readonly gone: AbortSignal;
  /** Aborts when we stop listening to the provider. */
  readonly cut: AbortSignal;
  /**
   * Starts the time limit for listening after an agent hung up, because the provider may still
   * report usage.
   */
  drainFor(ms: number): void;
  /** Aborts now. */
  end(): void;
  /** The call is over. */
  close(): void;
}

export function createHangUp(response: ServerResponse): HangUp {
  const gone = new AbortController();
  const cut = new AbortController();
  let timer: NodeJS.Timeout | null = null;
  let drainMs = 0;
  const reason = new Error("the agent hung up");
  response.once("close", () => {
    if (response.writableFinished) return;
    gone.abort(reason);
    timer = setTimeout(() => cut.abort(reason), drainMs);
  });
  return {
    gone: gone.signal,
    cut: cut.signal,
    drainFor(ms) {
      drainMs = ms;
    },
    end: () => cut.abort(new Error("the model proxy ends")),
    close: () => void (timer !== null && clearTimeout(timer)),
  };
}
