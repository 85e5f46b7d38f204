import type { Duplex, Readable } from "node:stream";
import type { ProjectId, SandboxId } from "../domain/ids.ts";
import type { NetworkMode, NetworkPolicy } from "../domain/sandbox/network.ts";
import type { SandboxLimits, SandboxWall } from "../domain/sandbox/sandbox.ts";
import type {
  ArchiveFormat,
  ExecResult,
  ExecSpec,
  FileStat,
  GuestHealth,
  JobSpec,
  JobState,
} from "../guest/protocol.ts";

export type {
  ArchiveFormat,
  ExecResult,
  ExecSpec,
  FileStat,
  GuestHealth,
  JobSpec,
  JobState,
  StageSpec,
  StageState,
} from "../guest/protocol.ts";

interface JobWait {
  readonly revision: number;
  readonly offset?: number;
  readonly waitMs: number;
  readonly signal?: AbortSignal;
}

/**
 * A client of the guest in one running sandbox. It trusts no reply: each has a size cap, a deadline
 * and a schema check.
 */
export interface GuestClient {
  health(signal?: AbortSignal): Promise<GuestHealth>;
  /**
   * Reads a file; null when absent. Fails with `guest-refused` above `maxBytes` (default 16 MiB).
   */
  readFile(path: string, options?: { maxBytes?: number }): Promise<Buffer | null>;
  /** Writes a file atomically and creates its parents. `ifMatch: null`: it must not exist yet. */
  writeFile(path: string, data: Buffer | string, options?: { mode?: number; ifMatch?: string | null }): Promise<void>;
  remove(path: string, options?: { recursive?: boolean }): Promise<void>;
  stat(path: string): Promise<FileStat | null>;
  list(path: string): Promise<FileStat[]>;
  /** Starts the job, or returns the one that already has this key, ended or not. */
  startJob(key: string, spec: JobSpec): Promise<JobState>;
  /**
   * Returns a job's state; null when the guest has never seen the key. Waits up to `waitMs` for its
   * end, for a revision above `revision` or, if given, for output beyond `offset`.
   */
  findJob(key: string, wait?: JobWait): Promise<JobState | null>;
  listJobs(): Promise<JobState[]>;
  readOutput(
    key: string,
    options: { offset: number; limitBytes: number; waitMs?: number; signal?: AbortSignal },
  ): Promise<{
    data: Buffer;
    nextOffset: number;
    ended: boolean;
  }>;
  writeStdin(key: string, seq: number, data: Buffer | string, options?: { end?: boolean }): Promise<void>;
  /**
   * Resolves once nothing of the job is left. A key never seen is recorded as cancelled, so that it
   * never starts.
   */
  cancelJob(key: string, options: { reason: string; graceMs: number }): Promise<JobState>;
  forgetJob(key: string): Promise<void>;
  exec(spec: ExecSpec): Promise<ExecResult>;
  /** Returns a tar stream of the folder. */
  pack(path: string): Promise<Readable>;
  /** Unpacks a tar stream into the folder, inside the sandbox. */
  unpack(path: string, tar: Readable): Promise<void>;
  allocatePorts(count: number): Promise<number[]>;
  /** Opens a raw connection to a TCP port inside the sandbox. */
  tunnel(port: number): Promise<Duplex>;
  shutdown(): Promise<void>;
}

export interface SandboxSpec {
  readonly projectId: ProjectId;
  readonly sandboxId: SandboxId;
  /** The installation and tenant it belongs to, which label what the driver creates. */
  readonly tenantId: string;
  readonly network: NetworkPolicy;
  readonly limits: SandboxLimits;
}

export interface SandboxEndpoint {
  readonly sandboxId: SandboxId;
  readonly guest: GuestClient;
  /** Where the volume is for programs inside the sandbox, without a trailing slash. */
  readonly workspaceRoot: string;
  readonly bootId: string;
  /** How its jobs are isolated from each other. */
  readonly wall: SandboxWall;
  /** The socket on this host that receives what programs inside send to $WAVESMITH_MODEL_URL. */
  readonly modelSocket: string;
}

export interface SandboxInfo {
  readonly projectId: ProjectId;
  /** Null when it was removed. */
  readonly sandboxId: SandboxId | null;
  /** `removed`: only its volume is left. */
  readonly state: "running" | "stopped" | "removed";
  readonly startedAt: string | null;
  /** A folder of this machine, or the volume's name with its driver; null when there is none. */
  readonly volumePath: string | null;
  readonly diskBytes: number | null;
  /** When the size was counted, if not just now. */
  readonly diskCountedAt?: string | null;
  /** Whether a stopped sandbox ended because it ran out of memory. */
  readonly outOfMemory: boolean;
}

/** The resources a running sandbox uses now; null where the driver cannot tell. */
export interface SandboxUsage {
  /** Processors in use, averaged over about a second. */
  readonly cpus: number | null;
  readonly memoryBytes: number | null;
  readonly processes: number | null;
  readonly diskBytes: number | null;
}

/** How a driver enforces a sandbox's limits: by the kernel, by checking now and then, or not. */
export type Enforcement = "hard" | "watched" | "none";

/** The guarantees a driver gives on this machine. Commands report the missing ones. */
export interface DriverCapabilities {
  readonly isolation: "container" | "bubblewrap" | "none";
  readonly cpu: Enforcement;
  readonly memory: Enforcement;
  readonly processes: Enforcement;
  readonly disk: Enforcement;
  /** The network policies that are enforced. */
  readonly network: readonly NetworkMode[];
  /** The archive formats that work here, the best first. */
  readonly archives: readonly ArchiveFormat[];
}

/** A change to a sandbox that we did not make. */
export interface SandboxChange {
  readonly projectId: ProjectId;
  readonly sandboxId: SandboxId;
  readonly change: "started" | "ended" | "out-of-memory" | "removed";
}

/** Why a driver does not work on this machine; `remedy` is the command to type. */
export interface DriverProblem {
  readonly what: string;
  readonly remedy: string;
  /**
   * Set if the machine is at fault and not the driver, so that no other driver would work either.
   */
  readonly lacks?: "git" | "disk";
}

export interface SandboxDriver {
  readonly name: string;
  /** Tries the driver by starting something; empty when it works here. */
  check(): Promise<DriverProblem[]>;
  capabilities(): Promise<DriverCapabilities>;
  /**
   * Returns the project's running sandbox, starting or creating it if needed. Replaces a sandbox
   * that does not answer, and keeps its volume. Safe to call from many processes at once.
   */
  ensure(spec: SandboxSpec): Promise<SandboxEndpoint>;
  /** Returns the project's running sandbox, or null; starts nothing. */
  find(projectId: ProjectId): Promise<SandboxEndpoint | null>;
  list(): Promise<SandboxInfo[]>;
  /** Measures for about a second, so do not use it as a heartbeat. Null when it does not run. */
  usage(projectId: ProjectId): Promise<SandboxUsage | null>;
  /**
   * The size that counts against the volume's limit: its size on disk, or the sum of its files'
   * sizes if that is larger, as with sparse files. Null if counting takes too long, or the sandbox
   * is not running and cannot count.
   */
  volumeBytes(projectId: ProjectId, limitMs: number): Promise<number | null>;
  /**
   * Stops the sandbox and keeps its volume; resolves once all of its processes are gone. Safe to
   * call twice.
   */
  stop(projectId: ProjectId): Promise<void>;
  /** Stops, then removes the sandbox, and its volume when asked. Safe to call twice. */
  remove(projectId: ProjectId, options: { volume: boolean }): Promise<void>;
  /**
   * Returns the volume as an archive, without the guest's own records of jobs. Works on a running
   * or stopped sandbox. If the stream fails, the archive is incomplete.
   */
  pack(projectId: ProjectId, format: ArchiveFormat): Promise<Readable>;
  /**
   * Stops the sandbox and replaces its volume with an unpacked archive. Unpacking is isolated like
   * the sandbox. Fails with `archive` and changes nothing if the archive is broken, has links that
   * lead out, paths with `..` or devices, or is larger than `maxBytes` when unpacked.
   */
  restore(projectId: ProjectId, archive: Readable, how: { format: ArchiveFormat; maxBytes: number }): Promise<void>;
  /**
   * Reports changes to this installation's sandboxes until the signal aborts. It may miss some, so
   * treat them as hints to check.
   */
  watch(signal: AbortSignal): AsyncIterable<SandboxChange>;
}

/** The hosts that programs in sandboxes could not reach. */
export interface EgressDenials {
  /**
   * Returns the hosts that were denied since then and that a plan could allow, as a plan names
   * them, the most requested first.
   */
  denied(projectId: ProjectId, since: Date): Promise<readonly string[]>;
  /** Returns the allowed hosts that could not be reached since then, each with the reason. */
  unreachable(projectId: ProjectId, since: Date): Promise<readonly string[]>;
}

/** Storage for snapshots of volumes. */
export interface SnapshotStore {
  /** Stores the stream under this id, completely or not at all; `sha256` is of the stored bytes. */
  put(snapshotId: string, format: ArchiveFormat, archive: Readable): Promise<{ sizeBytes: number; sha256: string }>;
  /** Returns the stored bytes; the stream fails at its end if their checksum differs. */
  get(snapshotId: string, format: ArchiveFormat, sha256: string): Promise<Readable>;
  /** Safe to call twice. */
  remove(snapshotId: string): Promise<void>;
  /** Lists every snapshot, complete or not. */
  list(): Promise<{ snapshotId: string; sizeBytes: number; isWhole: boolean }[]>;
}

/** Facts about every sandbox of a driver, known before the driver is loaded. */
export interface DriverTraits {
  /**
   * `host`: programs and memory are this machine's. `engine`: they come from an engine's images,
   * and each sandbox has its own memory limit.
   */
  readonly machine: "host" | "engine";
  /**
   * The units that are isolated from each other: the jobs of a sandbox, whole sandboxes, or
   * nothing.
   */
  readonly isolation: "jobs" | "sandboxes" | "none";
}
