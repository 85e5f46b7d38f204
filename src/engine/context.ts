import type { EngineCrashPoint } from "./crash-points.ts";
import type { EngineDatabase, EngineEvent } from "./port.ts";
import type { FunctionSpec } from "./registration/registry.ts";

export interface EngineLogger {
  warn(message: string, details?: unknown): void;
  error(message: string, details?: unknown): void;
}

/** State and settings that the parts of one engine share. */
export interface EngineContext {
  readonly database: EngineDatabase;
  readonly nowMs: () => number;
  /** This process's id in leases. */
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
  /** False once the engine has stopped, so that nothing waits for the database any longer. */
  readonly goOn: () => boolean;
}
