// The host's side of the mux: one stream to a sandbox (src/guest/channel/mux.ts) carries any number
// of connections to its guest.
import type { Duplex } from "node:stream";
import { messageOf, WavesmithError } from "../../domain/errors.ts";
import { createMux } from "../../guest/channel/mux.ts";

export interface MuxConnection {
  /**
   * Opens a connection to the guest. Fails with `sandbox-unavailable` when the stream has closed.
   */
  open(): Promise<Duplex>;
  /**
   * Resolves once the stream has closed: with the error, or null after `close` or the other side's
   * end.
   */
  readonly closed: Promise<Error | null>;
  /** Closes the stream and every connection over it. */
  close(): void;
}

/**
 * Connects to a guest's mux over a stream, which the mux then owns. While no connection is open, it
 * calls the stream's `unref`, so that the stream keeps no process alive.
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
