import { setTimeout as delay } from "node:timers/promises";
import type { Pool, PoolClient } from "pg";

const regainMs = 1_000;

/** A connection that is kept open for the lock it holds. */
export interface HeldSession {
  /** Returns the connection; null while it is lost. */
  connection(): PoolClient | null;
  /** Frees the lock. Safe to call twice. */
  end(): Promise<void>;
}

/**
 * Holds an advisory lock in its own session until `end`. If the database is lost, the lock is taken
 * again once it is back. Until then others see no holder, which fences make safe.
 */
export async function holdSession(pool: Pool, lock: { text: string; values: unknown[] }): Promise<HeldSession> {
  let held: PoolClient | null = null;
  let isEnding = false;
  const hold = async (): Promise<void> => {
    const client = await pool.connect();
    try {
      await client.query(lock.text, lock.values);
    } catch (error) {
      client.release(true);
      throw error;
    }
    if (isEnding) return client.release(true);
    held = client;
    client.once("end", () => void regain(client));
  };
  const regain = async (lost: PoolClient): Promise<void> => {
    if (held !== lost) return;
    held = null;
    // Release it, because at its end the pool waits for every connection, even a dead one.
    lost.release(true);
    while (!isEnding && held === null) {
      await delay(regainMs, undefined, { ref: false });
      // The pool warns that the database is unreachable; the next try is in a second.
      if (!isEnding) await hold().catch(() => undefined);
    }
  };
  await hold();
  return {
    connection: () => held,
    async end() {
      isEnding = true;
      const client = held;
      held = null;
      // Unlock before closing, because the server notices the end of a connection only later.
      await client?.query("select pg_advisory_unlock_all()").catch(() => undefined); // gone, and the lock with it
      client?.release(true);
    },
  };
}
