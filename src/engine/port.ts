import type { InngestFunction } from "inngest";

/** What the engine needs of Postgres; `pg.Pool` fits. */
export interface EngineDatabase {
  query(text: string, values?: unknown[]): Promise<{ rows: Record<string, unknown>[]; rowCount: number | null }>;
  connect(): Promise<EngineConnection>;
}
export interface EngineConnection {
  query(text: string, values?: unknown[]): Promise<{ rows: Record<string, unknown>[]; rowCount: number | null }>;
  release(error?: Error | boolean): void;
}

/** An event as the engine takes it; `id` is its dedupe key (W13). */
export interface EngineEvent {
  readonly name: string;
  readonly data: Record<string, unknown>;
  readonly id: string;
  readonly ts?: number;
}

export interface Engine {
  /** The `fetch` for the Inngest client: `POST /e/:key` and checkpoints are answered here, anything else is refused by name. */
  readonly fetch: typeof globalThis.fetch;
  /** Registers the functions, refusing by name what they configure and the engine does not support. */
  register(client: unknown, functions: readonly InngestFunction.Any[]): Promise<void>;
  /** Stores events and the runs they trigger, in one transaction. An id seen before triggers nothing. */
  send(events: readonly EngineEvent[]): Promise<void>;
  /** Starts claiming work of these partitions ("all": every one); events without a partition are anybody's. */
  start(partitions: "all" | ReadonlySet<string>): void;
  /** Stops claiming, waits for the calls under way up to `graceMs`, releases leases. */
  stop(graceMs?: number): Promise<void>;
  /** Resolves when nothing is due or running in the partitions served (timers in the future do not count). For tests. */
  idle(): Promise<void>;
}
