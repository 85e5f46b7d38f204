import type { Socket } from "node:net";
import type { Duplex } from "node:stream";

/**
 * Pipes two connections into each other until both have ended. When one side fails, what it has
 * already sent still arrives.
 */
export function joinConnections(caller: Duplex, server: Socket): void {
  caller.on("error", () => caller.destroy());
  server.on("error", () => server.destroy());
  caller.on("close", () => server.destroySoon());
  server.on("close", () => caller.end());
  caller.pipe(server);
  server.pipe(caller);
}
