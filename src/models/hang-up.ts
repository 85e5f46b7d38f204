import type { ServerResponse } from "node:http";

/** What becomes of a call when its agent does not wait for the answer, or this process ends. */
export interface HangUp {
  /** The agent hung up. */
  readonly gone: AbortSignal;
  /** The provider is not listened to any more. */
  readonly cut: AbortSignal;
  /**
   * From now on the provider is listened to for so long after its agent hung up: it may still say
   * what the call took.
   */
  drainFor(ms: number): void;
  /** Cuts it now. */
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
