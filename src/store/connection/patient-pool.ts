import { setTimeout as delay } from "node:timers/promises";
import type { Pool, PoolClient, QueryResult } from "pg";
import { messageOf, WavesmithError } from "../../domain/errors.ts";
import { ConnectionLost, isConnectionLost } from "./lost-connection.ts";

// PP1. A connection that cannot be made is tried again until the server is back or the patience is
// used up: nothing was sent on it.
// PP2. A statement that was cut off is repeated here only when it reads. Any other may be
// committed: it fails with ConnectionLost, retryable, and its caller, whose verb may run twice,
// runs it again.
// PP3. Once the patience is used up, everybody fails at once, until the server answers again.

/** How long to wait for a lost server. */
export const patienceMs = 60_000;
const firstPauseMs = 50;
const longestPauseMs = 1_000;

export interface PoolPatience {
  /** The server's address, without its password. */
  readonly address: string;
  readonly patienceMs: number;
  /** Restarts the server, if it is ours. */
  readonly revive: () => Promise<void>;
  /** Called once when the server is lost, and once when it is back. */
  readonly warn: (message: string) => void;
  readonly remedy: string;
}

type Query = (...statement: unknown[]) => Promise<QueryResult>;

/** Makes a pool outlive the loss of its server, by PP1 to PP3. Changes the pool and returns it. */
export function makePatient(pool: Pool, options: PoolPatience): Pool {
  const away = createAway(pool, options);
  const connectOnce = pool.connect.bind(pool) as () => Promise<PoolClient>;
  const connect = async (): Promise<PoolClient> => {
    for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(pauseMs * 1.5, longestPauseMs)) {
      try {
        const client = await connectOnce();
        away.over();
        return translating(client, options.address);
      } catch (error) {
        if (!isConnectionLost(error)) throw error;
        away.begun(error);
      }
      await Promise.race([options.revive().catch(away.because), delay(pauseMs)]);
      await delay(pauseMs);
    }
  };
  const query: Query = async (...statement) => {
    for (;;) {
      const client = await connect();
      try {
        const result = await (client.query as Query)(...statement);
        client.release();
        return result;
      } catch (error) {
        const isLost = isConnectionLost(error);
        client.release(isLost);
        if (!isLost || !reads(statement[0])) throw error;
        away.begun(error);
      }
    }
  };
  return Object.assign(pool, { connect, query });
}

/** Tracks how long the server has been unreachable. */
function createAway(pool: Pool, { address, patienceMs: limitMs, warn, remedy }: PoolPatience) {
  let sinceMs: number | null = null;
  let reason: unknown = null;
  return {
    because(error: unknown): void {
      reason = error;
    },
    /** Records a failure; throws once the time limit is over. */
    begun(error: unknown): void {
      if (pool.ending) throw error;
      if (sinceMs === null) {
        reason = null;
        const limit = `at most ${Math.round(limitMs / 1000)} s`;
        warn(`lost the connection to Postgres at ${address}; waiting for it to come back (${limit})`);
      }
      sinceMs ??= performance.now();
      if (performance.now() - sinceMs < limitMs) return;
      const away = `Postgres at ${address} has been gone for ${Math.round((performance.now() - sinceMs) / 1000)} s`;
      const cause = reason ?? error;
      throw new WavesmithError("database", `${away}: ${messageOf(cause)}`, { retryable: true, remedy, cause });
    },
    over(): void {
      if (sinceMs !== null) warn(`Postgres at ${address} is back`);
      sinceMs = null;
    },
  };
}

const translated = new WeakSet<PoolClient>();

/** Wraps a client so that its errors name the lost server. */
function translating(client: PoolClient, address: string): PoolClient {
  if (translated.has(client)) return client;
  translated.add(client);
  const send = client.query.bind(client) as Query;
  const query: Query = (...statement) =>
    send(...statement).catch((error: unknown) => {
      throw isConnectionLost(error) ? new ConnectionLost(address, error) : error;
    });
  return Object.assign(client, { query });
}

function reads(statement: unknown): boolean {
  const text = typeof statement === "string" ? statement : (statement as { text?: unknown } | null)?.text;
  return typeof text === "string" && /^\s*select\b/i.test(text) && !/\bfor update\b|\bpg_\w*lock/i.test(text);
}
