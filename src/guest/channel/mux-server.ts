import type { Server } from "node:http";
import { createServer, type Socket } from "node:net";
import { createMux } from "./mux.ts";
import { listenOn } from "./server.ts";

export interface MuxServer {
  /** Stops accepting connections. */
  close(): void;
  /** Ends the open connections. */
  closeAll(): void;
}

/**
 * Listens on a unix socket for muxed connections and lets `guest` serve each channel as a
 * connection.
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
