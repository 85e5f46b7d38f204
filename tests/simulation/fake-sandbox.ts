import { posix } from "node:path";
import { WavesmithError } from "../../src/domain/errors.ts";
import type {
  DriverCapabilities,
  GuestClient,
  JobSpec,
  JobState,
  SandboxDriver,
  SnapshotStore,
  StageState,
} from "../../src/sandbox/port.ts";

// The sandboxes' port without processes: a job is a record that the simulation ends when it wants.
// A machine may die and come back, with or without its volume. Its running jobs are then lost, and
// earlier clients fail.

export interface FakeTree {
  readonly files: Map<string, string>;
  /** False for a folder that was only created because a job may write to it. */
  readonly isOpened: boolean;
}

export interface FakeVolume {
  readonly trees: Map<string, FakeTree>;
  readonly files: Map<string, string>;
  readonly jobs: Map<string, FakeJob>;
  repo: string | null;
  /** How many more times it is found above its limit. */
  overLimit: number;
}

export interface FakeJob {
  readonly spec: JobSpec;
  state: JobState;
}

export interface FakeMachine {
  readonly projectId: string;
  boot: number;
  isUp: boolean;
  volume: FakeVolume;
}

/** A client that knows its machine. */
export interface FakeGuest extends GuestClient {
  volume(): FakeVolume;
}

export type Machines = Map<string, FakeMachine>;

export const emptyVolume = (): FakeVolume => ({
  trees: new Map(),
  files: new Map(),
  jobs: new Map(),
  repo: null,
  overLimit: 0,
});

/** Loses its running jobs and, without its volume, everything on it. */
export function killMachine(machine: FakeMachine, { withVolume }: { withVolume: boolean }): void {
  machine.isUp = false;
  for (const job of machine.volume.jobs.values()) if (job.state.status === "running") endJob(job, "lost", null);
  if (withVolume) machine.volume = emptyVolume();
}

/**
 * Ends a job. The stages before `failing` passed, that one failed, and those after it never ran.
 * Null: none failed.
 */
export function endJob(job: FakeJob, status: JobState["status"], failing: number | null, reason = ""): void {
  const at = failing ?? (status === "passed" ? job.spec.stages.length : 0);
  const stages = job.state.stages.map((stage, index): StageState => {
    if (index < at) return { ...stage, status: "passed", exitCode: 0 };
    return index === failing ? { ...stage, status: "failed", exitCode: 1 } : { ...stage, status: "skipped" };
  });
  const cancelReason = status === "cancelled" ? reason : null;
  job.state = { ...job.state, status, stages, cancelReason, endedAt: "", revision: job.state.revision + 1 };
}

const not = (): never => {
  throw new Error("no simulation needs this");
};

const done = { exitCode: 0, signal: null, timedOut: false, truncated: false, stdout: "", stderr: "" };

export const noSnapshots: SnapshotStore = { put: not, get: not, remove: not, list: not };

const capabilities: DriverCapabilities = {
  isolation: "bubblewrap",
  cpu: "none",
  memory: "none",
  processes: "none",
  disk: "watched",
  network: [],
  archives: [],
};

export function createFakeDriver(machines: Machines, turn: (name: string) => Promise<void>): SandboxDriver {
  const endpoint = (machine: FakeMachine, sandboxId: string) => ({
    sandboxId: sandboxId as never,
    guest: createFakeGuest(machine, turn),
    workspaceRoot: "/workspace",
    bootId: `boot-${machine.boot}`,
    wall: { isolation: "none" as const, runtime: null },
    modelSocket: "/nowhere/model.sock",
  });
  return {
    name: "local",
    check: async () => [],
    async ensure({ projectId, sandboxId }) {
      await turn("driver.ensure");
      const machine = machines.get(projectId) ?? { projectId, boot: 0, isUp: false, volume: emptyVolume() };
      machines.set(projectId, machine);
      if (!machine.isUp) Object.assign(machine, { isUp: true, boot: machine.boot + 1 });
      return endpoint(machine, sandboxId);
    },
    async find(projectId) {
      const machine = machines.get(projectId);
      return machine?.isUp === true ? endpoint(machine, "sbx_found") : null;
    },
    list: async () => [],
    capabilities: async () => capabilities,
    usage: not,
    async volumeBytes(projectId) {
      await turn("driver.volumeBytes");
      const volume = machines.get(projectId)?.volume;
      if (volume === undefined || volume.overLimit === 0) return 0;
      volume.overLimit -= 1;
      return Number.MAX_SAFE_INTEGER;
    },
    pack: not,
    restore: not,
    watch: not,
    async stop(projectId) {
      await turn("driver.stop");
      const machine = machines.get(projectId);
      if (machine !== undefined) killMachine(machine, { withVolume: false });
    },
    async remove(projectId) {
      await turn("driver.remove");
      const machine = machines.get(projectId);
      if (machine !== undefined) killMachine(machine, { withVolume: true });
    },
  };
}

/** Trees, and the folders above them. */
const foldersOf = ({ trees }: FakeVolume): Set<string> =>
  new Set([...trees.keys()].flatMap((path) => [path, posix.dirname(path), posix.dirname(posix.dirname(path))]));

const folderAt = (path: string) => ({ path, type: "directory" as const, sizeBytes: 0, mode: 0o755, modifiedAt: "" });

function createFakeGuest(machine: FakeMachine, turn: (name: string) => Promise<void>): FakeGuest {
  const { boot } = machine;
  const volume = (): FakeVolume => {
    if (machine.isUp && machine.boot === boot) return machine.volume;
    throw new WavesmithError("sandbox-unavailable", `sandbox ${machine.projectId} died`, { retryable: true });
  };
  const doing = async (name: string): Promise<FakeVolume> => {
    await turn(`guest.${name}`);
    return volume();
  };
  return {
    volume,
    health: not,
    async readFile(path) {
      const { files, trees } = volume();
      if (path.endsWith("/.git/config") && trees.has(path.slice(0, -"/.git/config".length))) return Buffer.from("");
      const text = files.get(path);
      return text === undefined ? null : Buffer.from(text);
    },
    async writeFile(path, data) {
      (await doing(`writeFile ${path}`)).files.set(path, String(data));
    },
    async remove(path) {
      const { files } = await doing(`remove ${path}`);
      for (const file of files.keys()) if (file.startsWith(`${path}/`)) files.delete(file);
    },
    async stat(path) {
      const isThere = volume().files.has(path) || foldersOf(volume()).has(path);
      return isThere ? folderAt(path) : null;
    },
    async list(path) {
      const inside = (folder: string): boolean => posix.dirname(folder) === path;
      return [...foldersOf(volume())].filter(inside).sort().map(folderAt);
    },
    async startJob(key, spec) {
      const { jobs, trees } = await doing(`startJob ${key}`);
      const known = jobs.get(key);
      if (known !== undefined) return known.state;
      // A guest creates folders for the paths that a job may write.
      for (const path of spec.writable)
        if (path.startsWith("trees/") && !trees.has(path)) trees.set(path, { files: new Map(), isOpened: false });
      const job = { spec, state: firstState(key, spec) };
      jobs.set(key, job);
      return job.state;
    },
    findJob: async (key) => volume().jobs.get(key)?.state ?? null,
    listJobs: async () => [...volume().jobs.values()].map((job) => job.state),
    readOutput: async (_key, { offset }) => ({ data: Buffer.alloc(0), nextOffset: offset, ended: true }),
    writeStdin: not,
    async cancelJob(key, { reason }) {
      const { jobs } = await doing(`cancelJob ${key}`);
      const spec = { stages: [], writable: [], labels: {} };
      const job = jobs.get(key) ?? { spec, state: firstState(key, spec) };
      jobs.set(key, job);
      if (job.state.status === "running") endJob(job, "cancelled", null, reason);
      return job.state;
    },
    async forgetJob(key) {
      const { jobs } = await doing(`forgetJob ${key}`);
      if (jobs.get(key)?.state.status === "running") throw new WavesmithError("conflict", `job ${key} still runs`);
      jobs.delete(key);
    },
    // We ask only which agents' files are in a shared tree: none.
    exec: async () => ({ ...done, durationMs: 0 }),
    pack: not,
    unpack: not,
    allocatePorts: async (count) => Array.from({ length: count }, (_, index) => 4000 + index),
    tunnel: not,
    shutdown: not,
  };
}

const firstState = (key: string, spec: JobSpec): JobState => ({
  key,
  status: "running",
  revision: 1,
  stages: spec.stages.map(({ name }) => ({
    name,
    status: "pending",
    startedAt: null,
    endedAt: null,
    durationMs: 0,
    exitCode: null,
    signal: null,
    timedOut: false,
    outOfMemory: false,
    truncated: false,
    outputStart: null,
    outputEnd: null,
    error: null,
  })),
  createdAt: "",
  endedAt: null,
  cancelReason: null,
  outputBytes: 0,
  labels: spec.labels,
});
