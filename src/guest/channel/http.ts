import type { IncomingMessage, ServerResponse } from "node:http";
import { faultOf, GuestFault } from "../faults.ts";
import type { GuestErrorBody } from "../protocol.ts";

const largestJsonBytes = 64 * 1024 * 1024;

/** One request, taken apart. */
export interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly query: URLSearchParams;
  /** Fires when the caller goes away. */
  readonly signal: AbortSignal;
}

/** Reads a whole body. 413 above `maxBytes`. */
export async function readBody(request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    sizeBytes += chunk.length;
    if (sizeBytes > maxBytes) throw new GuestFault(413, "too-large", `the body is above ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** Reads a JSON body. 400 when it is none. */
export async function readJson(request: IncomingMessage): Promise<unknown> {
  const body = await readBody(request, largestJsonBytes);
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

/** Answers with what went wrong; tears a reply that had begun. */
export function sendFault(request: IncomingMessage, response: ServerResponse, error: unknown): void {
  if (response.headersSent || response.destroyed) {
    response.destroy();
    return;
  }
  const fault = faultOf(error);
  // What is left of the body would be taken for the next request.
  if (!request.complete) response.setHeader("connection", "close");
  const body: GuestErrorBody = { error: { code: fault.code, message: fault.message } };
  sendJson(response, fault.status, body);
}

/** The parameter of a query that must be there. */
export function required(query: URLSearchParams, name: string): string {
  const value = query.get(name);
  if (value === null) throw new GuestFault(400, "bad-request", `the parameter ${name} is missing`);
  return value;
}
