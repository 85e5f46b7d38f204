// The proxy of a sandbox whose network is off. It refuses every request at once and says why.
// Without it, programs would keep looking up names that nobody answers and fail with a message that
// does not name the cause.
import { createServer, type Server } from "node:http";
import type { RefusedHost } from "../protocol.ts";

const maxHosts = 20;

export interface NoNetwork {
  /** The server, not yet listening. */
  readonly server: Server;
  /** The hosts requested last, each once, with the time of its latest request. */
  refused(): RefusedHost[];
}

export function createNoNetwork(now = () => new Date()): NoNetwork {
  const requested = new Map<string, string>();
  const refuse = (host: string | null): string => {
    if (host === null) return "this sandbox has no network (network: none in the plan)";
    requested.delete(host);
    requested.set(host, now().toISOString());
    for (const oldest of [...requested.keys()].slice(0, -maxHosts)) requested.delete(oldest);
    return `this sandbox has no network (network: none in the plan); if it is needed: network: { allow: ["${host}"] }`;
  };
  const server = createServer((request, response) => {
    const line = refuse(hostOf(/^http:\/\/([^/?#]*)/i.exec(request.url ?? "")?.[1]));
    response.writeHead(403, line, { "content-type": "text/plain", connection: "close" });
    response.end(`${line}\n`);
  });
  server.on("connect", (request, socket) => {
    const line = refuse(hostOf(request.url));
    socket.on("error", () => socket.destroy());
    const facts = `Content-Type: text/plain\r\nContent-Length: ${line.length + 1}\r\nConnection: close`;
    socket.end(`HTTP/1.1 403 ${line}\r\n${facts}\r\n\r\n${line}\n`);
  });
  return { server, refused: () => [...requested].map(([host, at]) => ({ host, at })) };
}

/** Returns a host as a plan names it: without the ports that every host is allowed on. */
function hostOf(authority: string | undefined): string | null {
  const host = authority?.toLowerCase().replace(/:(80|443)$/, "") ?? "";
  return /^[a-z\d][a-z\d._-]{0,251}(:\d{1,5})?$/.test(host) ? host : null;
}
