import { createHash } from "node:crypto";
import { DrizzleQueryError, fillPlaceholders } from "drizzle-orm";
import { drizzle, type NodePgDatabase } from "drizzle-orm/node-postgres";
import type { PgColumn } from "drizzle-orm/pg-core";
import { type CustomTypesConfig, type Pool, type PoolClient, types } from "pg";

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

/** A query of drizzle's whose SQL can be had. */
export interface Readable {
  toSQL(): { sql: string; params: unknown[] };
}
type Columns = Readonly<Record<string, PgColumn>>;

/** Queries on one pool or client. They throw the errors of Postgres and of the connection. */
export interface StoreSession {
  /**
   * Runs a query that is built once, and that each connection plans once. `shape` names it: the
   * same shape always builds the same SQL. `values` are those of its placeholders.
   */
  run<Answer>(shape: string, build: (db: NodePgDatabase) => Preparable<Answer>, values: Values): Promise<Answer>;
  /**
   * Like `run`, for a query that answers these columns of one table. It turns Postgres's answer
   * into rows itself, because drizzle takes ten times as long for that.
   */
  read(shape: string, build: (db: NodePgDatabase) => Readable, columns: Columns, values: Values): Promise<object[]>;
  /** Runs a query that is too rare, or of too many shapes, to be prepared. */
  once<Answer>(build: (db: NodePgDatabase) => PromiseLike<Answer>): Promise<Answer>;
}

const sessions = new WeakMap<Queryable, StoreSession>();

/** Returns the session of a pool or client; it lives as long as that does. */
export function sessionOf(on: Queryable): StoreSession {
  const session = sessions.get(on) ?? createSession(on, drizzle(on));
  sessions.set(on, session);
  return session;
}

function createSession(on: Queryable, db: NodePgDatabase): StoreSession {
  const queries = new Map<string, Prepared<unknown>>();
  const reads = new Map<string, ReturnType<typeof preparedRead>>();
  return {
    async run<Answer>(shape: string, build: (db: NodePgDatabase) => Preparable<Answer>, values: Values) {
      const query = (queries.get(shape) as Prepared<Answer> | undefined) ?? build(db).prepare(nameOf(shape));
      queries.set(shape, query);
      return query.execute(values).catch(rethrowCause);
    },
    async read(shape, build, columns, values) {
      const { query, params, rowOf } = reads.get(shape) ?? preparedRead(shape, build(db), columns);
      reads.set(shape, { query, params, rowOf });
      const { rows } = await on.query<unknown[]>({ ...query, values: fillPlaceholders(params, values) });
      return rows.map(rowOf);
    },
    async once(build) {
      return await build(db).then(undefined, rethrowCause);
    },
  };
}

function preparedRead(shape: string, query: Readable, columns: Columns) {
  const { sql: text, params } = query.toSQL();
  return {
    query: { name: nameOf(shape), text, rowMode: "array", types: textOfDates },
    params,
    rowOf: rowMaker(columns),
  };
}

/** Drizzle's columns read dates themselves. */
const textOfDates: CustomTypesConfig = {
  getTypeParser: (id: number, format?: "text" | "binary") =>
    id === types.builtins.TIMESTAMPTZ ? (text: string) => text : types.getTypeParser(id, format as "text"),
};

/** Returns what makes a row of a list of values: a copy of an empty row, which is made at once. */
function rowMaker(columns: Columns): (values: readonly unknown[]) => object {
  const fields = Object.entries(columns);
  const empty: Readonly<Record<string, unknown>> = Object.fromEntries(fields.map(([name]) => [name, null]));
  return (values) => {
    const row = { ...empty };
    for (let index = 0; index < fields.length; index += 1) {
      const value = values[index];
      const field = fields[index];
      if (value !== null && field !== undefined) row[field[0]] = field[1].mapFromDriverValue(value);
    }
    return row;
  };
}

/** Postgres cuts names off after 63 bytes. */
const nameOf = (shape: string): string => `store_${createHash("sha256").update(shape).digest("hex").slice(0, 16)}`;

/** Drizzle wraps errors in one that quotes the query's values, which may be secrets. */
function rethrowCause(error: unknown): never {
  throw error instanceof DrizzleQueryError ? error.cause : error;
}
