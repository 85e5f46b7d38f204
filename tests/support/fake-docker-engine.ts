import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type Server as Listener, createServer as listen } from "node:net";
import { join } from "node:path";

/** Answers one request; `body` is the whole request body. */
export type Route = (reply: ServerResponse, request: { readonly url: URL; readonly body: Buffer }) => void;

export interface FakeEngine {
  /** An environment in which Docker is this engine. */
  readonly environment: { readonly DOCKER_HOST: string };
  /** The requests so far, such as `POST /build`. */
  readonly asked: string[];
  close(): Promise<void>;
}

/**
 * Serves enough of an engine's HTTP API on a socket in the folder to give answers that a real
 * engine rarely gives; 404 for anything else.
 */
export async function fakeEngine(folder: string, routes: Readonly<Record<string, Route>>): Promise<FakeEngine> {
  const asked: string[] = [];
  const server = createServer(async (request: IncomingMessage, reply: ServerResponse) => {
    const url = new URL(request.url ?? "/", "http://engine");
    const name = `${request.method} ${url.pathname}`;
    asked.push(name);
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const route = routes[name] ?? notThere;
    route(reply, { url, body: Buffer.concat(chunks) });
  });
  const path = join(folder, "docker.sock");
  await new Promise<void>((resolve) => server.listen(path, resolve));
  return {
    environment: { DOCKER_HOST: `unix://${path}` },
    asked,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

const notThere: Route = (reply) => void reply.writeHead(404).end(JSON.stringify({ message: "no such thing" }));

export const json =
  (value: unknown, status = 200): Route =>
  (reply) =>
    void reply.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));

/** Listens at a socket in the folder and never answers. */
export async function silentEngine(folder: string): Promise<{ path: string; listener: Listener; close(): void }> {
  const path = join(folder, "silent.sock");
  const open = new Set<{ destroy(): void }>();
  const listener = listen((socket) => void open.add(socket.on("error", () => undefined)));
  await new Promise<void>((resolve) => listener.listen(path, resolve));
  return {
    path,
    listener,
    close: () => {
      for (const socket of open) socket.destroy();
      listener.close();
    },
  };
}
