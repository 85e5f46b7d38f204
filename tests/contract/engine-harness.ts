import type { Inngest, InngestFunction } from "inngest";
import type { Pool, PoolClient } from "pg";
import { createEngine, type EngineOptions } from "../../src/engine/engine.ts";
import type { Engine, EngineConnection, EngineDatabase, EngineStatement } from "../../src/engine/port.ts";
import { createEngineClient } from "../../src/engine/sdk/client.ts";

const ignore = () => undefined;
const silent = { info: ignore, warn: ignore, error: ignore, debug: ignore };

export interface World {
  readonly engine: Engine;
  readonly client: Inngest.Any;
}

/** Creates an engine with functions; it is not started. */
export async function engineWith(
  database: EngineDatabase,
  functions: (client: Inngest) => InngestFunction.Any[],
  options: Partial<EngineOptions> = {},
): Promise<World> {
  const engine = createEngine({
    database,
    partition: () => null,
    retryDelaysMs: [0],
    pollMs: 50,
    logger: silent,
    ...options,
  });
  const client = createEngineClient({ id: "app", fetch: engine.fetch, logger: silent });
  await engine.register(client, functions(client));
  return { engine, client };
}

export interface MortalDatabase extends EngineDatabase {
  /**
   * Ends everything this handle has, as the death of its process would: its sessions end, and
   * running calls never return.
   */
  die(): void;
}

/** Creates a handle on a database that can be cut off, to end an engine without its cooperation. */
export function mortal(pool: Pool): MortalDatabase {
  let dead = false;
  const clients = new Set<PoolClient>();
  const never = () => new Promise<never>(() => undefined);
  const alive = async <Result>(work: () => Promise<Result>): Promise<Result> => {
    if (dead) throw Object.assign(new Error("cut off"), { code: "ECONNREFUSED" });
    try {
      return await work();
    } finally {
      if (dead) await never();
    }
  };
  return {
    query: (statement: string | EngineStatement, values?: unknown[]) => alive(() => pool.query(statement, values)),
    connect: () =>
      alive(async () => {
        const client = await pool.connect();
        if (dead) client.release(true);
        clients.add(client);
        return connectionOf(client, alive, () => !dead && clients.delete(client));
      }),
    die() {
      dead = true;
      for (const client of clients) client.release(true);
      clients.clear();
    },
  };
}

type Alive = <Result>(work: () => Promise<Result>) => Promise<Result>;

function connectionOf(client: PoolClient, alive: Alive, give: () => boolean): EngineConnection {
  return {
    query: (statement: string | EngineStatement, values?: unknown[]) => alive(() => client.query(statement, values)),
    on: (event: "error" | "notification", listener: (argument: never) => void) =>
      client.on(event as never, listener as never),
    removeAllListeners: (event) => client.removeAllListeners(event),
    removeListener: (event, listener) => client.removeListener(event, listener),
    release: (error) => {
      if (give()) client.release(error);
    },
  };
}

/** Waits until a condition holds, at most 20 s. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + 20_000;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`never came true: ${condition}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

const deadlockDetected = "40P01";

/**
 * An engine that had no time to stop may be in the middle of a transaction; if two of them wait for
 * each other, one is refused.
 */
export async function emptyEngine(pool: Pool): Promise<void> {
  await until(async () => {
    try {
      await pool.query("TRUNCATE engine.events, engine.runs, engine.crons CASCADE");
      return true;
    } catch (error) {
      if ((error as { code?: string }).code === deadlockDetected) return false;
      throw error;
    }
  });
}

/** A promise and its resolver. */
export function gate(): { readonly opened: Promise<void>; open: () => void } {
  let open: () => void = ignore;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}
