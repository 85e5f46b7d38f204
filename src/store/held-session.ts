import { setTimeout as delay } from "node:timers/promises";
import type { Pool, PoolClient } from "pg";

const regainMs = 1_000;

/** A connection that is kept for the lock it holds. */
export interface HeldSession {
  /** Null while it is lost and not regained yet. */
  connection(): PoolClient | null;
  /** Frees the lock. Safe to call twice. */
  end(): Promise<void>;
}

/**
 * Takes an advisory lock in a session of its own until `end`. A lock that was lost with the
 * database is taken again once the database is back; until then others see no holder, and fences
 * keep that safe.
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
    // The pool waits at its end for every connection it lent, dead ones too.
    lost.release(true);
    while (!isEnding && held === null) {
      await delay(regainMs, undefined, { ref: false });
      // The pool says that the database is away; the next try comes in a second.
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
      // Unlocked before the connection goes: its end reaches the server later, and until then the
      // lock is still seen.
      await client?.query("select pg_advisory_unlock_all()").catch(() => undefined); // gone, and the lock with it
      client?.release(true);
    },
  };
}
