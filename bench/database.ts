import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Database, openDatabase } from "../src/store/connection/connection.ts";
import { migrate } from "../src/store/migrate.ts";

/** Runs `work` with a folder that is removed afterwards. */
export async function withFolder<Result>(work: (folder: string) => Promise<Result>): Promise<Result> {
  const folder = await mkdtemp(join(tmpdir(), "wavesmith-bench-"));
  try {
    return await work(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Runs `work` with its own embedded Postgres, migrated and as durable as in a build. */
export function withDatabase<Result>(work: (database: Database) => Promise<Result>): Promise<Result> {
  return withFolder(async (dataDir) => {
    const database = await openDatabase({ dataDir, applicationName: "bench" });
    try {
      await migrate(database.pool, fileURLToPath(new URL("../drizzle", import.meta.url)));
      await database.pool.query("create table bench_rows (id bigserial primary key, value json not null)");
      return await work(database);
    } finally {
      await database.close();
    }
  });
}

/** Commits one raw row, as large as a small step's result. */
export async function commitRow(database: Database): Promise<void> {
  await database.pool.query({
    name: "bench_commit",
    text: "insert into bench_rows (value) values ($1)",
    values: ['{"data":1}'],
  });
}
