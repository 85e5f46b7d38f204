import { WavesmithError } from "../../domain/errors.ts";
import { present } from "../../domain/known.ts";
import { type Context, refuseServer } from "../context.ts";
import { dashboardFiles } from "../dashboard-files.ts";
import { withServedApp } from "../data/served-app.ts";
import { recordAddress } from "../data/server-address.ts";
import { type Interrupts, watchInterrupts } from "../interrupts.ts";
import { exit } from "../output/exit-codes.ts";
import type { JsonLog } from "../output/json-log.ts";
import { type App, type Config, type KeyFile, openServer, serverKey } from "../parts.ts";
import { servePreviewHosts } from "../preview/preview-hosts.ts";
import { type ServedPreviews, servePreviews } from "../preview/serve-previews.ts";
import { reportAgents } from "./agents.ts";
import { checkMachine } from "./doctor.ts";

export interface ServeOptions {
  readonly port: string;
  readonly host: string;
}

/** `serve`: drives the builds of every project and answers HTTP until it is stopped. */
export async function serve(given: Context, options: ServeOptions): Promise<number> {
  // WAVESMITH_SERVER may be set on the machine of that very server.
  if (given.options.server !== undefined) await refuseServer(given, "it starts one");
  const port = portOf(options.port);
  const config = await given.config();
  const log = config.log === "json" ? await openJsonLog(given, config) : null;
  const context = log === null ? given : logging(given, log);
  const interrupts = watchInterrupts(process);
  interrupts.on((count) => {
    if (count > 1) process.exit(exit.cancelled);
  });
  try {
    await withServedApp(context, log?.event ?? (() => undefined), (app) =>
      run({ context, config, app, interrupts, host: options.host, port }),
    );
    return exit.ok;
  } finally {
    interrupts.dispose();
  }
}

interface Run {
  readonly context: Context;
  readonly config: Config;
  readonly app: App;
  readonly interrupts: Interrupts;
  readonly host: string;
  readonly port: number;
}

async function run({ context, config, app, interrupts, host, port }: Run): Promise<void> {
  const { out, json } = context;
  const { engine, requestsPerMinute } = config;
  const report = (message: string): void => (json ? out.json({ type: "serve.told", message }) : out.line(message));
  const made = config.serveKey === null ? await serverKey(config) : null;
  const key = config.serveKey ?? present(made, "the key").key;
  const warn = (message: string): void => context.warn(message);
  const dashboard = await dashboardFiles(() => report("building the dashboard, because it has changed"));
  const given = config.previewDomain;
  const server = await openServer({
    ...(given === null ? {} : { previewHosts: await servePreviewHosts(app, given) }),
    ...{ app, engine, key, requestsPerMinute, host, port, dashboard, webhooks: config.webhooks, openId: config.openId },
    machine: { check: () => checkMachine(config), tryAgents: () => reportAgents(config) },
    inform: report,
    warn,
  });
  let previews: ServedPreviews | null = null;
  const removeAddress = await recordAddress(config.dataDir, server.origin);
  try {
    await app.start("all");
    const own = { protocol: "http", port: Number(new URL(server.origin).port) } as const;
    previews = servePreviews(app, { domain: given === null ? null : { ...own, ...given }, tell: report, warn });
    const keyFile = made?.path ?? null;
    const started = {
      type: "serve.started",
      url: server.origin,
      engine: engine.kind,
      dataDir: config.dataDir,
      keyFile,
    };
    if (made?.isNew === true) printKey(context, made, config.log === "json");
    if (json) out.json(started);
    else for (const line of greeting(config, server.origin, keyFile)) out.line(line);
    if (server.isOpen) context.warn(`${host} is reachable from other machines; anyone with the keys can start builds`);
    if (interrupts.count === 0) await interrupts.next();
    out.note("stopping: finishing work in progress (Ctrl-C again quits at once)");
  } finally {
    await removeAddress();
    await previews?.stop();
    await server.stop();
  }
}

async function openJsonLog({ out }: Context, { credentials, serveKey }: Config): Promise<JsonLog> {
  const { createJsonLog } = await import("../output/json-log.ts");
  const secrets = { ...credentials, ...(serveKey === null ? {} : { INNGEST_EVENT_KEY: serveKey }) };
  return createJsonLog({ write: (line) => out.raw(line), secrets });
}

/** The same context, whose messages go to the log. */
const logging = (context: Context, log: JsonLog): Context => ({
  ...context,
  json: false,
  out: { ...context.out, line: log.info, note: log.info },
  warn: log.warn,
});

/** Shows the key only at the start that created it; later starts name just the file. */
function printKey({ out, json }: Context, { key, path }: KeyFile, isLogged: boolean): void {
  if (json) out.json({ type: "serve.key", key, keyFile: path });
  else if (isLogged) out.line(`created the server's key: it is in ${path}`);
  else
    out.line(`created the key of the API and of POST /e/KEY: ${key} (kept in ${path}; it will not be printed again)`);
}

function greeting({ engine, dataDir }: Config, origin: string, keyFile: string | null): string[] {
  const runs =
    engine.kind === "embedded"
      ? "the embedded engine runs the functions"
      : `functions are run by ${engine.baseUrl ?? "Inngest's cloud"}`;
  const key = keyFile === null ? "$INNGEST_EVENT_KEY" : `$(cat '${keyFile}')`;
  return [
    `Wavesmith serves ${origin}: ${runs}; data directory ${dataDir}`,
    `  dashboard       ${origin}/ (wavesmith open signs your browser in)`,
    `  start a build   curl -X POST "${origin}/e/${key}" -d '{"name":"project/build.requested","data":{"plan":{…}}}'`,
    `  HTTP API        ${origin}/docs`,
    ...(engine.kind === "embedded" ? [] : [`  Inngest         ${origin}/api/inngest`]),
    `  health          ${origin}/healthz  ${origin}/readyz`,
    "Ctrl-C stops it; jobs in sandboxes continue, and the next serve picks them up.",
  ];
}

function portOf(text: string): number {
  const port = Number(text);
  if (/^\d+$/.test(text) && port <= 65_535) return port;
  throw new WavesmithError("usage", `--port ${text} is not a port`, {
    remedy: "use a number from 0 (any free one) to 65535",
  });
}
