// The host's side of the mux: one stream to a sandbox (src/guest/channel/mux.ts), as many
// connections to its guest as are needed.
import type { Duplex } from "node:stream";
import { messageOf, WavesmithError } from "../../domain/errors.ts";
import { createMux } from "../../guest/channel/mux.ts";

export interface MuxConnection {
  /** A new connection to the guest. Fails with `sandbox-unavailable` when the stream has closed. */
  open(): Promise<Duplex>;
  /**
   * Settles once the stream has closed; with why, or null when that was `close` or the other side's
   * end.
   */
  readonly closed: Promise<Error | null>;
  /** Ends the stream and every connection over it. */
  close(): void;
}

/**
 * Connects to a guest's mux over a stream, which is the mux's own from now on. While nothing is
 * asked of the guest, the stream is told by `unref`, where it has one, to hold no process up.
 */
export function connectMux(stream: Duplex): MuxConnection {
  const mux = createMux(stream);
  return {
    open: async () => {
      try {
        return mux.open();
      } catch (error) {
        throw new WavesmithError("sandbox-unavailable", messageOf(error), { retryable: true, cause: error });
      }
    },
    closed: mux.closed.then((error) =>
      error === null
        ? null
        : new WavesmithError("sandbox-unavailable", `the stream to the guest: ${error.message}`, {
            retryable: true,
            cause: error,
          }),
    ),
    close: () => mux.close(),
  };
}
