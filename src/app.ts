import { createHash } from "node:crypto";
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { isDeepStrictEqual } from "node:util";
import type { Inngest, InngestFunction } from "inngest";
import type { Flow } from "../functions/flow.ts";
import { createFunctions } from "../functions/index.ts";
import { createAgents } from "./agents/agents.ts";
import type { Config, InngestSettings } from "./config.ts";
import { reconcileBuilds } from "./coordinator/build/reconcile.ts";
import { refuseForEvents } from "./coordinator/build/request-build.ts";
import { type TakenEvent, takeEvents } from "./coordinator/build/take-events.ts";
import { withCrashPoints } from "./coordinator/crash-points.ts";
import { type JobWatcher, watchJobs } from "./coordinator/job/watch-jobs.ts";
import { previewPlaceOf } from "./coordinator/names.ts";
import { createRelay, type Relay } from "./coordinator/next/relay.ts";
import type { Ports } from "./coordinator/port.ts";
import { hearSandboxes, type SandboxHearing } from "./coordinator/sandboxes/hear-sandboxes.ts";
import { isDiskFull } from "./domain/disk-full.ts";
import { messageOf, WavesmithError } from "./domain/errors.ts";
import { type IdSource, type ProjectId, randomIds } from "./domain/ids.ts";
import { providerNames } from "./domain/models.ts";
import { createEngineClient } from "./engine/client.ts";
import { createEngine } from "./engine/engine.ts";
import { createGates } from "./gates/gates.ts";
import { createCassette } from "./models/cassette.ts";
import { newestPrices } from "./models/kept-prices.ts";
import { createModels } from "./models/models.ts";
import type { Models } from "./models/port.ts";
import { readPrices } from "./models/price-list.ts";
import { createDriver, type DriverSettings } from "./sandbox/drivers/registry.ts";
import { createEgressDenials } from "./sandbox/egress/denials.ts";
import { machineBoot, machineRoom } from "./sandbox/host/machine.ts";
import type { SandboxDriver } from "./sandbox/port.ts";
import { createDirectorySnapshots } from "./sandbox/snapshots/directory.ts";
import { connectInngest } from "./server/inngest.ts";
import type { InngestEndpoint, SentEvent } from "./server/port.ts";
import { type Database, openDatabase } from "./store/connection.ts";
import { checkDataDirectory } from "./store/data-directory.ts";
import { createDiskRoom, type DiskRoom } from "./store/disk-room.ts";
import { migrate } from "./store/migrate.ts";
import type { Store } from "./store/port.ts";
import { createStore } from "./store/store.ts";
import { createWorkspace, holdsCommit } from "./workspace/workspace.ts";

export interface AppOptions {
  readonly config: Config;
  /** Receives warnings; never standard output. */
  readonly warn: (message: string) => void;
  readonly clock?: () => Date;
  readonly ids?: IdSource;
  readonly crashPoint?: (name: string) => void | Promise<void>;
  /**
   * How long sandboxes and the embedded Postgres outlive their users if all of those were killed.
   */
  readonly orphanLimitMs?: number;
}

/** The parts, wired together, for every command. */
export interface App {
  readonly config: Config;
  readonly ports: Ports;
  readonly store: Store;
  /** The functions of the flow, in order. */
  readonly functions: readonly { readonly id: string; readonly name: string }[];
  /** Drives the builds of these projects, or of every project, until `close`; the set may grow. */
  start(projectIds: "all" | Set<string>): Promise<void>;
  /**
   * Records and sends requested events, such as a build's request. Fails with `conflict` for an id
   * that was used before.
   */
  send(...events: SentEvent[]): Promise<TakenEvent[]>;
  /** Rejects if the database cannot be reached. */
  ping(): Promise<void>;
  /**
   * Where an Inngest server that reaches us at `origin` calls the functions; null with the embedded
   * engine.
   */
  inngestEndpoint(origin: string): InngestEndpoint | null;
  /** Handles cancellations, time limits and lost requests now. */
  reconcile(): Promise<void>;
  /** A message that the data directory's disk is full; null if it is not. */
  diskTrouble(): string | null;
  /**
   * Stops the project's sandbox and prevents new ones, without needing the database or disk space.
   */
  abandon(projectId: ProjectId): Promise<void>;
  close(): Promise<void>;
}

const packageRoot = fileURLToPath(new URL("..", import.meta.url));
const reconcileMs = 1_000;

/** Opens the database of a data directory, migrates it and wires the parts. */
export async function createApp(options: AppOptions): Promise<App> {
  const { config } = options;
  const database = await openDatabase({
    dataDir: config.dataDir,
    ...(config.databaseUrl === null ? {} : { databaseUrl: config.databaseUrl }),
    applicationName: `wavesmith ${process.pid}`,
    warn: options.warn,
    patienceMs: config.databaseWaitMs,
    ...(options.orphanLimitMs === undefined ? {} : { orphanTimeoutMs: options.orphanLimitMs }),
  });
  try {
    await migrate(database.pool, join(packageRoot, "drizzle"));
    await checkDataDirectory({
      pool: database.pool,
      dataDir: config.dataDir,
      isEmbedded: database.kind === "embedded",
      claims: true,
      holds: holdsCommit(createWorkspace({ dataDir: config.dataDir, env: config.environment })),
    });
    return await wire(options, database);
  } catch (error) {
    await database.close();
    throw error;
  }
}

async function wire(given: AppOptions, database: Database): Promise<App> {
  const { config } = given;
  const room = createDiskRoom(config.dataDir, given.warn);
  const options = { ...given, warn: (message: string) => room.warn(message) };
  const crashes = options.crashPoint === undefined ? {} : { crashPoint: options.crashPoint };
  const store = createStore(database.pool, crashes);
  const installationId = await store.installationId();
  const runner =
    config.engine.kind === "inngest" ? onInngest(config.engine, options.warn) : embedded(options, database, room);
  let served: "all" | Set<string> = new Set();
  let watcher: JobWatcher | null = null;
  const sandboxes = drivers(options, installationId);
  const plain: Ports = {
    store,
    workspace: createWorkspace({ dataDir: config.dataDir, env: config.environment, ...crashes }),
    gates: createGates(),
    agents: createAgents(),
    models: await openModels(options, store),
    driver: sandboxes.driver,
    egress: createEgressDenials(config.dataDir),
    snapshots: createDirectorySnapshots(join(config.dataDir, "snapshots")),
    machine: { room: () => machineRoom(config.dataDir), boot: machineBoot },
    sandboxPolicy: config.sandboxPolicy,
    events: { send: (events) => runner.send(events) },
    secrets: secretValues(config),
    planFiles: planFiles(join(config.dataDir, "plans")),
    briefAgent: config.briefAgent,
    environment: config.environment,
    eventSecrets: config.eventSecrets,
    clock: { now: options.clock ?? (() => new Date()) },
    ids: options.ids ?? randomIds,
    processors: config.processors,
    memoryBytes: config.memoryBytes,
    wakeWatcher: () => watcher?.wake(),
    log: {
      warn: (message, facts) => options.warn(facts === undefined ? message : `${message} ${JSON.stringify(facts)}`),
    },
  };
  const ports = options.crashPoint === undefined ? plain : withCrashPoints(plain, options.crashPoint);
  const relay = createRelay(ports, () => (served === "all" ? "all" : [...served]));
  const flow = {
    inngest: runner.client,
    ports,
    relay,
    defaultDriver: config.sandboxDriver,
    diskFull: () => room.trouble() !== null,
    vetted: vettedBy(config, store),
    isFromUs: decidedBy(config, store),
  };
  const functions = createFunctions(flow);
  await runner.use(functions);
  const running = createDriving({ database, runner, ports, relay, sandboxes, warn: room.warn });
  return {
    config,
    ports,
    store,
    functions: functions.map((fn) => ({ id: fn.id(), name: fn.name })),
    async start(projectIds) {
      served = projectIds;
      watcher = await running.start(projectIds);
      // It is only a precaution: builds work without it.
      void room.reserve().catch((error: unknown) => room.warn(`cannot reserve disk space: ${messageOf(error)}`, error));
    },
    send: (...events) => takeEvents(ports, events),
    ping: async () => void (await database.pool.query("select")),
    inngestEndpoint: (origin) => runner.endpoint(functions, origin),
    reconcile: () => running.reconcile(),
    diskTrouble: () => room.trouble(),
    abandon: (projectId) => sandboxes.abandon(projectId),
    close: () =>
      running
        .stop()
        .finally(() => plain.models.close())
        .finally(() => database.close()),
  };
}

async function openModels({ config, ids, clock, warn }: AppOptions, store: Store): Promise<Models> {
  const { cassette, pricesFile, providers } = config.models;
  // A replay calls no provider, so it needs no key.
  const unasked = providerNames.map((name) => ({ name, baseUrl: "", headers: {} }));
  return createModels({
    store,
    ids: ids ?? randomIds,
    now: clock ?? (() => new Date()),
    providers: cassette?.mode === "replay" ? unasked : providers,
    prices: pricesFile === null ? [] : readPrices(await readFile(pricesFile, "utf8"), pricesFile),
    published: await newestPrices(config.dataDir),
    cassette: cassette === null ? null : createCassette(cassette.folder, cassette.mode),
    warn,
  });
}

/** Silences the SDK, because our own events and warnings report failed steps. */
const silent = (): void => undefined;
const quiet = { info: silent, warn: silent, error: silent, debug: silent };

/** Creates the engine: ours in this process, or an Inngest server that calls us. */
interface Runner {
  readonly client: Inngest.Any;
  use(functions: readonly InngestFunction.Any[]): Promise<void>;
  send(events: readonly SentEvent[]): Promise<void>;
  start(projectIds: "all" | ReadonlySet<string>): void;
  stop(): Promise<void>;
  endpoint(functions: readonly InngestFunction.Any[], origin: string): InngestEndpoint | null;
}

function embedded({ crashPoint }: AppOptions, database: Database, room: DiskRoom): Runner {
  const warn = (message: string, error?: unknown): void => room.warn(message, error);
  const engine = createEngine({
    database: database.pool,
    partition: (event) => (typeof event.data.projectId === "string" ? event.data.projectId : null),
    crashPoint: crashPoint ?? (() => undefined),
    logger: { warn, error: warn },
  });
  const client = createEngineClient({ id: "wavesmith", fetch: engine.fetch, logger: quiet });
  return {
    client,
    use: (functions) => engine.register(client, functions),
    send: (events) => engine.send(events),
    start: (projectIds) => engine.start(projectIds),
    stop: () => engine.stop(),
    endpoint: () => null,
  };
}

/** The server calls us while `serve` answers, so there is nothing to start or stop here. */
function onInngest(settings: InngestSettings, warn: (message: string) => void): Runner {
  const { client, send, endpoint } = connectInngest({ ...settings, warn });
  return { client, use: async () => undefined, send, start: () => undefined, stop: async () => undefined, endpoint };
}

/**
 * An Inngest server accepts events from anywhere, and a dev server's calls are not even signed. So
 * fields that only commands of this machine may set are read from the outbox. The embedded engine
 * gets events only from us.
 */
const vettedBy =
  (config: Config, store: Store): Flow["vetted"] =>
  async (requestId, data) => {
    if (config.engine.kind === "embedded") return data;
    const sent = await store.outbox.find({ eventId: requestId, name: "project/build.requested" });
    if (sent !== null) return sent.data;
    refuseForEvents(data, config);
    return data;
  };

/**
 * Whether an event may decide about a build. A dev server accepts events from anyone, so there the
 * event must be in the outbox.
 */
const decidedBy =
  ({ engine }: Config, store: Store): Flow["isFromUs"] =>
  async ({ id, name, data }) => {
    if (engine.kind === "embedded" || !engine.isDev) return true;
    const sent = await store.outbox.find({ eventId: id, name });
    return isDeepStrictEqual(sent?.data, data);
  };

interface Drivers {
  readonly driver: Ports["driver"];
  abandon(projectId: ProjectId): Promise<void>;
  /** Calls `tell` for every driver that is or comes into use here. */
  tellUse(tell: (name: string) => void): void;
}

function drivers(options: AppOptions, installationId: string): Drivers {
  const { config, warn, orphanLimitMs } = options;
  const settings: DriverSettings = {
    dataDir: config.dataDir,
    installationId,
    environment: config.environment,
    readOnly: config.sandboxReadOnly,
    logger: { warn },
    ...(orphanLimitMs === undefined ? {} : { silenceMs: orphanLimitMs }),
  };
  const made = new Map<string, SandboxDriver>();
  let abandoned = false;
  let tellUse: (name: string) => void = () => undefined;
  const driver = (name: string): SandboxDriver => {
    const known = made.get(name);
    if (known !== undefined) return known;
    const plain = createDriver(name, settings);
    const ensure: SandboxDriver["ensure"] = async (spec) => {
      if (!abandoned) return plain.ensure(spec);
      throw new WavesmithError("sandbox-unavailable", "the build is being interrupted: no sandbox is started");
    };
    made.set(name, { ...plain, ensure });
    tellUse(name);
    return { ...plain, ensure };
  };
  return {
    driver,
    tellUse(tell) {
      tellUse = tell;
      for (const name of made.keys()) tell(name);
    },
    async abandon(projectId: ProjectId): Promise<void> {
      abandoned = true;
      for (const one of made.values())
        for (const place of [projectId, previewPlaceOf(projectId)]) {
          // The guest ends its jobs and itself without writing anything; `stop` cleans up the rest,
          // for which it takes a lock.
          const endpoint = await one.find(place).catch(() => null);
          await endpoint?.guest
            .shutdown()
            .catch((error: unknown) => warn(`the guest did not stop: ${messageOf(error)}`));
          await one.stop(place).catch((error: unknown) => warn(messageOf(error)));
        }
    },
  };
}

function planFiles(folder: string): Ports["planFiles"] {
  return {
    path: (name) => join(folder, name),
    async write(name, text) {
      await mkdir(folder, { recursive: true });
      const unfinished = join(folder, `.${name}.${process.pid}`);
      await writeFile(unfinished, text);
      await rename(unfinished, join(folder, name));
    },
  };
}

const secretValues = ({ environment, credentials }: Config): Ports["secrets"] => ({
  own: () => ({ ...credentials }),
  values: (names) =>
    Object.fromEntries(names.flatMap((name) => (environment[name] === undefined ? [] : [[name, environment[name]]]))),
});

interface Driving {
  start(projectIds: "all" | Set<string>): Promise<JobWatcher>;
  reconcile(): Promise<void>;
  stop(): Promise<void>;
}

/** The loops of a process that drives builds: engine, watcher, reconciler. */
function createDriving(parts: {
  database: Database;
  runner: Runner;
  ports: Ports;
  relay: Relay;
  sandboxes: Drivers;
  warn: (message: string, error?: unknown) => void;
}): Driving {
  const { database, runner, ports, relay, sandboxes } = parts;
  const owner = `proc_${createHash("sha256").update(`${process.pid}:${Date.now()}:${Math.random()}`).digest("hex").slice(0, 16)}`;
  let watcher: JobWatcher | null = null;
  let hearing: SandboxHearing | null = null;
  let registration: { release(): Promise<void> } | null = null;
  let timer: NodeJS.Timeout | null = null;
  let projects: "all" | ReadonlySet<string> = new Set();
  let trouble = "";
  let turn: Promise<void> = Promise.resolve();
  const reconcile = async (): Promise<void> => {
    await reconcileBuilds(ports, projects);
    await relay.flush();
  };
  const tick = (): void => {
    const settled = (): void => {
      trouble = "";
    };
    turn = reconcile().then(settled, async (error: unknown) => {
      // It repeats every second until the cause is over.
      if (isDiskFull(error) || messageOf(error) !== trouble)
        parts.warn(`reconciling failed: ${messageOf(error)}`, error);
      trouble = messageOf(error);
      // A killed Postgres is restarted, and the build continues.
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
      runner.start(projectIds);
      watcher = watchJobs(ports, { owner, projectIds, flush: () => relay.flush() });
      const heard = hearSandboxes(ports, { projectIds, flush: () => relay.flush() });
      hearing = heard;
      sandboxes.tellUse((name) => heard.hear(name));
      timer = setTimeout(tick, 0);
      return watcher;
    },
    reconcile,
    async stop() {
      if (timer !== null) clearTimeout(timer);
      timer = null;
      await turn;
      await hearing?.stop();
      // Close each part even if the one before failed: on a full disk none of them can release what
      // it holds.
      const stopped = runner.stop().finally(() => watcher?.stop());
      await stopped.finally(() => registration?.release());
    },
  };
}
