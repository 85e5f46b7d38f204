import type { IncomingMessage } from "node:http";
import { itemAt } from "../../domain/known.ts";

// Hop-by-hop headers, and headers that we write ourselves.
const ownToEachHop = new Set(
  "connection keep-alive proxy-connection proxy-authenticate proxy-authorization te trailer transfer-encoding upgrade".split(
    " ",
  ),
);
const writtenAnew = new Set(["host", "expect", "content-length", "http2-settings"]);

/** Returns the headers for passing on a request, as a flat list of names and values. */
export function headersFor(asked: IncomingMessage, host: string): string[] {
  return ["Host", host, ...endToEnd(asked, writtenAnew), ...framing(asked), "Connection", "close"];
}

/** States the body's length once, as the parser understood it, and not as the client wrote it. */
function framing(asked: IncomingMessage): string[] {
  if (asked.headers["transfer-encoding"] !== undefined) return ["Transfer-Encoding", "chunked"];
  const length = asked.headers["content-length"];
  if (length !== undefined) return ["Content-Length", length];
  return ["POST", "PUT", "PATCH"].includes(asked.method ?? "") ? ["Content-Length", "0"] : [];
}

/** Returns the headers for passing back an answer. */
export function responseHeaders(answered: IncomingMessage): string[] {
  return endToEnd(answered, new Set());
}

function endToEnd({ rawHeaders, headers }: IncomingMessage, without: ReadonlySet<string>): string[] {
  const named = new Set((headers.connection ?? "").split(",").map((name) => name.trim().toLowerCase()));
  const kept: string[] = [];
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    const name = itemAt(rawHeaders, index).toLowerCase();
    if (ownToEachHop.has(name) || without.has(name) || named.has(name)) continue;
    kept.push(itemAt(rawHeaders, index), itemAt(rawHeaders, index + 1));
  }
  return kept;
}
