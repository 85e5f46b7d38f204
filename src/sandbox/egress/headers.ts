import type { IncomingMessage } from "node:http";

// Headers that are between two neighbours, and those that are written anew.
const ownToEachHop = new Set(
  "connection keep-alive proxy-connection proxy-authenticate proxy-authorization te trailer transfer-encoding upgrade".split(
    " ",
  ),
);
const writtenAnew = new Set(["host", "expect", "content-length", "http2-settings"]);

/** What a request is passed on with, as a flat list of names and values. */
export function headersFor(asked: IncomingMessage, host: string): string[] {
  return ["Host", host, ...endToEnd(asked, writtenAnew), ...framing(asked), "Connection", "close"];
}

/**
 * How long the body is, said once: what the parser has understood, and not what the client wrote.
 */
function framing(asked: IncomingMessage): string[] {
  if (asked.headers["transfer-encoding"] !== undefined) return ["Transfer-Encoding", "chunked"];
  const length = asked.headers["content-length"];
  if (length !== undefined) return ["Content-Length", length];
  return ["POST", "PUT", "PATCH"].includes(asked.method ?? "") ? ["Content-Length", "0"] : [];
}

/** What an answer is passed back with. */
export function responseHeaders(answered: IncomingMessage): string[] {
  return endToEnd(answered, new Set());
}

function endToEnd({ rawHeaders, headers }: IncomingMessage, without: ReadonlySet<string>): string[] {
  const named = new Set((headers.connection ?? "").split(",").map((name) => name.trim().toLowerCase()));
  const kept: string[] = [];
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]!.toLowerCase();
    if (ownToEachHop.has(name) || without.has(name) || named.has(name)) continue;
    kept.push(rawHeaders[index]!, rawHeaders[index + 1]!);
  }
  return kept;
}
