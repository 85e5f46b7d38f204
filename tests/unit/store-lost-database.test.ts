import { tmpdir } from "node:os";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Database, openDatabase } from "../../src/store/connection/connection.ts";
import { ConnectionLost, isConnectionLost } from "../../src/store/connection/lost-connection.ts";
import type { Store } from "../../src/store/port.ts";
import { createStore } from "../../src/store/store.ts";
import { type TestDatabase, testDatabase } from "../support/database.ts";
import { type DatabaseProxy, openDatabaseProxy } from "../support/database-proxy.ts";

let direct: TestDatabase;
let proxy: DatabaseProxy;
let database: Database;
let store: Store;
let warnings: string[];

async function open(patienceMs: number): Promise<void> {
  database = await openDatabase({
    dataDir: tmpdir(),
    databaseUrl: proxy.url,
    applicationName: "lost database",
    warn: (message) => warnings.push(message),
    patienceMs,
  });
  store = createStore(database.pool);
}

beforeEach(async () => {
  warnings = [];
  direct = await testDatabase();
  proxy = await openDatabaseProxy(direct.url);
  await open(30_000);
});
afterEach(async () => {
  await database.close();
  await proxy.close();
  await direct.close();
});

const said = (what: string) => expect.poll(() => warnings.some((line) => line.includes(what))).toBe(true);
/** Whether the server is executing a statement with this text. */
const atWork = (text: string) =>
  expect
    .poll(async () => {
      const seen = "select count(*)::int as n from pg_stat_activity where state <> 'idle' and query like $1";
      return (await direct.pool.query(`${seen} and pid <> pg_backend_pid()`, [`%${text}%`])).rows[0].n;
    })
    .toBeGreaterThan(0);

describe("a database that goes away", () => {
  it("is waited for, and its loss and its return are each reported once", async () => {
    await proxy.cut();
    const asked = [1, 2, 3].map((n) => database.pool.query("select $1::int as n", [n]));
    await said("lost the connection to Postgres at");
    await proxy.mend();
    expect((await Promise.all(asked)).map(({ rows }) => rows[0].n)).toEqual([1, 2, 3]);
    expect(warnings).toHaveLength(2);
    expect(warnings[0]).toMatch(/^lost the connection to Postgres at 127\.0\.0\.1.*waiting for it to come back/);
    expect(warnings[1]).toMatch(/is back$/);
    expect(warnings.join()).not.toContain("@");
  });

  it("is given up on after a time, with the remedy, and works again for later queries", async () => {
    await database.close();
    await open(300);
    await proxy.cut();
    const failure = await database.pool.query("select").catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: "database", retryable: true, remedy: expect.stringContaining("resume") });
    expect(String(failure)).toMatch(/has been gone for/);
    await proxy.mend();
    expect((await database.pool.query("select 1 as one")).rows).toEqual([{ one: 1 }]);
  });

  it("has an interrupted read repeated, but not a write", async () => {
    const read = database.pool.query("select pg_sleep(0.5), 'read' as what");
    await atWork("'read' as what");
    await proxy.cut();
    await proxy.mend();
    expect((await read).rows[0].what).toBe("read");
    const write = database.pool.query("with w as (select pg_sleep(5)) insert into tenants select 'ten_x', 'x' from w");
    write.catch(() => undefined);
    await atWork("insert into tenants");
    await proxy.cut();
    await expect(write).rejects.toBeInstanceOf(ConnectionLost);
    await expect(write).rejects.toMatchObject({ code: "database", retryable: true });
    await proxy.mend();
  });

  it("has a transaction repeated if it was cut off before its commit, once and whole", async () => {
    let turns = 0;
    await store.transaction("test", async (transaction) => {
      turns += 1;
      await transaction.tenants.insert({ id: `ten_${turns}`, name: "one" });
      if (turns > 1) return;
      await proxy.cut();
      await proxy.mend();
      await transaction.tenants.list({});
    });
    expect(turns).toBe(2);
    expect(await store.tenants.list({})).toMatchObject([{ id: "ten_2" }]);
  });

  it("does not have a transaction repeated if its commit may have succeeded", async () => {
    await direct.pool.query(`
      create function slow() returns trigger language plpgsql as $$ begin perform pg_sleep(1); return null; end $$;
      create constraint trigger slow after insert on tenants deferrable initially deferred
        for each row execute function slow()`);
    let turns = 0;
    const done = store.transaction("test", async (transaction) => {
      turns += 1;
      await transaction.tenants.insert({ id: "ten_1", name: "one" });
    });
    done.catch(() => undefined);
    await atWork("commit");
    await proxy.cut();
    await expect(done).rejects.toBeInstanceOf(ConnectionLost);
    await proxy.mend();
    expect(turns).toBe(1);
  });

  it("restores a process's mark when it is back", async () => {
    const held = async () => {
      const { rows } = await direct.pool.query(
        "select count(*)::int as n from pg_locks where locktype = 'advisory' and granted and database = (select oid from pg_database where datname = current_database())",
      );
      return rows[0].n;
    };
    const registration = await store.registerProcess("proc_1");
    expect(await held()).toBe(1);
    await proxy.cut();
    await expect.poll(held).toBe(0);
    await proxy.mend();
    await expect.poll(held, { timeout: 10_000 }).toBe(1);
    await registration.release();
    await expect.poll(held).toBe(0);
  });

  it("does not fail operations that wait for a lock, or request one meanwhile", async () => {
    let letGo: () => void = () => undefined;
    const begun = new Promise<void>((done) => {
      letGo = done;
    });
    const first = store.alone("lock", () => begun, { wait: true });
    const second = store.alone("lock", async () => "mine", { wait: true });
    await proxy.cut();
    const third = store.alone("other", async () => "other", { wait: true });
    await proxy.mend();
    expect(await third).toBe("other");
    letGo();
    await first;
    expect(await second).toBe("mine");
  });

  it("is distinguished from a wrong statement", () => {
    const failing = (code: string) => Object.assign(new Error("x"), { code });
    const lost = ["ECONNREFUSED", "ECONNRESET", "EPIPE", "ENOENT", "57P01", "57P02", "57P03", "08006"];
    expect(lost.map((code) => isConnectionLost(failing(code)))).toEqual(lost.map(() => true));
    expect(["42703", "23505", "40001"].map((code) => isConnectionLost(failing(code)))).toEqual([false, false, false]);
    expect(isConnectionLost(new Error("Connection terminated unexpectedly"))).toBe(true);
  });
});
