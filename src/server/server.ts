import { once, setMaxListeners } from "node:events";
import { createServer, type ServerOptions as HttpOptions, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { serve } from "@hono/node-server";
import { Hono } from "hono";
import { WebSocketServer } from "ws";
import type { OpenIdProvider } from "../domain/access.ts";
import { parseJson } from "../domain/check-input.ts";
import { messageOf, WavesmithError } from "../domain/errors.ts";
import { buildIdForEvent } from "../domain/events/request-ids.ts";
import { itemAt } from "../domain/known.ts";
import { type Callers, createCallers } from "./access/keys-and-sessions.ts";
import type { OpenIdSignIn } from "./access/open-id.ts";
import { createRateLimit } from "./access/rate-limit.ts";
import { createSessionCookie } from "./access/session-cookie.ts";
import { createApiRoutes } from "./api/routes.ts";
import { createConnectRoutes } from "./connect-github.ts";
import { createDashboard } from "./dashboard.ts";
import { isLoopback, onlyOperators, onlyOwnNames, sameKey } from "./guard.ts";
import { readIncoming } from "./incoming-events.ts";
import { inngestPath } from "./inngest.ts";
import { answerMcp } from "./mcp.ts";
import { createProcessMeter, createRequestCounts, exposition, metricsType, type ProcessMeter } from "./metrics.ts";
import type { InngestEndpoint, PreviewHosts, ServedApp, ServedEngine, ServedMachine } from "./port.ts";
import { problem, problemOf } from "./problem.ts";
import { keepRegistered, type Registration } from "./registration.ts";
import { createSignInRoutes } from "./sign-in.ts";
import { type BodyPatience, bodyInTime, limitRequest, withBodyInTime } from "./slow-body.ts";
import { cutOffUnread } from "./unread-answer.ts";
import { dropUnreadBody } from "./unread-body.ts";
import { createWebhookRoutes, type WebhookSettings } from "./webhooks.ts";

export interface ServerOptions {
  readonly app: ServedApp;
  readonly engine: ServedEngine;
  /** The key that `POST /e/:key` requires. */
  readonly key: string;
  readonly host: string;
  /** 0 takes any free port. */
  readonly port: number;
  /** Answers `GET /doctor` and `GET /agents`. */
  readonly machine?: ServedMachine;
  /** The folder with the dashboard's files; absent: no dashboard. */
  readonly dashboard?: string;
  /** Answers for the hosts of previews; absent: there are none. */
  readonly previewHosts?: PreviewHosts;
  /** Who may send webhooks; default: nobody but holders of a key. */
  readonly webhooks?: WebhookSettings;
  /** The OpenID provider with which people sign in; default: none. */
  readonly openId?: OpenIdProvider | null;
  /** Receives messages that are not warnings. */
  readonly inform: (message: string) => void;
  readonly warn: (message: string) => void;
  /** Milliseconds between two checks whether Inngest calls us; default 3 s. */
  readonly registerEveryMs?: number;
  /** How many requests to the API a key may make each minute; default: no limit. */
  readonly requestsPerMinute?: number | null;
  /** Milliseconds after which a silent stream shows that it lives; default 15 s. */
  readonly heartbeatMs?: number;
  /** Milliseconds for which a client may take nothing of what waits for it; default 60 s. */
  readonly unreadMs?: number;
  /** Milliseconds that the body of a request may take, but not of an upload; default 30 s. */
  readonly bodyMs?: number;
}

export interface RunningServer {
  readonly origin: string;
  /** Whether other machines can reach it. */
  readonly isOpen: boolean;
  /**
   * Accepts no more requests, lets open ones finish (up to `graceMs`, default 10 s), then closes.
   * It also waits for requests whose clients have gone, because they may still be using the app.
   */
  stop(graceMs?: number): Promise<void>;
}

const usualBodyMs = 30_000;
const noTriggers = { label: "wavesmith", assignee: null };
/** Enough for a plan of ten thousand tasks. */
const maxEventsBytes = 4 * 1024 * 1024;
/** The most that a person types or pastes into a terminal at once. */
const maxSocketBytes = 256 * 1024;
/** An Inngest server sends all of a run's state with a call. */
const maxCallBytes = 64 * 1024 * 1024;

/**
 * Starts the HTTP server. Fails with `usage` for a host where a dev server's unsigned calls are not
 * allowed, and with `environment` for a taken port.
 */
export async function startServer(options: ServerOptions): Promise<RunningServer> {
  const { app, engine, host } = options;
  if (!isLoopback(host) && engine.kind === "inngest" && engine.isDev) throw unsignedCalls(host);
  let inngest: { endpoint: InngestEndpoint; registration: Registration } | null = null;
  const installation = await app.ports.store.installationId();
  const stopping = new AbortController();
  // Every body that is on its way listens to it.
  setMaxListeners(0, stopping.signal);
  const meter = createProcessMeter();
  const callers = await createCallers({ ports: app.ports, serveKey: options.key });
  const cookie = createSessionCookie(installation, engine.serveOrigin?.startsWith("https:") === true);
  const rateLimit = createRateLimit(options.requestsPerMinute ?? null, () => performance.now());
  const machine = options.machine ?? null;
  const openId = await openIdSignIn(options.openId ?? null);
  const patience = { stopping: stopping.signal, bodyMs: options.bodyMs ?? usualBodyMs };
  const routes = createRoutes(options, { installation, meter, callers, patience, inngest: () => inngest });
  const times = { ...patience, heartbeatMs: options.heartbeatMs ?? 15_000 };
  const { serveOrigin } = engine;
  const api = createApiRoutes({
    app,
    serveOrigin,
    callers,
    machine,
    cookie,
    openId,
    rateLimit,
    warn: options.warn,
    ...times,
  });
  api.onError((error) => problemOf(error, options.warn));
  routes.route("/", api);
  const settings = options.webhooks ?? { githubSecrets: [], ciSecrets: [], triggers: noTriggers };
  routes.route("/", createWebhookRoutes({ app, callers, settings, rateLimit, patience, warn: options.warn }));
  routes.route("/", createSignInRoutes({ callers, cookie, openId, installation, serveOrigin }));
  routes.route("/", createConnectRoutes({ connection: app.ports.forges.github, backTo: "/settings" }));
  routes.all("/mcp", limitRequest(maxEventsBytes, patience), (context) =>
    answerMcp(context, { callers, api: api.fetch, patience }),
  );
  if (options.dashboard !== undefined) routes.route("/", createDashboard(options.dashboard));
  const requests = createRequestsUnderWay(routes.fetch);
  const server = await listen(requests.fetch, options);
  cutOffUnread(server, options.unreadMs ?? 60_000);
  const { port } = server.address() as AddressInfo;
  const origin = `http://${nameFor(host)}:${port}`;
  const reachedAt = engine.serveOrigin ?? origin;
  const endpoint = app.inngestEndpoint(reachedAt);
  if (endpoint !== null && engine.kind === "inngest") {
    const registration = keepRegistered(endpoint, {
      installation,
      ownUrl: `${reachedAt}${inngestPath}`,
      onRegistered: (url) => options.inform(`${engine.baseUrl ?? "Inngest's cloud"} calls the functions at ${url}`),
      warn: options.warn,
      ...(options.registerEveryMs === undefined ? {} : { everyMs: options.registerEveryMs }),
    });
    inngest = { endpoint, registration };
  }
  return {
    origin,
    isOpen: !isLoopback(host),
    async stop(graceMs = 10_000) {
      stopping.abort();
      await inngest?.registration.stop();
      await close(server, requests, graceMs);
      meter.stop();
    },
  };
}

/** Loads the client of OpenID providers only where one is set. */
const openIdSignIn = async (provider: OpenIdProvider | null): Promise<OpenIdSignIn | null> =>
  provider === null ? null : (await import("./access/open-id.ts")).createOpenIdSignIn(provider);

const unsignedCalls = (host: string): WavesmithError =>
  new WavesmithError(
    "usage",
    `--host ${host} would be reachable from other machines, and a dev server signs no calls`,
    {
      remedy:
        "use an Inngest server with keys (INNGEST_DEV=0, INNGEST_SIGNING_KEY, INNGEST_EVENT_KEY), or leave --host out",
    },
  );

interface ServerState {
  readonly installation: string;
  readonly meter: ProcessMeter;
  readonly callers: Callers;
  readonly patience: BodyPatience;
  /** Null with the embedded engine, and until the server listens. */
  readonly inngest: () => { readonly endpoint: InngestEndpoint; readonly registration: Registration } | null;
}

function createRoutes(options: ServerOptions, state: ServerState): Hono {
  const { app, engine, key, warn, host } = options;
  const routes = new Hono();
  const requests = createRequestCounts();
  routes.use(requests.count);
  routes.use(dropUnreadBody(state.patience));
  routes.use(onlyOwnNames({ host, serveOrigin: engine.serveOrigin }));
  routes.onError((error) => problemOf(error, warn));
  routes.notFound(({ req }) =>
    problem(404, "not-found", `there is nothing at ${req.method} ${req.path}`, "GET /docs lists every route"),
  );

  // Both answer process monitors without a key and reveal nothing about builds.
  routes.get("/healthz", ({ json }) => json({ status: "ok", installation: state.installation }));
  routes.get("/readyz", async ({ json }) => {
    const trouble = await app.ping().then(
      () => null,
      (error: unknown) => messageOf(error),
    );
    if (trouble !== null) {
      warn(`the database cannot be reached: ${trouble}`);
      return problem(503, "database", "the database cannot be reached; the server's log says why");
    }
    const { registration } = state.inngest() ?? {};
    if (engine.kind === "inngest" && registration?.trouble !== null)
      return problem(503, "engine", registration?.trouble ?? "the server is starting");
    const functions = engine.kind === "embedded" ? "running" : "registered";
    return json({ status: "ready", database: "ok", engine: engine.kind, functions });
  });

  routes.get("/metrics", onlyOperators(state.callers), async ({ body }) => {
    const measures = [...(await app.measures()), ...requests.measures(), ...state.meter.measures()];
    return body(exposition(measures), 200, { "content-type": metricsType });
  });

  routes.post("/e/:key", limitRequest(maxEventsBytes, state.patience), async ({ req, json }) => {
    if (!sameKey(req.param("key"), key)) {
      return problem(401, "unauthorized", "the event key is wrong", "`wavesmith serve` prints where the key is");
    }
    const text = await bodyInTime(req.text(), state.patience);
    if (text instanceof Response) return text;
    const { store } = (await app.forTenant(app.tenant)).ports;
    const events = await readIncoming(parseJson(text), { ports: { ...app.ports, store } });
    const taken = await app.send(...events);
    const builds = events.flatMap(({ name, id }, index) =>
      name === "project/build.requested"
        ? [{ id, buildId: buildIdForEvent(id), repeated: itemAt(taken, index).repeated }]
        : [],
    );
    return json({ ids: events.map((event) => event.id), status: 200, builds });
  });

  routes.all(inngestPath, limitRequest(maxCallBytes, state.patience), ({ req }) => answerInngest(req.raw, state));
  return routes;
}

async function answerInngest(request: Request, { inngest, patience }: ServerState): Promise<Response> {
  const called = inngest();
  if (called === null) {
    return problem(404, "not-found", "no Inngest server calls functions here", "wavesmith serve --engine inngest");
  }
  const whole = await withBodyInTime(request, patience);
  return whole instanceof Response ? whole : called.endpoint.handle(whole);
}

function listen(fetch: Hono["fetch"], { host, port, warn, previewHosts }: ServerOptions): Promise<Server> {
  return new Promise((resolve, reject) => {
    const own = previewHosts === undefined ? {} : { createServer: createServerBeside(previewHosts) };
    const sockets: unknown = new WebSocketServer({ noServer: true, maxPayload: maxSocketBytes });
    // Its types do not allow for exact optional properties.
    const websocket = { server: sockets } as NonNullable<Parameters<typeof serve>[0]["websocket"]>;
    const server = serve({ fetch, hostname: host, port, websocket, ...own }, () => {
      server.off("error", refused);
      server.on("error", (error) => warn(`the HTTP server: ${messageOf(error)}`));
      resolve(server);
    }) as Server;
    shareUpgrades(server, previewHosts);
    const refused = (error: Error): void => {
      reject(
        new WavesmithError("environment", `port ${port} of ${host} is not available: ${error.message}`, {
          remedy: "choose another with --port, or --port 0 for any",
          cause: error,
        }),
      );
    };
    server.once("error", refused);
  });
}

/** Creates servers that give requests for the hosts of previews to those alone. */
const createServerBeside = (previews: PreviewHosts) =>
  ((options: HttpOptions, listener: RequestListener): Server =>
    createServer(options, (request, response) => {
      if (!previews.answer(request, response)) listener(request, response);
    })) as typeof createServer; // always called with both

/** Gives upgrades for the hosts of previews to those alone, and other WebSockets to our routes. */
function shareUpgrades(server: Server, previews: PreviewHosts | undefined): void {
  const own = server.listeners("upgrade");
  server.removeAllListeners("upgrade");
  server.on("upgrade", (request, socket, head) => {
    // Node has taken its own listener off; without one a reset connection would end the process.
    socket.on("error", () => socket.destroy());
    if (previews?.upgrade(request, socket, head) === true) return;
    const isOurs = request.headers.upgrade?.toLowerCase() === "websocket" && socketPath.test(request.url ?? "");
    if (!isOurs) socket.end(noUpgrade);
    else for (const listener of own) listener.call(server, request, socket, head);
  });
}

/** Only these become a WebSocket (api/socket.ts). */
const socketPath = /^\/api\/v1\/(?:builds\/[^/?]+\/shell|projects\/[^/?]+\/sandbox\/exec)(?:\?|$)/;
const noUpgrade = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/** Returns the name under which this machine reaches a server that listens on `host`. */
function nameFor(host: string): string {
  if (host === "0.0.0.0" || host === "::") return "127.0.0.1";
  return host.includes(":") && !host.startsWith("[") ? `[${host}]` : host;
}

interface RequestsUnderWay {
  readonly fetch: Hono["fetch"];
  /** Resolves when every request so far has its answer. */
  ended(): Promise<unknown>;
}

/** Knows which requests are being handled. A server forgets those whose clients have gone. */
function createRequestsUnderWay(handle: Hono["fetch"]): RequestsUnderWay {
  const underWay = new Set<Promise<Response>>();
  return {
    fetch(...args) {
      const answer = Promise.resolve(handle(...args));
      const done = (): void => void underWay.delete(answer);
      underWay.add(answer);
      answer.then(done, done);
      return answer;
    },
    ended: () => Promise.allSettled(underWay),
  };
}

async function close(server: Server, requests: RequestsUnderWay, graceMs: number): Promise<void> {
  const overdue = AbortSignal.timeout(graceMs);
  overdue.addEventListener("abort", () => server.closeAllConnections());
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeIdleConnections();
  await closed;
  if (!overdue.aborted) await Promise.race([requests.ended(), once(overdue, "abort")]);
}
