import { createHash } from "node:crypto";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Inngest } from "inngest";
import { createFunctions } from "../functions/index.ts";
import { createAgents } from "./agents/agents.ts";
import type { Config } from "./config.ts";
import type { Ports } from "./coordinator/port.ts";
import { reconcileBuilds } from "./coordinator/reconcile.ts";
import { createRelay, type Relay } from "./coordinator/relay.ts";
import { type JobWatcher, watchJobs } from "./coordinator/watch-jobs.ts";
import { messageOf, WavesmithError } from "./domain/errors.ts";
import { type IdSource, randomIds } from "./domain/ids.ts";
import { createEngine } from "./engine/engine.ts";
import type { Engine } from "./engine/port.ts";
import { createGates } from "./gates/gates.ts";
import { createLocalDriver } from "./sandbox/drivers/local.ts";
import type { SandboxDriver } from "./sandbox/port.ts";
import { type Database, openDatabase } from "./store/connection.ts";
import { migrate } from "./store/migrate.ts";
import type { Store } from "./store/port.ts";
import { createStore } from "./store/store.ts";
import { createWorkspace } from "./workspace/workspace.ts";

export interface AppOptions {
  readonly config: Config;
  /** Where warnings go; never standard output. */
  readonly warn: (message: string) => void;
  readonly clock?: () => Date;
  readonly ids?: IdSource;
  readonly crashPoint?: (name: string) => void | Promise<void>;
}

/** The parts, wired together: what every command works with. */
export interface App {
  readonly config: Config;
  readonly ports: Ports;
  readonly store: Store;
  /** Drives the builds of these projects until `stop`; the set may grow. */
  start(projectIds: Set<string>): Promise<void>;
  /** Sends events that a command asks for, such as a build's request. */
  send(event: { name: string; id: string; data: Record<string, unknown> }): Promise<void>;
  /** Sees to cancellations, time limits and lost requests now. */
  reconcile(): Promise<void>;
  close(): Promise<void>;
}

const packageRoot = fileURLToPath(new URL("..", import.meta.url));
const reconcileMs = 1_000;

/** Opens the database of a data directory, brings it up to date and wires the parts. */
export async function createApp(options: AppOptions): Promise<App> {
  const { config } = options;
  const database = await openDatabase({
    dataDir: config.dataDir,
    ...(config.databaseUrl === null ? {} : { databaseUrl: config.databaseUrl }),
    applicationName: `wavesmith ${process.pid}`,
  });
  try {
    await migrate(database.pool, join(packageRoot, "drizzle"));
    return await wire(options, database);
  } catch (error) {
    await database.close();
    throw error;
  }
}

async function wire(options: AppOptions, database: Database): Promise<App> {
  const { config } = options;
  const crashPoint = options.crashPoint ?? (() => undefined);
  const store = createStore(database.pool, { crashPoint });
  const installationId = await store.installationId();
  const engine = createEngine({
    database: database.pool,
    partition: (event) => (typeof event.data.projectId === "string" ? event.data.projectId : null),
    crashPoint,
    logger: {
      warn: (message: string) => options.warn(message),
      error: (message: string) => options.warn(message),
    } as never,
  });
  let served: Set<string> = new Set();
  let watcher: JobWatcher | null = null;
  const ports: Ports = {
    store,
    workspace: createWorkspace({ dataDir: config.dataDir, env: config.environment, crashPoint }),
    gates: createGates(),
    agents: createAgents(),
    driver: drivers(config, installationId, options.warn),
    events: { send: (events) => engine.send(events) },
    secrets: secretValues(config.environment),
    environment: config.environment,
    clock: { now: options.clock ?? (() => new Date()) },
    ids: options.ids ?? randomIds,
    processors: config.processors,
    wakeWatcher: () => watcher?.wake(),
    crashPoint,
    log: {
      warn: (message, facts) => options.warn(facts === undefined ? message : `${message} ${JSON.stringify(facts)}`),
    },
  };
  const relay = createRelay(ports, () => [...served]);
  await registerFunctions(engine, ports, relay, config);
  const running = createDriving({ database, engine, ports, relay, warn: options.warn });
  return {
    config,
    ports,
    store,
    async start(projectIds) {
      served = projectIds;
      watcher = await running.start(projectIds);
    },
    send: async (event) => engine.send([event]),
    reconcile: () => running.reconcile(),
    async close() {
      await running.stop();
      await database.close();
    },
  };
}

/** What the SDK would print of failed steps is told by our own events and warnings. */
const silent = (): void => undefined;
const quiet = { info: silent, warn: silent, error: silent, debug: silent };

async function registerFunctions(engine: Engine, ports: Ports, relay: Relay, config: Config): Promise<void> {
  const inngest = new Inngest({
    id: "wavesmith",
    isDev: true,
    baseUrl: "http://engine.invalid",
    eventKey: "embedded",
    fetch: engine.fetch,
    logger: quiet,
    internalLogger: quiet,
  });
  await engine.register(inngest, createFunctions({ inngest, ports, relay, defaultDriver: config.sandboxDriver }));
}

function drivers(config: Config, installationId: string, warn: (message: string) => void) {
  const made = new Map<string, SandboxDriver>();
  return (name: string): SandboxDriver => {
    if (name !== "local" && name !== "local-unsafe") {
      throw new WavesmithError("unsupported", `there is no sandbox driver ${name}`, {
        remedy: "use --sandbox local or --sandbox local-unsafe",
      });
    }
    const known = made.get(name);
    if (known !== undefined) return known;
    const driver = createLocalDriver({
      unsafe: name === "local-unsafe",
      dataDir: config.dataDir,
      installationId,
      readOnly: [...config.sandboxReadOnly],
      env: { PATH: config.environment.PATH ?? "", HOME: config.environment.HOME ?? "" },
      logger: { warn },
    } as never);
    made.set(name, driver);
    return driver;
  };
}

const secretValues = (environment: Config["environment"]): Ports["secrets"] => ({
  values: (names) =>
    Object.fromEntries(names.flatMap((name) => (environment[name] === undefined ? [] : [[name, environment[name]]]))),
});

interface Driving {
  start(projectIds: Set<string>): Promise<JobWatcher>;
  reconcile(): Promise<void>;
  stop(): Promise<void>;
}

/** The loops of a process that drives builds: engine, watcher, reconciler. */
function createDriving(parts: {
  database: Database;
  engine: Engine;
  ports: Ports;
  relay: Relay;
  warn: (message: string) => void;
}): Driving {
  const { database, engine, ports, relay } = parts;
  const owner = `proc_${createHash("sha256").update(`${process.pid}:${Date.now()}:${Math.random()}`).digest("hex").slice(0, 16)}`;
  let watcher: JobWatcher | null = null;
  let registration: { release(): Promise<void> } | null = null;
  let timer: NodeJS.Timeout | null = null;
  let projects: ReadonlySet<string> = new Set();
  let turn: Promise<void> = Promise.resolve();
  const reconcile = async (): Promise<void> => {
    await reconcileBuilds(ports, [...projects]);
    await relay.flush();
  };
  const tick = (): void => {
    turn = reconcile().catch(async (error: unknown) => {
      parts.warn(`reconciling failed: ${messageOf(error)}`);
      // A killed Postgres is started again, and the build goes on.
      await database.ensureRunning().catch((failure: unknown) => parts.warn(messageOf(failure)));
    });
    void turn.then(() => {
      if (timer !== null) timer = setTimeout(tick, reconcileMs);
    });
  };
  return {
    async start(projectIds) {
      projects = projectIds;
      registration = await ports.store.registerProcess(owner);
      engine.start(projectIds);
      watcher = watchJobs(ports, { owner, projectIds, flush: () => relay.flush() });
      timer = setTimeout(tick, 0);
      return watcher;
    },
    reconcile,
    async stop() {
      if (timer !== null) clearTimeout(timer);
      timer = null;
      await turn;
      await engine.stop();
      await watcher?.stop();
      await registration?.release();
    },
  };
}
