import { type IncomingMessage, request, type ServerResponse } from "node:http";
import { type Duplex, pipeline } from "node:stream";
import { answerUnreached, type Reach } from "./unreached-preview.ts";

// PH1. A connection may carry requests for several hosts, for example from a reverse proxy. So each
// request is forwarded by itself, over its own connection into the sandbox, and only an
// upgraded connection (101) becomes a pipe.
// PH2. Cookies stay with their host: `Domain` is removed from what a preview sets.

/** A request's way to the preview that its host names. */
export interface PreviewWay {
  reach(): Promise<Reach>;
  /** Called when data arrives on an upgraded connection. */
  used(): void;
}

/** Forwards a request to the preview, or answers why it cannot. */
export async function forwardRequest(
  incoming: IncomingMessage,
  response: ServerResponse,
  way: PreviewWay,
): Promise<void> {
  const reached = await reach(way);
  if (reached.kind !== "connected") return answerUnreached(incoming, response, reached);
  const headers = { ...incoming.headers, connection: "close" };
  const outgoing = openRequest(incoming, reached.connection, headers);
  outgoing.on("response", (answer) => {
    try {
      response.writeHead(...sentStatus(answer), ownHeaders(answer));
    } catch {
      outgoing.destroy(); // An answer that Node does not send on.
      return void response.destroy();
    }
    pipeline(answer, response, (error) => error != null && response.destroy());
  });
  outgoing.on("error", () => {
    if (response.headersSent) return void response.destroy();
    answerUnreached(incoming, response, { kind: "starting", why: "it closed the connection without an answer" });
  });
  response.on("close", () => outgoing.destroy());
  pipeline(incoming, outgoing, () => undefined); // the handlers above see every error
}

/** Forwards a request that asks for another protocol, such as WebSocket. */
export async function forwardUpgrade(
  incoming: IncomingMessage,
  socket: Duplex,
  { head, way }: { readonly head: Buffer; readonly way: PreviewWay },
): Promise<void> {
  socket.on("error", () => socket.destroy()); // both ends see a broken connection
  const reached = await reach(way);
  if (reached.kind !== "connected") {
    socket.end(`HTTP/1.1 ${reached.kind === "starting" ? "503 Service Unavailable" : "502 Bad Gateway"}\r\n${bare}`);
    return;
  }
  const outgoing = openRequest(incoming, reached.connection, incoming.headers);
  outgoing.on("error", () => socket.destroy());
  outgoing.on("response", (answer) => {
    // It stays with HTTP: the answer goes back, and the connection ends with it (PH1).
    const headers = { ...ownHeaders(answer), "transfer-encoding": undefined, connection: "close" };
    socket.write(headOf(answer, headers));
    pipeline(answer, socket, (error) => error != null && socket.destroy());
  });
  outgoing.on("upgrade", (answer, inside: Duplex, first: Buffer) => {
    const { connection, upgrade } = answer.headers;
    socket.write(headOf(answer, { ...ownHeaders(answer), connection, upgrade }));
    socket.write(first);
    inside.write(head);
    pipeline(socket, inside, (error) => error != null && socket.destroy());
    pipeline(inside, socket, (error) => error != null && inside.destroy());
    socket.on("data", () => way.used());
  });
  socket.on("close", () => outgoing.destroy());
  outgoing.end();
}

const bare = "connection: close\r\ncontent-length: 0\r\nretry-after: 2\r\n\r\n";

const reach = (way: PreviewWay): Promise<Reach> =>
  way.reach().catch((): Reach => ({ kind: "starting", why: "it cannot be reached right now" }));

type Headers = Record<string, string | string[] | undefined>;

const openRequest = ({ method, url }: IncomingMessage, connection: Duplex, headers: Headers) =>
  request({
    ...(method === undefined ? {} : { method }),
    path: url,
    headers: Object.fromEntries(
      Object.entries(headers).filter(([name, value]) => value !== undefined && name !== "trailer"),
    ),
    createConnection: () => connection,
  });

/** Trailers are not forwarded, and Node throws at a `Trailer` header without them. */
const ofOneConnection = ["connection", "keep-alive", "proxy-connection", "trailer", "upgrade"];

/** The headers of a preview's answer that belong to its own host and not to its connection. */
function ownHeaders(answer: IncomingMessage): Headers {
  const headers: Headers = { ...answer.headersDistinct };
  for (const name of ofOneConnection) delete headers[name];
  const cookies = answer.headers["set-cookie"]?.map((cookie) => cookie.replace(/;\s*domain\s*=[^;]*/gi, ""));
  return cookies === undefined ? headers : { ...headers, "set-cookie": cookies };
}

/** The status and its words, as Node sends them on: a preview may answer `000`, or any bytes. */
function sentStatus({ statusCode = 0, statusMessage = "" }: IncomingMessage): [number, string] {
  const isKnown = statusCode >= 200 && statusCode <= 999;
  return [isKnown ? statusCode : 502, statusMessage.replace(/[^\t\x20-\x7e]/g, "")];
}

function headOf({ statusCode, statusMessage }: IncomingMessage, headers: Headers): string {
  const lines = Object.entries(headers).flatMap(([name, value]) =>
    (value === undefined ? [] : [value].flat()).map((one) => `${name}: ${one}\r\n`),
  );
  return `HTTP/1.1 ${statusCode} ${statusMessage}\r\n${lines.join("")}\r\n`;
}
