import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach } from "vitest";
import { type App, createApp } from "../../src/app.ts";
import { loadConfig } from "../../src/config.ts";
import { projectIdFor } from "../../src/coordinator/build/request/project.ts";
import { buildIdForEvent } from "../../src/domain/events/request-ids.ts";
import { previewPlaceOf } from "../../src/domain/sandbox/sandbox.ts";
import { isConnectionLost } from "../../src/store/connection/lost-connection.ts";
import type { BuildRow } from "../../src/store/port.ts";
import { testDatabase } from "./database.ts";
import { untilNextLook } from "./looks.ts";
import { requires } from "./require.ts";

const run = promisify(execFile);
const over = new Set(["completed", "failed", "cancelled", "waiting"]);

export interface BuildFixture {
  readonly app: App;
  readonly projectId: string;
  /** All warnings of the app. */
  readonly warnings: string[];
  /**
   * Requests a build of this plan (as a person writes it); resolves with its id once it is stored.
   */
  request(
    plan: Record<string, unknown>,
    options?: { eventId?: string; planFolder?: string; interactive?: boolean },
  ): Promise<string>;
  /** Requests a build of this brief; `said` adds fields to its event. */
  requestBrief(brief: string, said?: Record<string, unknown>): Promise<string>;
  /** Resolves with the build's row once `holds`, by default once it is over. */
  until(buildId: string, holds?: (build: BuildRow) => boolean | Promise<boolean>): Promise<BuildRow>;
  /** Builds a plan to its end. */
  build(plan: Record<string, unknown>): Promise<BuildRow>;
  /** Git in the authority repository. */
  git(...args: string[]): Promise<string>;
  tasks(buildId: string): Promise<Record<string, string>>;
  /** Cuts all of the app's connections to its database except the one it uses to do so. */
  cutConnections(): Promise<{ rowCount: number | null }>;
  close(): Promise<void>;
}

export interface FixtureOptions {
  readonly env?: Record<string, string>;
  readonly clock?: () => Date;
  readonly crashPoint?: (name: string) => void | Promise<void>;
  /** Default: the safest one that works on this machine. */
  readonly sandbox?: "local" | "local-unsafe" | "docker";
  /** Whether it drives every project's builds; by default only those of its own project. */
  readonly drivesAll?: boolean;
  /** How long a test waits for one thing; default 50 s. */
  readonly patienceMs?: number;
}

/**
 * Gives each test of the calling `describe` its own fixture. Calls are passed on to the fixture of
 * the running test, which is closed after `afterEach` hooks that were registered later.
 */
export function eachBuildFixture(options: FixtureOptions = {}): BuildFixture {
  let own: BuildFixture | null = null;
  beforeEach(async () => {
    own = await createBuildFixture(options);
  });
  afterEach(async () => {
    await own?.close();
    own = null;
  });
  const get = (_: BuildFixture, name: string | symbol): unknown => {
    if (own === null) throw new Error(`no test runs whose ${String(name)} this could be`);
    return Reflect.get(own, name);
  };
  return new Proxy({} as BuildFixture, { get });
}

/**
 * Opens a whole app on its own data directory, with the safest local sandbox that works on this
 * machine.
 */
export async function createBuildFixture(options: FixtureOptions = {}): Promise<BuildFixture> {
  const dataDir = await mkdtemp(join(tmpdir(), "wavesmith-build-"));
  const database = await testDatabase();
  const warnings: string[] = [];
  const sandbox = options.sandbox ?? (requires("bubblewrap") ? "local" : "local-unsafe");
  const app = await createApp({
    config: loadConfig({
      ...process.env,
      WAVESMITH_MODEL_PATIENCE: "1s",
      ...options.env,
      WAVESMITH_DATA: dataDir,
      DATABASE_URL: database.url,
      WAVESMITH_SANDBOX: sandbox,
    }),
    warn: (message) => warnings.push(message),
    ...(options.clock === undefined ? {} : { clock: options.clock }),
    ...(options.crashPoint === undefined ? {} : { crashPoint: options.crashPoint }),
  });
  const project = basename(dataDir);
  const projectId = projectIdFor("default", project);
  await app.start(options.drivesAll === true ? "all" : new Set([projectId]));
  let requests = 0;
  const poll = (holds: () => Promise<boolean>, what: string) => waitFor(holds, { what, warnings, ...options });
  const ask = async (said: Record<string, unknown>, eventId?: string): Promise<string> => {
    requests += 1;
    const id = eventId ?? `project/build.requested:${requests}:0`;
    await app.send({ name: "project/build.requested", id, data: { projectId, project, ...said } });
    const buildId = buildIdForEvent(id);
    await poll(async () => (await app.store.builds.find({ id: buildId })) !== null, `build ${buildId} to be stored`);
    return buildId;
  };
  const fixture: BuildFixture = {
    app,
    projectId,
    warnings,
    request: (plan, { eventId, ...said } = {}) => ask({ plan: { name: "fixture", ...plan }, ...said }, eventId),
    requestBrief: (brief, said = {}) => ask({ brief, ...said }),
    async until(buildId, holds = (build) => over.has(build.status)) {
      await poll(async () => holds(await app.store.builds.get({ id: buildId })), `build ${buildId}`);
      return app.store.builds.get({ id: buildId });
    },
    async build(plan) {
      return fixture.until(await fixture.request(plan));
    },
    async git(...args) {
      const repository = app.ports.workspace.repositoryPath(projectId as never);
      const { stdout } = await run("git", ["-C", repository, ...args], { maxBuffer: 64 * 1024 * 1024 });
      return stdout;
    },
    async tasks(buildId) {
      const rows = await app.store.tasks.list({ buildId }, { by: "position" });
      return Object.fromEntries(rows.map((task) => [task.key, task.status]));
    },
    cutConnections: () =>
      database.pool.query(
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()",
      ),
    async close() {
      await app.close();
      for (const place of [projectId, previewPlaceOf(projectId)])
        await app.ports.driver(sandbox).remove(place as never, { volume: true });
      await database.close();
      await rm(dataDir, { recursive: true, force: true, maxRetries: 5 });
    },
  };
  return fixture;
}

/** Waits until a condition holds. If a test hangs, reports the condition and the warnings. */
async function waitFor(
  holds: () => Promise<boolean>,
  { what, warnings, patienceMs = 50_000 }: { what: string; warnings: readonly string[]; patienceMs?: number },
): Promise<void> {
  const startedMs = Date.now();
  // A test may cut the very connections we look through; the next look gets a new one.
  const look = () => holds().catch((error: unknown) => (isConnectionLost(error) ? false : Promise.reject(error)));
  while (!(await look())) {
    const waitedMs = Date.now() - startedMs;
    if (waitedMs > patienceMs) throw new Error(`gave up waiting for ${what}; warnings:\n${warnings.join("\n")}`);
    await untilNextLook(waitedMs);
  }
}
