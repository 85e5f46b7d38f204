// The proxy of a sandbox whose network is off. It reaches nothing and says so at once: without it,
// programs ask for names that nobody answers, again and again, and end with a message that says
// nothing of why.
import { createServer, type Server } from "node:http";
import type { RefusedHost } from "../protocol.ts";

const mostHosts = 20;

export interface NoNetwork {
  /** Not listening yet. */
  readonly server: Server;
  /** What was asked for last, each host once, with the time when it was asked for last. */
  refused(): RefusedHost[];
}

export function createNoNetwork(now = () => new Date()): NoNetwork {
  const asked = new Map<string, string>();
  const refuse = (host: string | null): string => {
    if (host === null) return "this sandbox has no network (network: none in the plan)";
    asked.delete(host);
    asked.set(host, now().toISOString());
    for (const oldest of [...asked.keys()].slice(0, -mostHosts)) asked.delete(oldest);
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
  return { server, refused: () => [...asked].map(([host, at]) => ({ host, at })) };
}

/** As a plan names it: without a port that every host is allowed with. */
function hostOf(authority: string | undefined): string | null {
  const host = authority?.toLowerCase().replace(/:(80|443)$/, "") ?? "";
  return /^[a-z\d][a-z\d._-]{0,251}(:\d{1,5})?$/.test(host) ? host : null;
}
