import type { Server } from "node:http";
import { createServer, type Socket } from "node:net";
import { createMux } from "./mux.ts";
import { listenOn } from "./server.ts";

export interface MuxServer {
  /** Takes no more connections. */
  close(): void;
  /** Ends those there are. */
  closeAll(): void;
}

/**
 * Listens on a unix socket for connections of many channels, each of which `guest` serves as a
 * connection of its own.
 */
export async function serveMux(guest: Server, path: string): Promise<MuxServer> {
  const connections = new Set<Socket>();
  const server = createServer((socket) => {
    connections.add(socket);
    const mux = createMux(socket, { onChannel: (channel) => guest.emit("connection", channel) });
    void mux.closed.then((error) => {
      connections.delete(socket);
      if (error !== null) process.stderr.write(`guest: a connection of many channels was ended: ${error.message}\n`);
    });
  });
  await listenOn(server, path);
  return {
    close: () => server.close(),
    closeAll: () => {
      for (const socket of connections) socket.destroy();
    },
  };
}
