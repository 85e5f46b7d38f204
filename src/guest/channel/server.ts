// The guest as a server: one socket, every request a sign of life.

import { unlink } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server } from "node:http";
import { connect, type Server as StreamServer } from "node:net";
import type { Duplex } from "node:stream";
import { faultOf, GuestFault, systemCode } from "../faults.ts";
import { parsePort } from "../validate.ts";
import { sendFault } from "./http.ts";
import { answer, type RouteContext } from "./routes.ts";
import { openTunnel } from "./tunnel.ts";

const keepAliveMs = 5 * 60_000;

/** Who speaks to the guest, and how long ago somebody did. */
export interface Contact {
  /** Somebody asked something, or sent bytes. Health is a sign of life and no work. */
  spoken(isWork: boolean): void;
  /** Work begins; to be called when it is over. */
  begin(): () => void;
}

export interface ServerOptions {
  readonly context: RouteContext;
  /** Told of every request and tunnel. */
  readonly contact: Contact;
}

/** The HTTP server of the protocol; not listening yet. */
export function createGuestServer({ context, contact }: ServerOptions): Server {
  const server = createServer((request, response) => {
    const { segments, query } = takeApart(request);
    const isWork = segments[1] !== "health";
    contact.spoken(isWork);
    const over = isWork ? contact.begin() : null;
    const gone = new AbortController();
    response.on("close", () => {
      // Whoever has been answered has nothing left that waits for this.
      if (!response.writableFinished) gone.abort();
      over?.();
      contact.spoken(isWork);
    });
    answer(context, { request, response, query, signal: gone.signal }, segments).catch((error) =>
      sendFault(request, response, error),
    );
  });
  server.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    contact.spoken(true);
    socket.on("data", () => contact.spoken(true));
    socket.on("close", contact.begin());
    upgrade(context, { request, socket, head }).catch((error) => refuse(socket, error));
  });
  server.keepAliveTimeout = keepAliveMs;
  // Archives and long waits take their time; the silence limit is what ends the forgotten.
  server.requestTimeout = 0;
  return server;
}

/**
 * Listens on a unix socket. Fails when another guest listens there; a socket nobody answers on is
 * replaced.
 */
export async function listenOn(server: StreamServer, path: string): Promise<void> {
  if (await isAnswered(path)) throw new Error(`another guest listens on ${path}`);
  await unlink(path).catch((error) => {
    if (systemCode(error) !== "ENOENT") throw error;
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(path, () => {
      server.off("error", reject);
      resolve();
    });
  });
}

function takeApart(request: IncomingMessage): { segments: string[]; query: URLSearchParams } {
  const [path = "", query = ""] = (request.url ?? "").split("?", 2);
  const segments = path.split("/").slice(1).map(decoded);
  return { segments, query: new URLSearchParams(query) };
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return ""; // Not UTF-8: no route and no key has an empty name.
  }
}

async function upgrade(
  { parts }: RouteContext,
  { request, socket, head }: { request: IncomingMessage; socket: Duplex; head: Buffer },
): Promise<void> {
  const { segments, query } = takeApart(request);
  if (segments.join("/") !== "v1/tunnel") throw new GuestFault(404, "no-route", "only /v1/tunnel is upgraded");
  const port = parsePort(Number(query.get("port")), "port");
  await openTunnel({ loopback: parts.loopbacks?.withPort(port) ?? null, port }, socket, head);
}

function refuse(socket: Duplex, error: unknown): void {
  const fault = faultOf(error);
  const body = JSON.stringify({ error: { code: fault.code, message: fault.message } });
  const headers = `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n`;
  socket.on("error", () => socket.destroy()); // The caller did not wait for the answer.
  socket.end(`HTTP/1.1 ${fault.status} Refused\r\n${headers}\r\n${body}`);
}

function isAnswered(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.on("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.on("error", () => resolve(false)); // Nobody, or no socket.
  });
}
