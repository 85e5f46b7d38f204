import { createServer as createHttpServer, get } from "node:http";
import { createServer, type Server, type Socket } from "node:net";
import { type Duplex, pipeline } from "node:stream";
import { answerUnreached, type Reach, type Unreached } from "./unreached-preview.ts";

/** A port on this machine that forwards to a preview in a sandbox. */
export interface PreviewProxy {
  readonly port: number;
  /** The URL without a path: `http://127.0.0.1:4711`. */
  readonly origin: string;
  /** Ends every connection and waits for the calls of `reach` under way. Safe to call twice. */
  close(): Promise<void>;
}

export interface PreviewProxyOptions {
  /** Connects to the preview; called once per incoming connection. */
  reach(): Promise<Reach>;
  /** Called when data arrives on an open connection. */
  used?(): void;
  /** 0, the default, takes any free port. Rejects with EADDRINUSE when the port is taken. */
  readonly port?: number;
}

/**
 * Opens a port on loopback. Each connection to it is piped into the sandbox, or gets the reason why
 * not.
 */
export async function openPreviewProxy({ reach, used, port = 0 }: PreviewProxyOptions): Promise<PreviewProxy> {
  const open = new Set<Socket>();
  const reaching = new Set<Promise<unknown>>();
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (socket) => {
    open.add(socket);
    socket.once("close", () => open.delete(socket));
    // Both ends see a broken connection; nothing else waits for it.
    socket.on("error", () => socket.destroy());
    const reached = reach()
      .catch((): Reach => ({ kind: "starting", why: "it cannot be reached right now" }))
      .then((found) => {
        reaching.delete(reached);
        if (found.kind !== "connected") return answerWithReason(socket, found);
        join(socket, found.connection);
        if (used !== undefined) socket.on("data", used);
      });
    reaching.add(reached);
  });
  const chosen = await listen(server, port);
  return {
    port: chosen,
    origin: `http://127.0.0.1:${chosen}`,
    close: async () => {
      for (const socket of open) socket.destroy();
      if (server.listening) await new Promise<void>((done) => server.close(() => done()));
      await Promise.all(reaching);
    },
  };
}

function listen(server: Server, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once("error", reject).listen({ host: "127.0.0.1", port }, () => {
      const address = server.address();
      if (address === null || typeof address === "string") return reject(new Error("a TCP server has a TCP address"));
      resolve(address.port);
    });
  });
}

function join(socket: Socket, inside: Duplex): void {
  if (socket.destroyed) return void inside.destroy();
  pipeline(socket, inside, (error) => error != null && socket.destroy());
  pipeline(inside, socket, (error) => error != null && inside.destroy());
}

/** Answers this connection's requests with the reason why there is no preview, then closes it. */
function answerWithReason(socket: Socket, unreached: Unreached): void {
  const answerer = createHttpServer((request, response) => answerUnreached(request, response, unreached));
  answerer.emit("connection", socket);
  socket.resume();
}

/** Returns the status of a URL; null when it does not answer in time. */
export function statusOf(url: string, timeoutMs: number): Promise<number | null> {
  return new Promise((resolve) => {
    const request = get(url, { agent: false, timeout: timeoutMs }, (response) => {
      response.resume();
      resolve(response.statusCode ?? null);
      response.once("close", () => request.destroy());
    });
    request.once("timeout", () => request.destroy());
    request.once("error", () => resolve(null)); // no answer is a valid result
    request.once("close", () => resolve(null));
  });
}
