import { Readable } from "node:stream";
import { loadConfig } from "../../src/config.ts";
import type { Ports } from "../../src/coordinator/port.ts";
import { createPreviewSandboxes } from "../../src/coordinator/preview/preview-sandboxes.ts";
import { messageOf, WavesmithError } from "../../src/domain/errors.ts";
import { randomIds } from "../../src/domain/ids.ts";
import type { MachineRoom, SandboxLimits, SandboxPolicy } from "../../src/domain/sandbox/sandbox.ts";
import { parsePlanValue } from "../../src/plan/parse-plan.ts";
import type {
  Enforcement,
  GuestClient,
  SandboxChange,
  SandboxDriver,
  SandboxEndpoint,
  SandboxInfo,
  SnapshotStore,
} from "../../src/sandbox/port.ts";
import { ensureSandbox } from "../../src/sandbox-lifecycle/ensure-sandbox.ts";
import { openDatabase } from "../../src/store/connection/connection.ts";
import type { BuildRow, SandboxRow } from "../../src/store/port.ts";
import { createStore } from "../../src/store/store.ts";
import { testDatabase } from "./database.ts";

// Sandboxes without processes, behind the drivers' port, with the real database, to test the
// decisions about their lifecycle.

/** A sandbox of the fake machine. */
export interface FakeSandbox {
  readonly projectId: string;
  sandboxId: string;
  bootId: string;
  state: "running" | "stopped";
  startedAt: string;
  outOfMemory: boolean;
  activeJobs: number;
  /** By the test's clock. */
  workedAt: number;
  isSilent: boolean;
}

/** The machine, which the drivers of several processes share. */
export interface FakeHost {
  readonly sandboxes: Map<string, FakeSandbox>;
  readonly volumes: Map<string, string>;
  /** The bytes each one takes; null if they cannot be counted in time. */
  readonly volumeBytes: Map<string, number | null>;
  /** Whether volumes are held to their limits. */
  disk: Enforcement;
  /** The events of a watch, which has failed if this throws. */
  watch: (signal: AbortSignal) => AsyncIterable<SandboxChange>;
  /** The calls made, such as `stop proj_a`. */
  readonly calls: string[];
  /** The limits that each sandbox was last requested with. */
  readonly limits: Map<string, SandboxLimits>;
  /** How many times a volume was measured. */
  counted: number;
  /** The size to which the last restore was limited. */
  restoredWithin: number | null;
  /** Awaited within each call that changes something, before it takes effect. */
  meanwhile: (call: string) => Promise<void> | void;
  mostRunning: number;
}

export interface Lifecycle {
  readonly host: FakeHost;
  readonly warnings: string[];
  /** The ports of one process; with `other`, those of a second one with its own connections. */
  ports(changes?: {
    policy?: Partial<SandboxPolicy> & { maxRunningPerTenant?: number };
    other?: boolean;
    snapshots?: SnapshotStore;
  }): Ports;
  room: { -readonly [Name in keyof MachineRoom]: MachineRoom[Name] };
  pass(ms: number): void;
  /** A running build of this project. */
  build(project: string, tenant?: string): Promise<BuildRow>;
  /** Starts its sandbox; returns the sandbox's row. */
  start(build: BuildRow): Promise<SandboxRow>;
  row(projectId: string): Promise<SandboxRow>;
  /** Names and reasons of the sandbox events, in order. */
  eventTexts(): Promise<string[]>;
  close(): Promise<void>;
}

export const minute = 60_000;
export const hour = 60 * minute;

export async function createLifecycle(): Promise<Lifecycle> {
  const database = await testDatabase();
  const second = await openDatabase({ dataDir: "", databaseUrl: database.url, applicationName: "second process" });
  let now = Date.now();
  const host: FakeHost = {
    sandboxes: new Map(),
    volumes: new Map(),
    volumeBytes: new Map(),
    disk: "watched",
    watch: () => {
      throw new Error("nobody watches here");
    },
    calls: [],
    limits: new Map(),
    counted: 0,
    restoredWithin: null,
    meanwhile: () => undefined,
    mostRunning: 0,
  };
  const warnings: string[] = [];
  const driver = createFakeDriver(host, () => now);
  const stores = { first: createStore(database.pool), second: createStore(second.pool) };
  const store = stores.first;
  const lifecycle: Lifecycle = {
    host,
    warnings,
    room: { memoryBytes: 64 * 1024 ** 3, diskBytes: 64 * 1024 ** 3 },
    ports: ({
      policy: { maxRunningPerTenant: sandboxes = 16, ...policy } = {},
      other = false,
      snapshots = memorySnapshots(),
    } = {}) => {
      const ports: Ports = {
        store: other ? stores.second : stores.first,
        driver: () => driver,
        snapshots,
        models: { listen: () => undefined },
        machine: { room: async () => lifecycle.room, boot: () => "boot" },
        sandboxPolicy: { ...loadConfig({}).sandboxPolicy, ...policy },
        tenantLimits: { builds: null, tasks: null, sandboxes, usd: null },
        taskSlots: null,
        seesAllTenants: true,
        previews: createPreviewSandboxes(() => ports),
        clock: { now: () => new Date(now) },
        ids: randomIds,
        processors: 8,
        memoryBytes: 64 * 1024 ** 3,
        wakeWatcher: () => undefined,
        log: { warn: (message: string) => warnings.push(message) },
      } as unknown as Ports;
      return ports;
    },
    pass: (ms) => {
      now += ms;
    },
    async build(project, tenant = "a") {
      const tenantId = `ten_${tenant}`;
      const projectId = `proj_${project}`;
      await store.tenants.insertIfAbsent({ id: tenantId, name: tenant });
      await store.projects.insertIfAbsent({ id: projectId, tenantId, name: project });
      const { plan } = parsePlanValue({ name: project, tasks: [{ id: "a", run: "true" }] }, { baseDir: null, env: {} });
      return store.builds.insert({
        id: `bld_${project}`,
        tenantId,
        projectId,
        eventId: `event ${project}`,
        status: "running",
        plan: plan!,
        sandboxDriver: "local",
        network: "none",
      });
    },
    async start(build) {
      await ensureSandbox(lifecycle.ports(), build);
      return lifecycle.row(build.projectId);
    },
    row: async (projectId) => (await store.sandboxes.find({ projectId }, { by: "createdAt", descending: true }))!,
    async eventTexts() {
      const rows = await store.outbox.list({}, { by: "seq" });
      return rows
        .filter(({ name }) => name.startsWith("sandbox/"))
        .map(({ name, data }) => (data.reason === undefined ? name : `${name}: ${String(data.reason)}`));
    },
    async close() {
      await second.close();
      await database.close();
    },
  };
  return lifecycle;
}

let boots = 0;

function createFakeDriver(host: FakeHost, now: () => number): SandboxDriver {
  const endpoint = (sandbox: FakeSandbox): SandboxEndpoint => ({
    sandboxId: sandbox.sandboxId as never,
    guest: guestOf(host, sandbox, now),
    workspaceRoot: "/workspace",
    bootId: sandbox.bootId,
    wall: { isolation: "none", runtime: null },
    modelSocket: "/nowhere/model.sock",
  });
  const call = async (what: string): Promise<void> => {
    await host.meanwhile(what);
    host.calls.push(what);
  };
  const running = () => [...host.sandboxes.values()].filter(({ state }) => state === "running");
  return {
    name: "local",
    check: async () => [],
    capabilities: async () => ({ archives: ["tar.zst", "tar.gz"], disk: host.disk }) as never,
    async ensure({ projectId, sandboxId, limits }) {
      host.limits.set(projectId, limits);
      const known = host.sandboxes.get(projectId);
      if (known?.state === "running") return endpoint(known);
      await call(`start ${projectId}`);
      const fresh: FakeSandbox = {
        projectId,
        sandboxId,
        bootId: `boot${++boots}`,
        state: "running",
        startedAt: new Date(now()).toISOString(),
        outOfMemory: false,
        activeJobs: 0,
        workedAt: now(),
        isSilent: false,
      };
      host.sandboxes.set(projectId, fresh);
      if (!host.volumes.has(projectId)) host.volumes.set(projectId, "");
      host.mostRunning = Math.max(host.mostRunning, running().length);
      return endpoint(fresh);
    },
    async find(projectId) {
      const known = host.sandboxes.get(projectId);
      return known?.state === "running" ? endpoint(known) : null;
    },
    list: async () => {
      const infos = [...host.sandboxes.values()].map((sandbox): SandboxInfo => ({ ...infoOf(host, sandbox) }));
      return infos;
    },
    usage: async () => null,
    async volumeBytes(projectId) {
      host.counted += 1;
      return host.volumeBytes.has(projectId) ? host.volumeBytes.get(projectId)! : 0;
    },
    async stop(projectId) {
      await call(`stop ${projectId}`);
      const known = host.sandboxes.get(projectId);
      if (known !== undefined) known.state = "stopped";
    },
    async remove(projectId, { volume }) {
      await call(`remove ${projectId}`);
      host.sandboxes.delete(projectId);
      if (volume) host.volumes.delete(projectId);
    },
    async pack(projectId) {
      await call(`pack ${projectId}`);
      return Readable.from([Buffer.from(host.volumes.get(projectId) ?? "")]);
    },
    async restore(projectId, archive, { maxBytes }) {
      host.restoredWithin = maxBytes;
      const parts: Buffer[] = [];
      for await (const part of archive) parts.push(part as Buffer);
      await call(`restore ${projectId}`);
      const known = host.sandboxes.get(projectId);
      if (known !== undefined) known.state = "stopped";
      host.volumes.set(projectId, Buffer.concat(parts).toString());
    },
    watch: (signal) => host.watch(signal),
  };
}

const infoOf = (host: FakeHost, { projectId, sandboxId, state, startedAt, outOfMemory }: FakeSandbox): SandboxInfo => ({
  projectId: projectId as never,
  sandboxId: sandboxId as never,
  state,
  startedAt: state === "running" ? startedAt : null,
  volumePath: host.volumes.has(projectId) ? `/volumes/${projectId}` : null,
  diskBytes: null,
  outOfMemory,
});

function guestOf(host: FakeHost, sandbox: FakeSandbox, now: () => number): GuestClient {
  const { bootId } = sandbox;
  const alive = (): void => {
    if (sandbox.isSilent) throw new Error("no answer");
    const { state } = sandbox;
    if (state === "running" && sandbox.bootId === bootId && host.sandboxes.get(sandbox.projectId) === sandbox) return;
    throw new WavesmithError("sandbox-unavailable", `sandbox ${sandbox.sandboxId} ended`, { retryable: true });
  };
  const guest: Pick<GuestClient, "health" | "startJob" | "remove"> = {
    remove: async (path) => void host.calls.push(`remove ${path} of ${sandbox.projectId}`),
    async health() {
      alive();
      const idleMs = sandbox.activeJobs > 0 ? 0 : now() - sandbox.workedAt;
      return { bootId, activeJobs: sandbox.activeJobs, idleMs } as never;
    },
    async startJob() {
      alive();
      sandbox.activeJobs += 1;
      sandbox.workedAt = now();
      return {} as never;
    },
  };
  return guest as GuestClient;
}

/** Stores snapshots in memory. */
export function memorySnapshots(): SnapshotStore & { readonly kept: Map<string, Buffer> } {
  const kept = new Map<string, Buffer>();
  return {
    kept,
    async put(snapshotId, _format, archive) {
      const parts: Buffer[] = [];
      for await (const part of archive) parts.push(part as Buffer);
      kept.set(snapshotId, Buffer.concat(parts));
      return { sizeBytes: kept.get(snapshotId)!.length, sha256: "right" };
    },
    async get(snapshotId) {
      const bytes = kept.get(snapshotId);
      if (bytes === undefined) throw new WavesmithError("not-found", `no snapshot ${snapshotId}`);
      return Readable.from([bytes]);
    },
    async remove(snapshotId) {
      kept.delete(snapshotId);
    },
    list: async () => [...kept].map(([snapshotId, { length }]) => ({ snapshotId, sizeBytes: length, isWhole: true })),
  };
}

/** Returns the error of a call that must fail. */
export async function failureOf(work: Promise<unknown>): Promise<WavesmithError> {
  const error = await work.then(
    () => null,
    (thrown: unknown) => thrown,
  );
  if (error instanceof WavesmithError) return error;
  throw new Error(`expected a WavesmithError: ${error === null ? "it did not fail" : messageOf(error)}`);
}
