import type { EngineCrashPoint } from "./crash-points.ts";
import type { EngineDatabase, EngineEvent } from "./port.ts";
import type { FunctionSpec } from "./registry.ts";

export interface EngineLogger {
  warn(message: string, details?: unknown): void;
  error(message: string, details?: unknown): void;
}

/** What the parts of one engine share. */
export interface EngineContext {
  readonly database: EngineDatabase;
  readonly nowMs: () => number;
  /** The id of this process in leases. */
  readonly holder: string;
  readonly leaseMs: number;
  readonly pollMs: number;
  readonly parallelism: number;
  readonly retentionMs: number;
  readonly retryDelaysMs: readonly number[];
  readonly partition: (event: EngineEvent) => string | null;
  readonly logger: EngineLogger;
  readonly crash: (point: EngineCrashPoint) => void | Promise<void>;
  /** By function id; throws before `register`. */
  readonly specs: () => ReadonlyMap<string, FunctionSpec>;
  /** False once the engine has stopped: waiting for the database has no point any more. */
  readonly goOn: () => boolean;
}
