import { get } from "node:http";
import { createServer, type Socket } from "node:net";
import { type Duplex, pipeline } from "node:stream";

/** A port of this machine behind which a preview in a sandbox answers. */
export interface PreviewProxy {
  /** Without a path: `http://127.0.0.1:4711`. */
  readonly origin: string;
  /** Ends every connection. Safe to call twice. */
  close(): Promise<void>;
}

/** Opens a port on loopback; each connection to it is joined to one that `connect` opens into the sandbox. */
export async function openPreviewProxy(connect: () => Promise<Duplex>): Promise<PreviewProxy> {
  const open = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    open.add(socket);
    socket.once("close", () => open.delete(socket));
    // A connection that breaks tells its own two ends; nobody else waits for it.
    const ended = (): void => void socket.destroy();
    socket.on("error", ended);
    connect().then((inside) => {
      if (socket.destroyed) return void inside.destroy();
      pipeline(socket, inside, (error) => error != null && ended());
      pipeline(inside, socket, (error) => error != null && inside.destroy());
    }, ended);
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject).listen({ host: "127.0.0.1", port: 0 }, resolve);
  });
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("a TCP server has a TCP address");
  return {
    origin: `http://127.0.0.1:${address.port}`,
    close: async () => {
      for (const socket of open) socket.destroy();
      if (server.listening) await new Promise<void>((done) => server.close(() => done()));
    },
  };
}

/** The status a URL answers with; null when nothing answers in time. */
export function statusOf(url: string, timeoutMs: number): Promise<number | null> {
  return new Promise((resolve) => {
    const request = get(url, { agent: false, timeout: timeoutMs }, (response) => {
      response.resume();
      resolve(response.statusCode ?? null);
      response.once("close", () => request.destroy());
    });
    request.once("timeout", () => request.destroy());
    request.once("error", () => resolve(null)); // Not answering is an answer to the question.
    request.once("close", () => resolve(null));
  });
}
