import type { AddressInfo } from "node:net";
import { serve } from "@hono/node-server";
import { Hono } from "hono";
import { createConnectRoutes } from "./connect-github.ts";
import { onlyOwnNames } from "./guard.ts";
import type { ServedSignIn } from "./port.ts";

/** A server for the pages that make a GitHub App, and for nothing else. */
export interface ConnectServer {
  readonly origin: string;
  /** Sends the answers under way, then stops. */
  stop(): Promise<void>;
}

const host = "127.0.0.1";

/** Starts the server on a free loopback port. */
export async function startConnectServer(
  connection: ServedSignIn,
  onMade: (name: string) => void,
): Promise<ConnectServer> {
  const routes = new Hono();
  routes.use(onlyOwnNames({ host, serveOrigin: null }));
  routes.route("/", createConnectRoutes({ connection, onMade }));
  const server = await new Promise<ReturnType<typeof serve>>((resolve) => {
    const starting = serve({ fetch: routes.fetch, hostname: host, port: 0 }, () => resolve(starting));
  });
  return {
    origin: `http://${host}:${(server.address() as AddressInfo).port}`,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        if ("closeIdleConnections" in server) server.closeIdleConnections();
      }),
  };
}
