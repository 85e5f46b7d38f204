import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { migrate } from "../../src/store/migrate.ts";
import { testDatabase } from "../support/database.ts";

const folders: string[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

/** A folder as drizzle-kit writes it, with one migration per statement. */
function migrations(...statements: string[]): string {
  const folder = mkdtempSync(join(tmpdir(), "wavesmith-migrations-"));
  folders.push(folder);
  mkdirSync(join(folder, "meta"));
  const entries = statements.map((statement, idx) => {
    writeFileSync(join(folder, `${idx}.sql`), statement);
    return { idx, version: "7", when: 1_000 + idx, tag: `${idx}`, breakpoints: true };
  });
  writeFileSync(
    join(folder, "meta", "_journal.json"),
    JSON.stringify({ version: "7", dialect: "postgresql", entries }),
  );
  return folder;
}

describe("migrating", () => {
  it("applies each migration once, even if several processes begin at once", async () => {
    const { pool } = await testDatabase({ migrated: false });
    const folder = migrations("create table one (id int)", "insert into one values (1)");
    await Promise.all([migrate(pool, folder), migrate(pool, folder), migrate(pool, folder)]);
    await migrate(pool, folder);
    expect((await pool.query("select id from one")).rows).toEqual([{ id: 1 }]);
  });

  it("leaves nothing of a failed run and can be repeated", async () => {
    const { pool } = await testDatabase({ migrated: false });
    const broken = migrations("create table one (id int)", "insert into missing values (1)");
    await expect(migrate(pool, broken)).rejects.toMatchObject({
      code: "database",
      message: expect.stringContaining('relation "missing" does not exist'),
    });
    expect((await pool.query("select to_regclass('one') as one")).rows).toEqual([{ one: null }]);
    await migrate(pool, migrations("create table one (id int)"));
    expect((await pool.query("select id from one")).rowCount).toBe(0);
  });

  it("refuses a database that a newer version migrated", async () => {
    const { pool } = await testDatabase({ migrated: false });
    await migrate(pool, migrations("create table one (id int)", "create table two (id int)"));
    await expect(migrate(pool, migrations("create table one (id int)"))).rejects.toMatchObject({
      code: "database",
      message: expect.stringContaining("1 of 2 migrations"),
      remedy: expect.stringContaining("newer version"),
    });
  });
});
