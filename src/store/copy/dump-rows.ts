import type { Pool, PoolClient } from "pg";
import { listTables, quoted, type StoredTable } from "./catalog.ts";
import { findWaitingSources, type WaitingSource } from "./waiting-sources.ts";

const rowsAtOnce = 500;

/** Rows of one table: a line of JSON per row, each an array of texts and nulls. */
export interface RowsChunk {
  readonly table: StoredTable;
  readonly text: string;
}

/** All rows of a database as they were at one moment, while others go on writing. */
export interface RowsSnapshot {
  readonly tables: readonly StoredTable[];
  /** The hashes of the applied migrations, in order. */
  readonly migrations: readonly string[];
  /** The uploaded sources that builds have yet to read. */
  readonly sources: readonly WaitingSource[];
  chunks(): AsyncGenerator<RowsChunk>;
  close(): Promise<void>;
}

/** Opens a snapshot of the rows; what is committed from now on is not in it. */
export async function openRowsSnapshot(pool: Pool): Promise<RowsSnapshot> {
  const client = await pool.connect();
  try {
    await client.query("begin isolation level repeatable read read only");
    const tables = await listTables(client); // the first statement fixes the moment
    const migrations = await appliedMigrations(client);
    const sources = await findWaitingSources(client);
    return {
      tables,
      migrations,
      sources,
      chunks: () => chunksOf(client, tables),
      close: async () => client.release(true),
    };
  } catch (error) {
    client.release(true);
    throw error;
  }
}

/** Returns the hashes of the migrations that a database has, in order; none for an empty one. */
export async function appliedMigrations(client: PoolClient | Pool): Promise<string[]> {
  const { rows } = await client.query<{ made: boolean }>(
    "select to_regclass('drizzle.__drizzle_migrations') is not null as made",
  );
  if (rows[0]?.made !== true) return [];
  const applied = await client.query<{ hash: string }>("select hash from drizzle.__drizzle_migrations order by id");
  return applied.rows.map(({ hash }) => hash);
}

async function* chunksOf(client: PoolClient, tables: readonly StoredTable[]): AsyncGenerator<RowsChunk> {
  for (const table of tables) {
    // As texts, because Postgres reads back exactly what it has written.
    const columns = table.columns.map(({ name }) => `${quoted(name)}::text`).join(", ");
    await client.query(`declare rows_of_table no scroll cursor for select ${columns} from ${quoted(table.name)}`);
    for (;;) {
      const text = `fetch ${rowsAtOnce} from rows_of_table`;
      const { rows } = await client.query<(string | null)[]>({ text, rowMode: "array" });
      if (rows.length > 0) yield { table, text: rows.map((row) => `${JSON.stringify(row)}\n`).join("") };
      if (rows.length < rowsAtOnce) break;
    }
    await client.query("close rows_of_table");
  }
}
