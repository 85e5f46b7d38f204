import { createHash } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import type { Pool, PoolClient } from "pg";
import { ConnectionLost } from "./connection/lost-connection.ts";
import type { Store } from "./port.ts";

// Locks that end with their holder: advisory locks on one connection of this process, which comes
// from the pool while any lock is held. They share one connection, so that many waiting callers
// never use up the pool that the holder needs.

const firstPauseMs = 10;
const longestPauseMs = 250;

/** Derives the number of a Postgres advisory lock from a name. */
export const advisoryKey = (name: string): bigint => createHash("sha256").update(name).digest().readBigInt64BE(0);

const keyOf = (name: string): bigint => advisoryKey(`wavesmith:alone:${name}`);

export function createLocks(pool: Pool): Pick<Store, "alone"> {
  const mine = new Set<string>();
  const connection = sharedConnection(pool);

  const take = async (name: string): Promise<PoolClient | null> => {
    // To Postgres this whole process is one holder, so check within the process first.
    if (mine.has(name)) return null;
    mine.add(name);
    let taken: PoolClient | null = null;
    try {
      const client = await connection.lend();
      const { rows } = await connection
        .query<{ held: boolean }>(client, "select pg_try_advisory_lock($1) as held", [keyOf(name).toString()])
        .catch((error: unknown) => connection.giveBack(client, error));
      if (rows[0]?.held === true) taken = client;
      else connection.giveBack(client);
      return taken;
    } finally {
      if (taken === null) mine.delete(name);
    }
  };

  const release = async (name: string, client: PoolClient): Promise<void> => {
    // A connection that broke has freed its locks.
    const failure = await connection.query(client, "select pg_advisory_unlock($1)", [keyOf(name).toString()]).then(
      () => undefined,
      (error: Error) => error,
    );
    mine.delete(name);
    connection.giveBack(client, undefined, failure !== undefined);
  };

  return {
    async alone(name, work, { wait }) {
      for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(pauseMs * 1.5, longestPauseMs)) {
        const client = await take(name).catch((error: unknown) => {
          // No work was done under the lock yet.
          if (wait && error instanceof ConnectionLost) return null;
          throw error;
        });
        if (client !== null) {
          try {
            return await work();
          } finally {
            await release(name, client);
          }
        }
        if (!wait) return null;
        await delay(pauseMs);
      }
    },
  };
}

interface SharedConnection {
  lend(): Promise<PoolClient>;
  /** Runs statements one after the other, for all callers. */
  query<Row extends object>(client: PoolClient, text: string, values: unknown[]): Promise<{ rows: Row[] }>;
  /** Returns the client; with an error it is broken, and the error is rethrown. */
  giveBack(client: PoolClient, error: unknown): never;
  giveBack(client: PoolClient, error?: undefined, broken?: boolean): void;
}

/** Shares one client of the pool for as long as any caller uses it. */
function sharedConnection(pool: Pool): SharedConnection {
  const users = new Map<PoolClient, number>();
  const broken = new Set<PoolClient>();
  let current: Promise<PoolClient> | null = null;
  let last: Promise<unknown> = Promise.resolve();
  const giveBack = (client: PoolClient, error?: unknown, isBroken = error !== undefined): void => {
    if (isBroken) {
      broken.add(client);
      current = null;
    }
    const left = (users.get(client) ?? 1) - 1;
    users.set(client, left);
    if (left === 0) {
      users.delete(client);
      if (!broken.has(client)) current = null;
      client.release(broken.delete(client));
    }
    if (error !== undefined) throw error;
  };
  return {
    async lend() {
      current ??= pool.connect();
      const asked = current;
      const client = await asked.catch((error: unknown) => {
        if (current === asked) current = null;
        throw error;
      });
      // Its last user may have returned it while we waited.
      if (current !== asked) return this.lend();
      users.set(client, (users.get(client) ?? 0) + 1);
      return client;
    },
    query<Row extends object>(client: PoolClient, text: string, values: unknown[]) {
      const mine = last.then(() => client.query<Row>(text, values));
      last = mine.catch(() => undefined); // the caller gets the error
      return mine;
    },
    giveBack: giveBack as SharedConnection["giveBack"],
  };
}
