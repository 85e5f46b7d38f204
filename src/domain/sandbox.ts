/** What one sandbox may use of the machine. */
export interface SandboxLimits {
  /** Processors; 0.5 is half of one. */
  readonly cpus: number;
  readonly memoryBytes: number;
  readonly processes: number;
  readonly diskBytes: number;
}

/**
 * `wanted`: intended, not started yet; `lost`: it ran and is gone; `removed`: kept for the record.
 */
export const sandboxStates = ["wanted", "running", "stopped", "lost", "removed"] as const;
export type SandboxState = (typeof sandboxStates)[number];

export const snapshotStates = ["writing", "kept", "failed", "removed"] as const;
export type SnapshotState = (typeof snapshotStates)[number];

/** When sandboxes are stopped, removed and started; what of it nobody limits is null. */
export interface SandboxPolicy {
  /** Of each sandbox, from its next start on. */
  readonly limits: SandboxLimits;
  /** One in which nothing has been at work for so long is stopped, its volume kept. */
  readonly idleMs: number | null;
  /** One older than this is removed once it is idle, its volume kept. */
  readonly ttlMs: number | null;
  /** Whether a snapshot is taken before one is stopped for being idle. */
  readonly snapshotWhenIdle: boolean;
  readonly snapshotKeepMs: number;
  /** A preview that nobody has asked for during this time is put to sleep. */
  readonly previewTtlMs: number | null;
  readonly maxRunningPerTenant: number | null;
  /** How much processor time may be promised for each processor there is. */
  readonly cpuOvercommit: number;
  /** What of the machine's memory and disk no further sandbox is started into. */
  readonly reserveMemoryBytes: number;
  readonly reserveDiskBytes: number;
}

/** What the machine has left now. */
export interface MachineRoom {
  readonly memoryBytes: number;
  readonly diskBytes: number;
}

/** What a person can do for a build that waits for room for its sandbox. */
export const roomRemedy =
  "it starts by itself as soon as another build ends or waits; sooner: cancel one, free memory or disk, or raise WAVESMITH_SANDBOX_MAX or WAVESMITH_SANDBOX_OVERCOMMIT";
