import { createHash } from "node:crypto";
import { DrizzleQueryError } from "drizzle-orm";
import { drizzle, type NodePgDatabase } from "drizzle-orm/node-postgres";
import type { Pool, PoolClient } from "pg";

/** A pool, or the client of a transaction. */
export type Queryable = Pool | PoolClient;

type Values = Readonly<Record<string, unknown>>;
/** A query of drizzle's. */
export interface Preparable<Answer> {
  prepare(name: string): Prepared<Answer>;
}
interface Prepared<Answer> {
  execute(values: Values): Promise<Answer>;
}

/** Queries on one pool or client. They throw the errors of Postgres and of the connection. */
export interface StoreSession {
  /**
   * Runs a query that is built once, and that each connection plans once. `shape` names it: the
   * same shape always builds the same SQL. `values` are those of its placeholders.
   */
  run<Answer>(shape: string, build: (db: NodePgDatabase) => Preparable<Answer>, values: Values): Promise<Answer>;
  /** Runs a query that is too rare, or of too many shapes, to be prepared. */
  once<Answer>(build: (db: NodePgDatabase) => PromiseLike<Answer>): Promise<Answer>;
}

const sessions = new WeakMap<Queryable, StoreSession>();

/** Returns the session of a pool or client; it lives as long as that does. */
export function sessionOf(on: Queryable): StoreSession {
  const session = sessions.get(on) ?? createSession(drizzle(on));
  sessions.set(on, session);
  return session;
}

function createSession(db: NodePgDatabase): StoreSession {
  const queries = new Map<string, Prepared<unknown>>();
  return {
    async run<Answer>(shape: string, build: (db: NodePgDatabase) => Preparable<Answer>, values: Values) {
      const query = (queries.get(shape) as Prepared<Answer> | undefined) ?? build(db).prepare(nameOf(shape));
      queries.set(shape, query);
      return query.execute(values).catch(rethrowCause);
    },
    async once(build) {
      return await build(db).then(undefined, rethrowCause);
    },
  };
}

/** Postgres cuts names off after 63 bytes. */
const nameOf = (shape: string): string => `store_${createHash("sha256").update(shape).digest("hex").slice(0, 16)}`;

/** Drizzle wraps errors in one that quotes the query's values, which may be secrets. */
function rethrowCause(error: unknown): never {
  throw error instanceof DrizzleQueryError ? error.cause : error;
}
