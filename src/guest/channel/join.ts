import type { Socket } from "node:net";
import type { Duplex } from "node:stream";

/**
 * Joins two connections until both have ended. A side that fails is gone for good; what it has sent
 * before still arrives.
 */
export function joinConnections(caller: Duplex, server: Socket): void {
  caller.on("error", () => caller.destroy());
  server.on("error", () => server.destroy());
  caller.on("close", () => server.destroySoon());
  server.on("close", () => caller.end());
  caller.pipe(server);
  server.pipe(caller);
}
