import type { IncomingMessage, ServerResponse } from "node:http";
import type { Readable } from "node:stream";
import { faultOf, GuestFault } from "../faults.ts";
import type { GuestErrorBody } from "../protocol.ts";

const maxJsonBytes = 64 * 1024 * 1024;
/** How long a refused request may go on sending its body. */
const restOfBodyMs = 5_000;

/** One request with its parsed query. */
export interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly query: URLSearchParams;
  /** Aborts when the caller disconnects. */
  readonly signal: AbortSignal;
}

/**
 * Yields a body's chunks. A reader that stops early leaves the rest to `sendFault`, because the
 * refusal goes out on the same connection.
 */
export function chunksOf(body: Readable): AsyncIterable<Buffer> {
  return { [Symbol.asyncIterator]: () => body.iterator({ destroyOnReturn: false }) };
}

/** Reads a whole body. Fails with 413 above `maxBytes`. */
export async function readBody(request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  for await (const chunk of chunksOf(request)) {
    sizeBytes += chunk.length;
    if (sizeBytes > maxBytes) throw new GuestFault(413, "too-large", `the body is larger than ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** Reads a JSON body. Fails with 400 when it is not JSON. */
export async function readJson(request: IncomingMessage): Promise<unknown> {
  const body = await readBody(request, maxJsonBytes);
  try {
    return JSON.parse(body.toString("utf8")) as unknown;
  } catch {
    throw new GuestFault(400, "bad-request", "the body is not JSON"); // The parser's message would quote the body.
  }
}

export function sendJson(response: ServerResponse, status: number, value: unknown): void {
  const body = Buffer.from(JSON.stringify(value));
  response.writeHead(status, { "content-type": "application/json", "content-length": body.length });
  response.end(body);
}

export function sendEmpty(response: ServerResponse, headers: Record<string, string> = {}): void {
  response.writeHead(204, headers);
  response.end();
}

/** Answers with the fault, or cuts the response off if it has already begun. */
export function sendFault(request: IncomingMessage, response: ServerResponse, error: unknown): void {
  if (response.headersSent || response.destroyed) {
    response.destroy();
    return;
  }
  const fault = faultOf(error);
  const answer: GuestErrorBody = { error: { code: fault.code, message: fault.message } };
  if (request.complete) sendJson(response, fault.status, answer);
  else sendEarly(request, response, fault.status, answer);
}

/**
 * Answers a request whose body is still arriving. The connection ends afterwards, because the
 * rest of the body would be taken for the next request. It ends only once the body has arrived or
 * the caller is gone: closed earlier, it would be reset under the caller's next write, and the
 * answer lost (RFC 9112, 9.6).
 */
function sendEarly(request: IncomingMessage, response: ServerResponse, status: number, answer: GuestErrorBody): void {
  const body = Buffer.from(JSON.stringify(answer));
  response.writeHead(status, {
    "content-type": "application/json",
    "content-length": body.length,
    connection: "close",
  });
  response.write(body);
  const end = (): void => {
    clearTimeout(patience);
    response.end();
  };
  const patience = setTimeout(end, restOfBodyMs);
  request.on("close", end);
  request.resume();
}

/** Returns a query parameter. Fails with 400 when it is missing. */
export function requiredParameter(query: URLSearchParams, name: string): string {
  const value = query.get(name);
  if (value === null) throw new GuestFault(400, "bad-request", `the parameter ${name} is missing`);
  return value;
}
