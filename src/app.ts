import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createFunctions } from "../functions/index.ts";
import { createBackgroundWork } from "./app/background.ts";
import { createDriversInUse } from "./app/drivers-in-use.ts";
import { createDriving } from "./app/driving.ts";
import { createSenderCheck, createVetting } from "./app/event-origin.ts";
import { createMeasures } from "./app/measures.ts";
import type { AppOptions } from "./app/options.ts";
import { createPorts } from "./app/ports.ts";
import type { GarbageCollection } from "./app/retention/schedule.ts";
import { createRunner } from "./app/runner.ts";
import { tenantViews } from "./app/tenant-views.ts";
import type { Config } from "./config.ts";
import { defaultTenant, tenantIdFor } from "./coordinator/build/request/project.ts";
import { type TakenEvent, takeEvents } from "./coordinator/build/request/take-events.ts";
import type { JobWatcher } from "./coordinator/job/watch-jobs.ts";
import { createRelay } from "./coordinator/next/relay.ts";
import type { Ports } from "./coordinator/port.ts";
import { messageOf } from "./domain/errors.ts";
import type { DomainEvent } from "./domain/events/events.ts";
import type { ProjectId } from "./domain/ids.ts";
import type { Measure } from "./domain/measures.ts";
import type { InngestEndpoint, ServedApp, ServedTenant } from "./server/port.ts";
import { type Database, openDatabase } from "./store/connection/connection.ts";
import { checkDataDirectory } from "./store/data-directory.ts";
import { createDiskRoom } from "./store/disk-room.ts";
import { createEventFeed, type EventFeed } from "./store/event-feed.ts";
import { migrate } from "./store/migrate.ts";
import type { Store } from "./store/port.ts";
import { createStore } from "./store/store.ts";
import { createWorkspace, holdsCommit } from "./workspace/workspace.ts";

/** The parts, wired together, for every command. */
export interface App {
  readonly config: Config;
  readonly ports: Ports;
  readonly store: Store;
  /**
   * The tenant of `ports` and `feed`; the app itself sees every tenant, and acts for the default
   * one.
   */
  readonly tenant: ServedTenant;
  /** Returns the app as the requests of a tenant see it (W11). */
  forTenant(tenant: ServedTenant): Promise<ServedApp>;
  readonly allTenants: Ports;
  /** The functions of the flow, in order. */
  readonly functions: readonly { readonly id: string; readonly name: string }[];
  /** Drives the builds of these projects, or of every project, until `close`; the set may grow. */
  start(projectIds: "all" | Set<string>): Promise<void>;
  /**
   * Records and sends requested events, such as a build's request. Fails with `conflict` for an id
   * that was used before.
   */
  send(...events: DomainEvent[]): Promise<TakenEvent[]>;
  /** Sends the events that operations committed outside a function. */
  flush(): Promise<void>;
  /** The events of builds and projects, for those who follow them. */
  readonly feed: EventFeed;
  /** Measures the builds, the engine's queue and the database's connections. */
  measures(): Promise<Measure[]>;
  /** The data that has outlived its retention settings. */
  readonly garbage: GarbageCollection;
  /** Rejects if the database cannot be reached. */
  ping(): Promise<void>;
  /** The endpoint for an Inngest server that reaches us at `origin`; null if it is embedded. */
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

/** The tenant of commands on this machine. */
const ownTenant: ServedTenant = { tenantId: tenantIdFor(defaultTenant), tenant: defaultTenant };

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

async function wire(appOptions: AppOptions, database: Database): Promise<App> {
  const { config } = appOptions;
  const room = createDiskRoom(config.dataDir, appOptions.warn);
  const options = { ...appOptions, warn: (message: string) => room.warn(message) };
  const crashes = options.crashPoint === undefined ? {} : { crashPoint: options.crashPoint };
  const store = createStore(database.pool, crashes);
  const installationId = await store.installationId();
  const runner = createRunner(options, database, room);
  let served: "all" | Set<string> = new Set();
  let watcher: JobWatcher | null = null;
  const sandboxes = createDriversInUse(options, installationId);
  const ports = await createPorts(options, {
    store,
    crashes,
    driver: sandboxes.driver,
    send: (events) => runner.send(events).then(() => tellOf(events, options.onEvent)),
    wakeWatcher: () => watcher?.wake(),
  });
  const relay = createRelay(ports, () => (served === "all" ? "all" : [...served]));
  const functions = createFunctions({
    ...{ inngest: runner.client, ports, relay },
    defaultDriver: config.sandboxDriver,
    diskFull: () => room.trouble() !== null,
    vetData: createVetting(config, store),
    isFromUs: createSenderCheck(config, store),
  });
  await runner.use(functions);
  const running = createDriving({ database, runner, ports, relay, sandboxes, warn: room.warn });
  const background = createBackgroundWork({ config, database, ports, warn: room.warn });
  const feed = createEventFeed(database.pool, options.warn);
  const app: App = {
    config,
    ports,
    tenant: ownTenant,
    forTenant: tenantViews(() => app, { database, warn: options.warn }),
    allTenants: ports,
    store,
    functions: functions.map((fn) => ({ id: fn.id(), name: fn.name })),
    async start(projectIds) {
      served = projectIds;
      watcher = await running.start(projectIds);
      await background.start(projectIds);
      // It is only a precaution: builds work without it.
      void room.reserve().catch((error: unknown) => room.warn(`cannot reserve disk space: ${messageOf(error)}`, error));
    },
    send: (...events) => takeEvents(ports, events),
    flush: () => relay.flush(),
    feed,
    measures: createMeasures(database, config),
    garbage: background.garbage,
    ping: async () => void (await database.pool.query("select")),
    inngestEndpoint: (origin) => runner.endpoint(functions, origin),
    reconcile: () => running.reconcile(),
    diskTrouble: () => room.trouble(),
    abandon: (projectId) => sandboxes.abandon(projectId),
    close: () =>
      closeInOrder([running.stop, sandboxes.close, background.stop, feed.close, ports.models.close, database.close]),
  };
  return app;
}

/** Closes each part even if the one before failed. */
const closeInOrder = (closers: readonly (() => Promise<unknown>)[]): Promise<void> =>
  closers.reduce<Promise<void>>((done, close) => done.finally(close), Promise.resolve());

function tellOf(events: readonly DomainEvent[], onEvent: AppOptions["onEvent"]): void {
  if (onEvent !== undefined) for (const event of events) onEvent(event);
}
