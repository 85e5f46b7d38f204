import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { serve } from "@hono/node-server";
import { Hono } from "hono";
import { bodyLimit } from "hono/body-limit";
import { messageOf, WavesmithError } from "../domain/errors.ts";
import { isLoopback, onlyThisMachine, sameKey } from "./guard.ts";
import { readIncoming } from "./incoming-events.ts";
import { inngestPath } from "./inngest.ts";
import type { InngestEndpoint, ServedApp, ServedEngine } from "./port.ts";
import { problem, problemOf } from "./problem.ts";
import { keepRegistered, type Registration } from "./registration.ts";

export interface ServerOptions {
  readonly app: ServedApp;
  readonly engine: ServedEngine;
  readonly host: string;
  /** 0: any that is free. */
  readonly port: number;
  /** What is worth telling that is no trouble. */
  readonly tell: (message: string) => void;
  readonly warn: (message: string) => void;
  /** How long until a dev server is asked again whether it knows us; default 3 s. */
  readonly registerEveryMs?: number;
}

export interface RunningServer {
  readonly origin: string;
  /** Whether other machines can reach it. */
  readonly isOpen: boolean;
  /** Takes no more requests, lets those under way end (up to `graceMs`, default 10 s), then closes. */
  stop(graceMs?: number): Promise<void>;
}

/** A plan of ten thousand tasks fits. */
const maxEventsBytes = 4 * 1024 * 1024;
/** An Inngest server sends all of a run's state with a call. */
const maxCallBytes = 64 * 1024 * 1024;

/** Starts the HTTP server. Fails with `usage` for a host that needs a key and has none, with `environment` for a taken port. */
export async function startServer(options: ServerOptions): Promise<RunningServer> {
  const { app, engine, host } = options;
  if (!isLoopback(host) && !isKeyed(engine)) throw needsKeys(host, engine);
  let endpoint: InngestEndpoint | null = null;
  let registration: Registration | null = null;
  const routes = createRoutes(options, {
    endpoint: () => endpoint,
    engineState: () => (engine.kind === "embedded" ? "running" : registration?.known === true ? "registered" : null),
  });
  const server = await listen(routes, options);
  const { port } = server.address() as AddressInfo;
  const origin = `http://${nameFor(host)}:${port}`;
  const reachedAt = engine.kind === "inngest" ? (engine.serveOrigin ?? origin) : origin;
  endpoint = app.inngestEndpoint(reachedAt);
  if (endpoint !== null && engine.kind === "inngest") {
    const place = engine.baseUrl ?? "Inngest's cloud";
    const onKnown = (): void => options.tell(`${place} knows the functions at ${reachedAt}${inngestPath}`);
    const { warn, registerEveryMs: everyMs } = options;
    registration = keepRegistered(endpoint, { onKnown, warn, ...(everyMs === undefined ? {} : { everyMs }) });
  }
  return {
    origin,
    isOpen: !isLoopback(host),
    async stop(graceMs = 10_000) {
      await registration?.stop();
      await close(server, graceMs);
    },
  };
}

/** Whether callers prove who they are. A dev server's do not. */
const isKeyed = (engine: ServedEngine): boolean =>
  engine.kind === "embedded" ? engine.eventKey !== null : !engine.isDev;

function needsKeys(host: string, engine: ServedEngine): WavesmithError {
  const why =
    engine.kind === "embedded"
      ? "without a key anybody there could start builds"
      : "a dev server's calls are not signed";
  return new WavesmithError("usage", `--host ${host} would be reachable from other machines, and ${why}`, {
    remedy:
      engine.kind === "embedded"
        ? "set INNGEST_EVENT_KEY to a long random text, or leave --host out"
        : "use an Inngest server with keys (INNGEST_DEV=0, INNGEST_SIGNING_KEY, INNGEST_EVENT_KEY), or leave --host out",
  });
}

interface EngineView {
  readonly endpoint: () => InngestEndpoint | null;
  /** Null: not ready yet. */
  readonly engineState: () => string | null;
}

function createRoutes({ app, engine, warn }: ServerOptions, view: EngineView): Hono {
  const routes = new Hono();
  const keyed = isKeyed(engine);
  if (!keyed) routes.use(onlyThisMachine());
  routes.onError((error) => problemOf(error, warn));
  routes.notFound(({ req }) => problem(404, "not-found", `there is nothing at ${req.method} ${req.path}`));

  routes.get("/healthz", ({ json }) => json({ status: "ok" }));
  routes.get("/readyz", async ({ json }) => {
    const trouble = await app.ping().then(
      () => null,
      (error: unknown) => messageOf(error),
    );
    if (trouble !== null) return problem(503, "database", `the database cannot be reached: ${trouble}`);
    const state = view.engineState();
    if (state === null) return problem(503, "engine", "Inngest has not been told of the functions yet");
    return json({ status: "ready", database: "ok", engine: engine.kind, functions: state });
  });

  routes.post("/e/:key", limit(maxEventsBytes), async ({ req, json }) => {
    if (keyed && !sameKey(req.param("key"), engine.eventKey!)) {
      return problem(401, "unauthorized", "the event key is not that of this server");
    }
    const events = await readIncoming(parseJson(await req.text()), { ports: app.ports });
    await app.send(...events);
    return json({ ids: events.map((event) => event.id), status: 200 });
  });

  routes.all(inngestPath, limit(maxCallBytes), async ({ req }) => {
    const endpoint = view.endpoint();
    if (endpoint !== null) return endpoint.handle(req.raw);
    if (engine.kind === "embedded" && req.method === "GET") {
      return Response.json({ engine: "embedded", functions: app.functions });
    }
    return problem(405, "unsupported", "the embedded engine calls its functions itself", "serve --engine inngest");
  });
  return routes;
}

const limit = (maxSize: number) =>
  bodyLimit({ maxSize, onError: () => problem(413, "too-large", `the body is larger than ${maxSize} bytes`) });

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new WavesmithError("usage", `the body is no JSON: ${messageOf(error)}`);
  }
}

function listen(routes: Hono, { host, port, warn }: ServerOptions): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = serve({ fetch: routes.fetch, hostname: host, port }, () => {
      server.off("error", refused);
      server.on("error", (error) => warn(`the HTTP server: ${messageOf(error)}`));
      resolve(server);
    }) as Server;
    const refused = (error: Error): void => {
      reject(
        new WavesmithError("environment", `port ${port} of ${host} cannot be listened on: ${error.message}`, {
          remedy: "choose another with --port, or --port 0 for any",
          cause: error,
        }),
      );
    };
    server.once("error", refused);
  });
}

/** The name by which a caller on this machine reaches a server that listens on `host`. */
function nameFor(host: string): string {
  if (host === "0.0.0.0" || host === "::") return "127.0.0.1";
  return host.includes(":") && !host.startsWith("[") ? `[${host}]` : host;
}

async function close(server: Server, graceMs: number): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeIdleConnections();
  const late = setTimeout(() => server.closeAllConnections(), graceMs);
  await closed;
  clearTimeout(late);
}
