import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { Pool } from "pg";
import { type App, createApp } from "../../src/app.ts";
import { loadConfig } from "../../src/config.ts";
import { projectIdFor } from "../../src/coordinator/build/request/project.ts";
import type { Ports } from "../../src/coordinator/port.ts";
import type { EventName } from "../../src/domain/events/events.ts";
import { parsePlanValue } from "../../src/plan/parse-plan.ts";
import { ensureSandbox } from "../../src/sandbox-lifecycle/ensure-sandbox.ts";
import { expireSnapshots } from "../../src/sandbox-lifecycle/snapshots/expire-snapshots.ts";
import { restoreSnapshot } from "../../src/sandbox-lifecycle/snapshots/restore-snapshot.ts";
import { takeSnapshot } from "../../src/sandbox-lifecycle/snapshots/snapshots.ts";
import { removeSandbox, stopSandbox } from "../../src/sandbox-lifecycle/stop-sandbox.ts";
import { stopIdleSandboxes } from "../../src/sandbox-lifecycle/upkeep/idle-sandboxes.ts";
import { createSandboxReconciler } from "../../src/sandbox-lifecycle/upkeep/reconcile-sandboxes.ts";
import { checkSandboxes } from "../../src/sandbox-lifecycle/upkeep/sandbox-health.ts";
import type { BuildRow, SandboxRow } from "../../src/store/port.ts";
import { createDeath, say } from "./crash-death.ts";
import type { CrashInput } from "./crash-runs.ts";
import { killGuests } from "./kill-guests.ts";

// One process in the life of a sandbox: created, snapshotted, restored, lost, idle, expired,
// removed, its snapshots gone. It kills itself at the first crash point of those it is given. It
// learns what to do next only from the database, so that any process can take over from any other.
// Each one starts with the crons' work, half a day after the one before. Prints one JSON object per
// line.

const hour = 60 * 60_000;
const ttlMs = 100 * 24 * hour;
const snapshotKeepMs = 100 * ttlMs;
/** By the guest's clock, which no test changes. */
const idleMs = 200;

/** No part of the app reads the engine's rows. */
const database = new Pool({ connectionString: process.env.DATABASE_URL, max: 1 });

interface Life {
  readonly app: App;
  readonly ports: Ports;
  readonly projectId: string;
  pass(ms: number): void;
}

/** A stage of its life: whether it is over, and what ends it. */
interface Stretch {
  isOver(life: Life): Promise<boolean>;
  live(life: Life): Promise<unknown>;
}

async function main(input: CrashInput): Promise<void> {
  const { project, turn } = input;
  const { reach, fired } = createDeath(input);
  const app = await createApp({
    config: loadConfig(process.env),
    warn: (message) => say({ type: "warning", message }),
    crashPoint: reach,
  });
  const clock = join(app.config.dataDir, "clock");
  let passed = turn === 0 ? 0 : Number(readFileSync(clock, "utf8"));
  const ports: Ports = {
    ...app.ports,
    clock: { now: () => new Date(Date.now() + passed) },
    sandboxPolicy: { ...app.ports.sandboxPolicy, idleMs, ttlMs, snapshotKeepMs, snapshotWhenIdle: true },
  };
  const pass = (ms: number): void => {
    passed += ms;
    writeFileSync(clock, String(passed));
  };
  pass(12 * hour);
  const life = { app, ports, projectId: projectIdFor("default", project), pass };
  await doAsCronsDo(life);
  for (const stretch of stretches) if (!(await stretch.isOver(life))) await stretch.live(life);
  await doAsCronsDo(life);
  await app.close();
  await database.end();
  say({ type: "ended", status: "completed", reason: null, fired: fired() });
}

/** Crons repair what a dead process left. Afterwards nothing may be half done. */
async function doAsCronsDo({ ports, projectId }: Life): Promise<void> {
  await checkSandboxes(ports);
  await createSandboxReconciler(ports, []).reconcile();
  await expireSnapshots(ports);
  const rows = await ports.store.sandboxes.list({ projectId });
  for (const row of rows) {
    const found = await ports.driver(row.driver).find(projectId as never);
    const isSo = row.state === "running" ? found?.bootId === row.bootId : found === null || runsFor(rows, found.bootId);
    if (!isSo)
      throw new Error(`sandbox ${row.id} is ${row.state} (${row.reason}), but ${found?.bootId ?? "none"} runs`);
    if (row.state === "wanted") throw new Error(`sandbox ${row.id} is wanted by nobody`);
  }
  const snapshots = await ports.store.snapshots.list({});
  const half = snapshots.filter(({ state }) => state === "writing");
  if (half.length > 0) throw new Error(`snapshot ${half[0]!.id} is written by nobody`);
  const kept = snapshots.filter(({ state }) => state === "kept").map(({ id }) => id);
  const there = (await ports.snapshots.list()).map(({ snapshotId }) => snapshotId);
  if (kept.sort().join() !== there.sort().join()) throw new Error(`kept are ${kept}, but there are ${there}`);
}

const runsFor = (rows: readonly SandboxRow[], bootId: string): boolean =>
  rows.some((row) => row.state === "running" && row.bootId === bootId);

const wasSent = ({ ports }: Life, name: EventName, facts: Record<string, unknown> = {}): Promise<boolean> =>
  ports.store.outbox
    .list({ name })
    .then((rows) => rows.some(({ data }) => Object.entries(facts).every(([key, value]) => data[key] === value)));

const buildOf = ({ ports, projectId }: Life): Promise<BuildRow> => ports.store.builds.get({ projectId });
const start = async (life: Life) => (await ensureSandbox(life.ports, await buildOf(life))).guest;
const sandboxOf = async ({ ports, projectId }: Life): Promise<SandboxRow> =>
  (await ports.store.sandboxes.find({ projectId }, { by: "createdAt", descending: true }))!;

/** A file that says which of its lives a volume is in. */
const mark = "cache/mark";
const readMark = ({ app, projectId }: Life): string =>
  readFileSync(join(app.config.dataDir, "volumes", projectId, mark), "utf8");

const born: Stretch = {
  isOver: (life) => wasSent(life, "sandbox/started"),
  async live(life) {
    const { ports, projectId } = life;
    const { plan } = parsePlanValue({ name: "life", tasks: [{ id: "a", run: "true" }] }, { baseDir: null, env: {} });
    const tenantId = "ten_life";
    await ports.store.tenants.insertIfAbsent({ id: tenantId, name: "life" });
    await ports.store.projects.insertIfAbsent({ id: projectId, tenantId, name: "life" });
    const build = { id: "bld_life", tenantId, projectId, eventId: "life", plan: plan!, network: "none" } as const;
    const sandboxDriver = life.app.config.sandboxDriver;
    await ports.store.builds.insertIfAbsent({ ...build, status: "running", sandboxDriver });
    await start(life);
  },
};

const packed: Stretch = {
  isOver: async ({ ports }) =>
    (await ports.store.snapshots.find({ reason: "asked", state: ["kept", "removed"] })) !== null,
  async live(life) {
    await (await start(life)).writeFile(mark, "first");
    await takeSnapshot(life.ports, await sandboxOf(life), { reason: "asked" });
    await life.ports.store.builds.update({ projectId: life.projectId }, { status: "cancelled", endedAt: new Date() });
  },
};

const restored: Stretch = {
  isOver: (life) => wasSent(life, "sandbox/restored"),
  async live(life) {
    const { ports } = life;
    await ports.store.builds.update({ projectId: life.projectId }, { status: "cancelled", endedAt: new Date() });
    await (await start(life)).writeFile(mark, "second");
    await restoreSnapshot(ports, await ports.store.snapshots.get({ reason: "asked", state: "kept" }));
    if (readMark(life) !== "first") throw new Error(`the volume that was restored says ${readMark(life)}`);
  },
};

const lost: Stretch = {
  isOver: (life) => wasSent(life, "sandbox/lost"),
  async live(life) {
    const { ports, projectId } = life;
    await start(life);
    const { driver } = await sandboxOf(life);
    while ((await ports.driver(driver).find(projectId as never)) !== null) {
      killGuests(projectId);
      await pause(20);
    }
    await checkSandboxes(ports);
  },
};

const idle: Stretch = {
  isOver: (life) => wasSent(life, "sandbox/stopped", { reason: "idle" }),
  async live(life) {
    await (await start(life)).writeFile(mark, "third");
    life.pass(3 * hour);
    while ((await stopIdleSandboxes(life.ports)).stopped.length === 0) await pause(idleMs);
    if (readMark(life) !== "third") throw new Error(`the volume of a stopped sandbox says ${readMark(life)}`);
  },
};

const expired: Stretch = {
  isOver: async ({ ports }) => (await ports.store.sandboxes.find({ state: "removed", reason: "expired" })) !== null,
  async live(life) {
    life.pass(ttlMs + hour);
    await stopIdleSandboxes(life.ports);
    if (readMark(life) !== "third") throw new Error("a volume went with its sandbox");
  },
};

const removed: Stretch = {
  isOver: async ({ ports }) => (await ports.store.sandboxes.find({ state: "removed", reason: "asked" })) !== null,
  async live(life) {
    await start(life);
    await stopSandbox(life.ports, await sandboxOf(life));
    await start(life);
    await removeSandbox(life.ports, await sandboxOf(life), { volume: true });
  },
};

const forgotten: Stretch = {
  isOver: async ({ ports }) => (await ports.store.snapshots.find({ state: ["writing", "kept"] })) === null,
  async live(life) {
    life.pass(2 * snapshotKeepMs);
    await expireSnapshots(life.ports);
  },
};

/** The engine's crons follow its own clock, so this makes one due. */
const ticked: Stretch = {
  isOver: async () => (await cronRuns("status <> 'running'")) > 0,
  async live({ app }) {
    await app.start(new Set());
    while ((await cronRuns("true")) === 0) {
      await database.query(
        "update engine.crons set due_at = now() - interval '1 minute' where function_id like '%upkeep'",
      );
      await pause(50);
    }
    while ((await cronRuns("status = 'running'")) > 0) await pause(50);
  },
};

async function cronRuns(which: string): Promise<number> {
  const found = await database.query(`select from engine.runs where function_id like '%upkeep' and ${which}`);
  return found.rowCount ?? 0;
}

const stretches = [born, packed, restored, lost, idle, expired, removed, forgotten, ticked];

await main(JSON.parse(process.argv[2]!) as CrashInput);
