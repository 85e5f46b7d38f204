import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readMigrationFiles } from "drizzle-orm/migrator";
import { drizzle } from "drizzle-orm/node-postgres";
import { migrate as applyMigrations } from "drizzle-orm/node-postgres/migrator";
import type { ClientBase, Pool } from "pg";
import { messageOf, WavesmithError } from "../domain/errors.ts";
import { ensureTenantRole } from "./connection/tenant-pool.ts";

const lockKey = 7_410_100;

/**
 * Migrates the schema with the folder's migrations, all in one transaction. Safe to call from
 * several processes at once, and again after an interruption. Throws `database` if the database has
 * migrations that the folder lacks, because a newer version made them.
 */
export async function migrate(pool: Pool, migrationsFolder: string): Promise<void> {
  const client = await pool.connect();
  try {
    await client.query("select pg_advisory_lock($1)", [lockKey]);
    await refuseUnknown(client, migrationsFolder);
    await applyMigrations(drizzle(client), { migrationsFolder });
    await ensureTenantRole(client);
  } catch (error) {
    if (error instanceof WavesmithError) throw error;
    throw new WavesmithError("database", `The schema could not be brought up to date: ${messageOf(deepest(error))}`, {
      cause: error,
    });
  } finally {
    client.release(true); // ends the session, and with it the lock
  }
}

/** Returns the hashes of the folder's migrations, in order. */
export const knownMigrations = (migrationsFolder: string): string[] =>
  readMigrationFiles({ migrationsFolder }).map(({ hash }) => hash);

/** Calls `work` with a folder that has only the first migrations; removes it afterwards. */
export async function withFirstMigrations(
  migrationsFolder: string,
  number: number,
  work: (folder: string) => Promise<void>,
): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "wavesmith-migrations-"));
  try {
    await cp(migrationsFolder, folder, { recursive: true });
    const path = join(folder, "meta", "_journal.json");
    const journal = JSON.parse(await readFile(path, "utf8")) as { entries: unknown[] };
    await writeFile(path, JSON.stringify({ ...journal, entries: journal.entries.slice(0, number) }));
    await work(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function refuseUnknown(client: ClientBase, migrationsFolder: string): Promise<void> {
  const table = await client.query("select to_regclass('drizzle.__drizzle_migrations') is not null as made");
  if (table.rows[0]?.made !== true) return;
  const known = new Set(knownMigrations(migrationsFolder));
  const applied = await client.query<{ hash: string }>("select hash from drizzle.__drizzle_migrations");
  const unknown = applied.rows.filter(({ hash }) => !known.has(hash)).length;
  if (unknown === 0) return;
  throw new WavesmithError(
    "database",
    `The database has ${unknown} of ${applied.rows.length} migrations that this version of Wavesmith does not know`,
    { remedy: "run the newer version that made them, or use another database (--data or DATABASE_URL)" },
  );
}

/** Returns Postgres's own error, which drizzle wraps in one that only quotes the query. */
function deepest(error: unknown): unknown {
  return error instanceof Error && error.cause !== undefined ? deepest(error.cause) : error;
}
