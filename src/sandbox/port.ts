import type { Duplex, Readable } from "node:stream";
import type { ProjectId, SandboxId } from "../domain/ids.ts";
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

/** What every driver gives: a client of the guest in one running sandbox. Every reply is untrusted: size caps, deadlines, schema checks. */
export interface GuestClient {
  health(signal?: AbortSignal): Promise<GuestHealth>;
  /** Reads a file; null when absent. Fails with `guest-protocol` above `maxBytes` (default 16 MiB). */
  readFile(path: string, options?: { maxBytes?: number }): Promise<Buffer | null>;
  /** Writes atomically, making parents. `ifMatch: null` means "must not exist". */
  writeFile(path: string, data: Buffer | string, options?: { mode?: number; ifMatch?: string | null }): Promise<void>;
  remove(path: string, options?: { recursive?: boolean }): Promise<void>;
  stat(path: string): Promise<FileStat | null>;
  list(path: string): Promise<FileStat[]>;
  /** Starts the job, or returns the one that already has this key, ended or not. */
  startJob(key: string, spec: JobSpec): Promise<JobState>;
  /** Null when the guest has never seen the key. Waits up to `waitMs` for a revision above `revision`. */
  findJob(key: string, wait?: { revision: number; waitMs: number; signal?: AbortSignal }): Promise<JobState | null>;
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
  /** Resolves once nothing of the job is left. A key never seen is recorded as cancelled, so that it never starts. */
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

export type Network = "none" | "open";

export interface SandboxSpec {
  readonly projectId: ProjectId;
  readonly sandboxId: SandboxId;
  readonly network: Network;
}

export interface SandboxEndpoint {
  readonly sandboxId: SandboxId;
  readonly guest: GuestClient;
  /** Where the volume is for programs inside the sandbox, without a trailing slash. */
  readonly workspaceRoot: string;
  readonly bootId: string;
}

export interface SandboxInfo {
  readonly projectId: ProjectId;
  /** Null when it was removed. */
  readonly sandboxId: SandboxId | null;
  /** `removed`: only its volume is left. */
  readonly state: "running" | "stopped" | "removed";
  readonly startedAt: string | null;
  readonly volumePath: string | null;
  readonly diskBytes: number | null;
}

/** Why a driver cannot work on this machine; `remedy` is what to type. */
export interface DriverProblem {
  readonly what: string;
  readonly remedy: string;
  /** What of the machine is at fault rather than the driver: another driver would lack it too. */
  readonly lacks?: "git" | "disk";
}

export interface SandboxDriver {
  readonly name: "local" | "local-unsafe";
  /** Tries the driver for real (not only whether files exist); empty when it works here. */
  check(): Promise<DriverProblem[]>;
  /** Returns the running sandbox of this project, starting or creating it first if need be. Safe to call from many processes at once. */
  ensure(spec: SandboxSpec): Promise<SandboxEndpoint>;
  /** The running sandbox of this project, else null; starts nothing. */
  find(projectId: ProjectId): Promise<SandboxEndpoint | null>;
  list(): Promise<SandboxInfo[]>;
  /** Stops compute and keeps the volume; over when every process of it is confirmed gone. Safe to call twice. */
  stop(projectId: ProjectId): Promise<void>;
  /** Stops, then removes the sandbox, and its volume when asked. Safe to call twice. */
  remove(projectId: ProjectId, options: { volume: boolean }): Promise<void>;
}
