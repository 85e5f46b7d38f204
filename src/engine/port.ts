import type { Inngest, InngestFunction } from "inngest";

export type EngineRow = Record<string, unknown>;
export interface EngineResult {
  readonly rows: EngineRow[];
  readonly rowCount: number | null;
}

/** A statement prepared once per connection under its name. */
export interface EngineStatement {
  readonly name: string;
  readonly text: string;
}

/**
 * What the engine needs of Postgres; `pg.Pool` fits, with room for at least three connections: one
 * stays taken.
 */
export interface EngineDatabase {
  query(statement: string | EngineStatement, values?: unknown[]): Promise<EngineResult>;
  connect(): Promise<EngineConnection>;
}
export interface EngineConnection {
  query(statement: string | EngineStatement, values?: unknown[]): Promise<EngineResult>;
  on(event: "error", listener: (error: Error) => void): unknown;
  on(event: "notification", listener: (message: { payload?: string | undefined }) => void): unknown;
  removeAllListeners(event: "notification"): unknown;
  removeListener(event: "error", listener: (error: Error) => void): unknown;
  release(error?: Error | boolean): void;
}

/** An event as the engine takes it; `id` is its dedupe key (W13). */
export interface EngineEvent {
  readonly name: string;
  readonly data: Record<string, unknown>;
  readonly id: string;
  /** When it happened, in ms since 1970; default now. */
  readonly ts?: number;
  /** The version of its schema. */
  readonly v?: string;
}

export interface Engine {
  /**
   * The `fetch` for the Inngest client: `POST /e/:key` and checkpoints are answered here, anything
   * else is refused by name. While the database is away it waits, so that a function's attempts are
   * not spent on that.
   */
  readonly fetch: typeof globalThis.fetch;
  /**
   * Registers the functions, refusing by name what they configure and the engine does not support.
   */
  register(client: Inngest.Any, functions: readonly InngestFunction.Any[]): Promise<void>;
  /**
   * Stores events and the runs they trigger, in one transaction. An id seen before triggers
   * nothing. Rejects while the database is away.
   */
  send(events: readonly EngineEvent[]): Promise<void>;
  /**
   * Starts claiming work of these partitions ("all": every one; a set is read at every claim);
   * events without a partition are anybody's.
   */
  start(partitions: "all" | ReadonlySet<string>): void;
  /**
   * Stops claiming, waits for the calls under way up to `graceMs` (default 10 s), releases leases.
   */
  stop(graceMs?: number): Promise<void>;
  /**
   * Resolves when nothing is due or running in the partitions served (timers in the future do not
   * count). For tests.
   */
  idle(): Promise<void>;
}
