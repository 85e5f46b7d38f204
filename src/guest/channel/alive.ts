// The host's proxy ends when its sandbox is gone, and this is how it knows: a connection that lasts
// as long as the guest.
import { connect, type Socket } from "node:net";

const againMs = 1_000;

/**
 * Keeps a connection open to a socket of the host's, which may be replaced at any time or not be
 * there yet.
 */
export function holdConnection(path: string): { close(): void } {
  let socket: Socket | null = null;
  let timer: NodeJS.Timeout | null = null;
  let closed = false;
  const hold = (): void => {
    socket = connect(path, () => socket?.write("alive\n"));
    socket.unref();
    socket.resume(); // What the host says there is for others.
    socket.on("error", () => undefined); // "close" follows.
    socket.on("close", () => {
      if (!closed) timer = setTimeout(hold, againMs).unref();
    });
  };
  hold();
  return {
    close() {
      closed = true;
      if (timer !== null) clearTimeout(timer);
      socket?.destroy();
    },
  };
}
