import type { Server } from "node:http";

/**
 * Cuts off each client that takes nothing for `unreadMs` although a part of its answer waits for
 * it. An answer that we have not written yet may take as long as it needs.
 */
export function cutOffUnread(server: Server, unreadMs: number): void {
  server.timeout = unreadMs;
  server.on("request", (_request, response) => {
    response.on("timeout", (socket) => {
      if (socket.writableLength > 0) socket.destroy();
      else socket.setTimeout(unreadMs);
    });
  });
}
