import type { ProjectId } from "../ids.ts";

/** The share of the machine that one sandbox may use. */
export interface SandboxLimits {
  /** Processors; 0.5 is half of one. */
  readonly cpus: number;
  readonly memoryBytes: number;
  readonly processes: number;
  readonly diskBytes: number;
}

/** How the jobs of a running sandbox are isolated from each other. */
export interface SandboxWall {
  /** `users`: each job has its own user in a container. `none`: no isolation. */
  readonly isolation: "bubblewrap" | "users" | "none";
  /** The engine's runtime for the container, if the settings name one; otherwise null. */
  readonly runtime: string | null;
}

/** Describes a wall in a few words, as `status`, `sandbox ls` and `doctor` show it. */
export function describeWall({ isolation, runtime }: SandboxWall): string {
  if (isolation === "bubblewrap") return "bubblewrap for each job";
  if (isolation === "none") return "no wall";
  return `container${runtime === null ? "" : ` under ${runtime}`}, a user for each job`;
}

/**
 * `wanted`: intended, not started yet; `lost`: it disappeared while running; `removed`: the row is
 * kept as a record.
 */
export const sandboxStates = ["wanted", "running", "stopped", "lost", "removed"] as const;
export type SandboxState = (typeof sandboxStates)[number];

export const snapshotStates = ["writing", "kept", "failed", "removed"] as const;
export type SnapshotState = (typeof snapshotStates)[number];

/** When sandboxes start, stop and are removed; null: no limit. */
export interface SandboxPolicy {
  /** Limits of each sandbox, from its next start. */
  readonly limits: SandboxLimits;
  /** An idle sandbox is stopped after this time; its volume is kept. */
  readonly idleMs: number | null;
  /** A sandbox older than this is removed once it is idle; its volume is kept. */
  readonly ttlMs: number | null;
  /** Whether to take a snapshot before stopping an idle sandbox. */
  readonly snapshotWhenIdle: boolean;
  readonly snapshotKeepMs: number;
  /** A preview without requests for this time is put to sleep. */
  readonly previewTtlMs: number | null;
  /** How many processors may be promised per real processor. */
  readonly cpuOvercommit: number;
  /** Memory and disk to keep free: a sandbox that would use it is not started. */
  readonly reserveMemoryBytes: number;
  readonly reserveDiskBytes: number;
}

/** The memory and disk that the machine has free now. */
export interface MachineRoom {
  readonly memoryBytes: number;
  readonly diskBytes: number;
}

/** The advice for a build that waits for a sandbox slot. */
export const roomRemedy =
  "it starts by itself when another build ends or waits; to start it sooner, cancel one, free memory or disk, or raise WAVESMITH_SANDBOX_MAX or WAVESMITH_SANDBOX_OVERCOMMIT";

/** Returns the id under which drivers know a project's preview sandbox. */
export const previewPlaceOf = (projectId: string): ProjectId => `${projectId}-preview` as ProjectId;
export const isPreviewPlace = (projectId: string): boolean => projectId.endsWith("-preview");
