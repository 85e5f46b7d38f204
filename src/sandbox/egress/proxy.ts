// The proxy of one sandbox: CONNECT for encrypted traffic, absolute-form requests for plain HTTP.
//
// E1. Each request is judged by the host in its own first line, whatever its Host header or an
// earlier request on the same connection named. When it is passed on, its Host header names that
// host.
// E2. A name is resolved once, and the connection goes to a checked address.
// E3. A request is passed on as parsed: none of the client's framing, hop-by-hop headers or
// upgrades reach a server, so both ends agree where a request ends.
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from "node:http";
import { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { DecisionLog } from "./decision-log.ts";
import { dial, type Lookup } from "./dial.ts";
import { headersFor, responseHeaders } from "./headers.ts";
import type { Rules } from "./rules.ts";
import { parseTarget, type Target, targetText } from "./target.ts";

export interface ProxyOptions {
  /** Returns the current rules, which may change while the proxy runs. */
  readonly rules: () => Rules;
  readonly lookup: Lookup;
  readonly decisions: DecisionLog;
  readonly limits?: Partial<ProxyLimits>;
}

export interface ProxyLimits {
  readonly connections: number;
  readonly headerBytes: number;
  readonly headersMs: number;
  readonly connectMs: number;
  /** How long a connection may stay without a byte in either direction. */
  readonly idleMs: number;
}

const usualProxyLimits: ProxyLimits = {
  connections: 512,
  headerBytes: 32 * 1024,
  headersMs: 30_000,
  connectMs: 30_000,
  idleMs: 10 * 60_000,
};

interface Given extends Omit<ProxyOptions, "limits"> {
  readonly limits: ProxyLimits;
}

/** An answer of the proxy's own. */
interface Answer {
  readonly status: number;
  readonly line: string;
}

export function createProxy(options: ProxyOptions): Server {
  const limits = { ...usualProxyLimits, ...options.limits };
  const given: Given = { ...options, limits };
  const server = createServer({
    maxHeaderSize: limits.headerBytes,
    headersTimeout: limits.headersMs,
    requestTimeout: 0, // An upload may take any time while bytes arrive.
    connectionsCheckingInterval: Math.min(5_000, limits.headersMs / 2),
    requireHostHeader: false,
  });
  server.maxConnections = limits.connections;
  server.timeout = limits.idleMs;
  server.on("connection", (socket) => socket.on("error", () => socket.destroy()));
  server.on("request", (asked, reply) => void forward(given, asked, reply));
  server.on("connect", (asked, client, head) => void tunnel(given, asked, client, head));
  return server;
}

async function tunnel(given: Given, asked: IncomingMessage, client: Duplex, head: Buffer): Promise<void> {
  client.on("error", () => client.destroy());
  const target = parseTarget(asked.url ?? "", null);
  const found = target === null ? malformed(given, "write CONNECT host:port, the host in its plain form") : null;
  const reached = found ?? (await reach(given, target!));
  if (!(reached instanceof Socket)) {
    refuseTunnel(client, reached);
    return;
  }
  if (client.destroyed) {
    reached.destroy();
    return;
  }
  client.write("HTTP/1.1 200 Connection established\r\n\r\n");
  if (head.length > 0) reached.write(head);
  join(client as Socket, reached, given.limits.idleMs);
}

function refuseTunnel(client: Duplex, { status, line }: Answer): void {
  const body = `${line}\n`;
  const facts = `Content-Type: text/plain; charset=utf-8\r\nContent-Length: ${Buffer.byteLength(body)}`;
  client.end(`HTTP/1.1 ${status} ${reasonOf(line)}\r\n${facts}\r\nConnection: close\r\n\r\n${body}`);
}

/** Passes bytes both ways until both ends finish, one fails, or both are silent too long. */
function join(client: Socket, server: Socket, idleMs: number): void {
  for (const [one, other] of [
    [client, server],
    [server, client],
  ] as const) {
    one.setTimeout(idleMs, () => one.destroy());
    one.on("error", () => one.destroy());
    one.on("close", () => other.destroySoon());
    one.pipe(other);
  }
}

async function forward(given: Given, asked: IncomingMessage, reply: ServerResponse): Promise<void> {
  reply.on("error", () => reply.destroy());
  asked.on("error", () => reply.destroy());
  const place = placeOf(asked);
  if (typeof place === "string") {
    answer(reply, malformed(given, place));
    return;
  }
  const reached = await reach(given, place.target);
  if (!(reached instanceof Socket)) answer(reply, reached);
  else if (reply.destroyed) reached.destroy();
  else passOn({ ...place, socket: reached, idleMs: given.limits.idleMs }, asked, reply);
}

interface Place {
  readonly target: Target;
  readonly path: string;
}

/** Returns the target of an absolute-form request, or what is wrong with it. */
function placeOf(asked: IncomingMessage): Place | string {
  const url = asked.url ?? "";
  if (!/^[a-z][a-z0-9+.-]*:/i.test(url)) return "this is a proxy: name the host in the request's first line";
  const [, authority, rest] = /^http:\/\/([^/?#]*)([^#]*)$/i.exec(url) ?? [];
  if (authority === undefined || rest === undefined)
    return "this proxy forwards http:// only; use CONNECT for anything else";
  if (authority.includes("@")) return "a user and password belong in a header, not in the address";
  const target = parseTarget(authority, 80);
  if (target === null) return "the address names no host in its plain form";
  const encoding = asked.headers["transfer-encoding"];
  if (encoding !== undefined && encoding.trim().toLowerCase() !== "chunked") {
    return "the body may be chunked but not encoded in any other way";
  }
  const path = rest.startsWith("/") ? rest : `/${rest}`;
  return /[^\x21-\x7e\x80-\xff]/.test(path) ? "the address holds control characters" : { target, path };
}

function passOn(
  { target, path, socket, idleMs }: Place & { readonly socket: Socket; readonly idleMs: number },
  asked: IncomingMessage,
  reply: ServerResponse,
): void {
  const passed = request({
    createConnection: () => socket,
    method: asked.method ?? "GET",
    path,
    headers: headersFor(asked, targetText(target, [80])),
    maxHeaderSize: 64 * 1024,
    timeout: idleMs,
  });
  const fail = (): void => {
    passed.destroy();
    if (reply.headersSent) reply.destroy();
    else answer(reply, { status: 502, line: `${targetText(target)} broke off` });
  };
  passed.on("response", (answered) => {
    answered.on("error", fail);
    answered.on("aborted", fail);
    reply.writeHead(answered.statusCode ?? 502, answered.statusMessage, responseHeaders(answered));
    answered.pipe(reply);
  });
  passed.on("timeout", fail);
  passed.on("error", fail);
  passed.on("close", () => {
    if (!reply.headersSent) fail();
  });
  reply.on("close", () => passed.destroy());
  asked.pipe(passed);
}

function answer(reply: ServerResponse, { status, line }: Answer): void {
  if (reply.headersSent || reply.destroyed) return;
  const body = `${line}\n`;
  const facts = { "content-type": "text/plain; charset=utf-8", "content-length": Buffer.byteLength(body) };
  // The rest of a refused request must not be read as another one.
  reply.writeHead(status, reasonOf(line), { ...facts, connection: "close" });
  reply.end(body);
}

/** Returns a connection to the target, or the answer to give instead. Records the decision. */
async function reach(given: Given, target: Target): Promise<Socket | Answer> {
  const { lookup, limits } = given;
  const dialled = await dial(target, { rules: given.rules(), lookup, connectMs: limits.connectMs });
  if ("refusal" in dialled) {
    given.decisions.write("denied", target, { why: dialled.refusal.why });
    return { status: 403, line: dialled.refusal.line };
  }
  if ("failure" in dialled) {
    given.decisions.write("unreachable", target, { problem: dialled.failure.problem });
    return dialled.failure;
  }
  given.decisions.write("allowed", target);
  return dialled.socket;
}

function malformed({ decisions }: Given, line: string): Answer {
  decisions.write("denied", null, { why: "malformed" });
  return { status: 400, line };
}

/** Many programs show nothing of an answer but this. */
const reasonOf = (line: string): string => line.replace(/[^\x20-\x7e]/g, "?").slice(0, 300);
