// The guest's HTTP server: one socket, every request a sign of life.

import { unlink } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server } from "node:http";
import { connect, type Server as StreamServer } from "node:net";
import type { Duplex } from "node:stream";
import { faultOf, GuestFault, systemCode } from "../faults.ts";
import { parsePort } from "../validate.ts";
import { sendFault } from "./http.ts";
import { answerRequest, type RouteContext } from "./routes.ts";
import { openTunnel } from "./tunnel.ts";

const keepAliveMs = 5 * 60_000;

/** Is notified of every request and tunnel. */
export interface Contact {
  /** Records a request or received bytes. A health check is a sign of life but not work. */
  spoken(isWork: boolean): void;
  /** Records that work began; returns the function to call when it has ended. */
  begin(): () => void;
}

export interface GuestServerOptions {
  readonly context: RouteContext;
  readonly contact: Contact;
}

/** Creates the HTTP server of the protocol, not yet listening. */
export function createGuestServer({ context, contact }: GuestServerOptions): Server {
  const server = createServer((request, response) => {
    const { segments, query } = parseTarget(request);
    const isWork = segments[1] !== "health";
    contact.spoken(isWork);
    const endWork = isWork ? contact.begin() : null;
    const gone = new AbortController();
    response.on("close", () => {
      // After a complete answer, nothing depends on this signal any more.
      if (!response.writableFinished) gone.abort();
      endWork?.();
      contact.spoken(isWork);
    });
    answerRequest(context, { request, response, query, signal: gone.signal }, segments).catch((error) =>
      sendFault(request, response, error),
    );
  });
  server.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    contact.spoken(true);
    socket.on("data", () => contact.spoken(true));
    socket.on("close", contact.begin());
    openUpgrade(context, { request, socket, head }).catch((error) => refuseUpgrade(socket, error));
  });
  server.keepAliveTimeout = keepAliveMs;
  // Archives and long waits have no time limit here; the silence limit ends abandoned ones.
  server.requestTimeout = 0;
  return server;
}

/**
 * Listens on a unix socket. Fails when another guest listens there; replaces a socket that nobody
 * answers on.
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

function parseTarget(request: IncomingMessage): { segments: string[]; query: URLSearchParams } {
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

async function openUpgrade(
  { parts }: RouteContext,
  { request, socket, head }: { request: IncomingMessage; socket: Duplex; head: Buffer },
): Promise<void> {
  const { segments, query } = parseTarget(request);
  if (segments.join("/") !== "v1/tunnel") throw new GuestFault(404, "no-route", "only /v1/tunnel is upgraded");
  const port = parsePort(Number(query.get("port")), "port");
  await openTunnel({ loopback: parts.loopbacks?.withPort(port) ?? null, port }, socket, head);
}

function refuseUpgrade(socket: Duplex, error: unknown): void {
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
    socket.on("error", () => resolve(false)); // Nobody listens, or there is no socket.
  });
}
