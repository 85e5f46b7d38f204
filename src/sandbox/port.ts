import type { Duplex, Readable } from "node:stream";
import type { ProjectId, SandboxId } from "../domain/ids.ts";
import type { NetworkMode, NetworkPolicy } from "../domain/network.ts";
import type { SandboxLimits } from "../domain/sandbox.ts";
import type { ExecResult, ExecSpec, FileStat, GuestHealth, JobSpec, JobState } from "../guest/protocol.ts";

export type {
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
 * What every driver gives: a client of the guest in one running sandbox. Every reply is untrusted:
 * size caps, deadlines, schema checks.
 */
export interface GuestClient {
  health(signal?: AbortSignal): Promise<GuestHealth>;
  /**
   * Reads a file; null when absent. Fails with `guest-refused` above `maxBytes` (default 16 MiB).
   */
  readFile(path: string, options?: { maxBytes?: number }): Promise<Buffer | null>;
  /** Writes atomically, making parents. `ifMatch: null` means "must not exist". */
  writeFile(path: string, data: Buffer | string, options?: { mode?: number; ifMatch?: string | null }): Promise<void>;
  remove(path: string, options?: { recursive?: boolean }): Promise<void>;
  stat(path: string): Promise<FileStat | null>;
  list(path: string): Promise<FileStat[]>;
  /** Starts the job, or returns the one that already has this key, ended or not. */
  startJob(key: string, spec: JobSpec): Promise<JobState>;
  /**
   * Null when the guest has never seen the key. Waits up to `waitMs` for its end, for a revision
   * above `revision` and, if given, for output beyond `offset`.
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
  /** A tar stream of the folder. */
  pack(path: string): Promise<Readable>;
  /** Unpacks a tar stream into the folder, inside the sandbox. */
  unpack(path: string, tar: Readable): Promise<void>;
  allocatePorts(count: number): Promise<number[]>;
  /** A raw connection to a TCP port inside the sandbox. */
  tunnel(port: number): Promise<Duplex>;
  shutdown(): Promise<void>;
}

export interface SandboxSpec {
  readonly projectId: ProjectId;
  readonly sandboxId: SandboxId;
  /** Whom it belongs to; a label of what is made. */
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
  /**
   * A socket on this host, made by whoever answers: what programs inside send to
   * $WAVESMITH_MODEL_URL arrives there.
   */
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
  /** When that was counted, if not just now. */
  readonly diskCountedAt?: string | null;
  /** Whether a sandbox that is not running ended because its memory was used up. */
  readonly outOfMemory: boolean;
}

/** What a running sandbox uses now; null where the driver cannot tell. */
export interface SandboxUsage {
  /** Processors in use, averaged over about a second. */
  readonly cpus: number | null;
  readonly memoryBytes: number | null;
  readonly processes: number | null;
  readonly diskBytes: number | null;
}

/**
 * How far a driver keeps what a sandbox is limited to: by the kernel, by looking now and then, or
 * not.
 */
export type Enforcement = "hard" | "watched" | "none";

/**
 * What a driver can promise on this machine; what it cannot is said where it matters, never passed
 * over.
 */
export interface DriverCapabilities {
  readonly isolation: "container" | "bubblewrap" | "none";
  readonly cpu: Enforcement;
  readonly memory: Enforcement;
  readonly processes: Enforcement;
  readonly disk: Enforcement;
  /** The network policies that are enforced. */
  readonly network: readonly NetworkMode[];
  /** How volumes can be packed here, the best first. */
  readonly archives: readonly ArchiveFormat[];
}

/** What befell a sandbox without our doing. */
export interface SandboxChange {
  readonly projectId: ProjectId;
  readonly sandboxId: SandboxId;
  readonly change: "started" | "ended" | "out-of-memory" | "removed";
}

/** How a volume is packed: tar with zstd, or with gzip. */
export type ArchiveFormat = "tar.zst" | "tar.gz";

/** Why a driver cannot work on this machine; `remedy` is what to type. */
export interface DriverProblem {
  readonly what: string;
  readonly remedy: string;
  /** What of the machine is at fault rather than the driver: another driver would lack it too. */
  readonly lacks?: "git" | "disk";
}

export interface SandboxDriver {
  readonly name: string;
  /** Tries the driver for real (not only whether files exist); empty when it works here. */
  check(): Promise<DriverProblem[]>;
  capabilities(): Promise<DriverCapabilities>;
  /**
   * Returns the running sandbox of this project, starting or creating it first if need be; one that
   * does not answer is replaced, its volume kept. Safe to call from many processes at once.
   */
  ensure(spec: SandboxSpec): Promise<SandboxEndpoint>;
  /** The running sandbox of this project, else null; starts nothing. */
  find(projectId: ProjectId): Promise<SandboxEndpoint | null>;
  list(): Promise<SandboxInfo[]>;
  /** Takes about a second: never a heartbeat. Null when it does not run. */
  usage(projectId: ProjectId): Promise<SandboxUsage | null>;
  /**
   * What the volume takes on disk; null when counting takes longer, or cannot be done because the
   * sandbox is not running.
   */
  volumeBytes(projectId: ProjectId, limitMs: number): Promise<number | null>;
  /**
   * Stops compute and keeps the volume; over when every process of it is confirmed gone. Safe to
   * call twice.
   */
  stop(projectId: ProjectId): Promise<void>;
  /** Stops, then removes the sandbox, and its volume when asked. Safe to call twice. */
  remove(projectId: ProjectId, options: { volume: boolean }): Promise<void>;
  /**
   * The volume as an archive, from a running or a stopped sandbox, without what the guest keeps of
   * its jobs. An error of the stream means that the archive is not whole.
   */
  pack(projectId: ProjectId, format: ArchiveFormat): Promise<Readable>;
  /**
   * Unpacks an archive into a new volume, inside the sandbox's isolation, and puts it in the old
   * one's place, which is removed; the sandbox is stopped. Fails with `archive` and changes nothing
   * when the archive is broken, or has links that lead out, paths with `..`, or devices, or unpacks
   * to more than `maxBytes`.
   */
  restore(projectId: ProjectId, archive: Readable, how: { format: ArchiveFormat; maxBytes: number }): Promise<void>;
  /**
   * What happens to sandboxes of this installation from now on, until the signal; may miss some: a
   * hint to look.
   */
  watch(signal: AbortSignal): AsyncIterable<SandboxChange>;
}

/** What the programs in sandboxes were not let to. */
export interface EgressDenials {
  /**
   * Hosts that a plan could allow and that were denied since then, the most often asked for first,
   * as a plan writes them.
   */
  denied(projectId: ProjectId, since: Date): Promise<readonly string[]>;
  /** Hosts that were allowed and to which there was no connection since then, each with why. */
  unreachable(projectId: ProjectId, since: Date): Promise<readonly string[]>;
}

/** Where snapshots of volumes are kept. */
export interface SnapshotStore {
  /** Keeps the stream under this id, whole or not at all; `sha256` is of the bytes kept. */
  put(snapshotId: string, format: ArchiveFormat, archive: Readable): Promise<{ sizeBytes: number; sha256: string }>;
  /**
   * The bytes kept, failing at their end when their checksum is not this. Fails with `not-found`.
   */
  get(snapshotId: string, format: ArchiveFormat, sha256: string): Promise<Readable>;
  /** Safe to call twice. */
  remove(snapshotId: string): Promise<void>;
  /** Everything there is, whole or begun. */
  list(): Promise<{ snapshotId: string; sizeBytes: number; isWhole: boolean }[]>;
}
