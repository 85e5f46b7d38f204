// The host's proxy ends when its sandbox is gone. It notices by a connection that lasts as long as
// the guest.
import { connect, type Socket } from "node:net";

const reconnectMs = 1_000;

/**
 * Keeps a connection open to a socket of the host, which may be replaced at any time or not exist
 * yet.
 */
export function holdConnection(path: string): { close(): void } {
  let socket: Socket | null = null;
  let timer: NodeJS.Timeout | null = null;
  let closed = false;
  const open = (): void => {
    socket = connect(path, () => socket?.write("alive\n"));
    socket.unref();
    socket.resume(); // The host sends nothing for us on this socket.
    socket.on("error", () => undefined); // "close" follows.
    socket.on("close", () => {
      if (!closed) timer = setTimeout(open, reconnectMs).unref();
    });
  };
  open();
  return {
    close() {
      closed = true;
      if (timer !== null) clearTimeout(timer);
      socket?.destroy();
    },
  };
}
