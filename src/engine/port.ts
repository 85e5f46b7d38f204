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
 * The Postgres access the engine needs. `pg.Pool` fits; it must allow at least three connections,
 * because the engine keeps one.
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

/** An event sent to the engine; `id` is its dedupe key (W13). */
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
   * The `fetch` for the Inngest client. It answers `POST /e/:key` and checkpoints, and rejects any
   * other request by name. It waits while the database is unreachable, so that a function does not
   * lose attempts over it.
   */
  readonly fetch: typeof globalThis.fetch;
  /** Registers the functions; throws for an option that the engine does not support. */
  register(client: Inngest.Any, functions: readonly InngestFunction.Any[]): Promise<void>;
  /**
   * Stores events and the runs they trigger, in one transaction. An event with a known id triggers
   * nothing. Rejects while the database is unreachable.
   */
  send(events: readonly EngineEvent[]): Promise<void>;
  /**
   * Starts claiming work of these partitions and work without one. A set is read again at every
   * claim.
   */
  start(partitions: "all" | ReadonlySet<string>): void;
  /** Stops claiming, waits up to `graceMs` (default 10 s) for running calls, releases leases. */
  stop(graceMs?: number): Promise<void>;
  /**
   * Resolves when nothing is due or running in the served partitions; future timers do not count.
   * For tests.
   */
  idle(): Promise<void>;
}
