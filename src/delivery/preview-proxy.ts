import { createServer as createHttpServer, get, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer, type Server, type Socket } from "node:net";
import { type Duplex, pipeline } from "node:stream";

/** A port of this machine behind which a preview in a sandbox answers. */
export interface PreviewProxy {
  readonly port: number;
  /** Without a path: `http://127.0.0.1:4711`. */
  readonly origin: string;
  /** Ends every connection. Safe to call twice. */
  close(): Promise<void>;
}

/** A connection into the sandbox, or why there is none. */
export type Reach =
  | { readonly kind: "connected"; readonly connection: Duplex }
  | { readonly kind: "starting" | "over"; readonly why: string };

export interface PreviewProxyOptions {
  /** Connects to the preview; called once for each connection that somebody opens. */
  reach(): Promise<Reach>;
  /** Called when somebody sends something through a connection that is open already. */
  used?(): void;
  /** 0, the default: any free port. Rejects with EADDRINUSE when it is taken. */
  readonly port?: number;
}

/**
 * Opens a port on loopback; each connection to it is joined to one into the sandbox, or told why
 * there is none.
 */
export async function openPreviewProxy({ reach, used, port = 0 }: PreviewProxyOptions): Promise<PreviewProxy> {
  const open = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (socket) => {
    open.add(socket);
    socket.once("close", () => open.delete(socket));
    // A connection that breaks tells its own two ends; nobody else waits for it.
    socket.on("error", () => socket.destroy());
    reach()
      .catch((): Reach => ({ kind: "starting", why: "it cannot be reached just now" }))
      .then((reached) => {
        if (reached.kind !== "connected") return void tellWhy(socket, reached);
        join(socket, reached.connection);
        if (used !== undefined) socket.on("data", used);
      });
  });
  const chosen = await listen(server, port);
  return {
    port: chosen,
    origin: `http://127.0.0.1:${chosen}`,
    close: async () => {
      for (const socket of open) socket.destroy();
      if (server.listening) await new Promise<void>((done) => server.close(() => done()));
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

/**
 * Answers the requests of this connection with 503, or 502 when nothing will start again, then ends
 * it.
 */
function tellWhy(socket: Socket, { kind, why }: Exclude<Reach, { kind: "connected" }>): void {
  const answerer = createHttpServer((request, response) => answer(request, response, kind, why));
  answerer.emit("connection", socket);
  socket.resume();
}

const retryAfterS = 2;

function answer(request: IncomingMessage, response: ServerResponse, kind: "starting" | "over", why: string): void {
  const isStarting = kind === "starting";
  const title = isStarting ? "The preview is starting" : "The preview has ended";
  const isPage = request.headers.accept?.includes("text/html") === true;
  request.resume();
  response.writeHead(isStarting ? 503 : 502, {
    "content-type": isPage ? "text/html; charset=utf-8" : "application/problem+json",
    "cache-control": "no-store",
    connection: "close",
    ...(isStarting ? { "retry-after": String(retryAfterS) } : {}),
  });
  response.end(isPage ? page(title, why, isStarting) : JSON.stringify({ title, code: `preview-${kind}`, detail: why }));
}

const page = (title: string, why: string, isStarting: boolean): string => `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>${title}</title>
${isStarting ? `<meta http-equiv="refresh" content="${retryAfterS}">` : ""}
<style>body{font:16px/1.5 system-ui,sans-serif;margin:20vh auto;max-width:32rem;padding:0 1rem}p{color:#666}</style>
</head><body><h1>${title}</h1><p>${escapeHtml(why)}</p></body></html>
`;

const escapeHtml = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");

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
