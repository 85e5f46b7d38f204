import { existsSync, readdirSync, statSync } from "node:fs";
import { cp, rm } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { openDatabase } from "../../src/store/connection/connection.ts";
import { placeIn } from "../../src/store/embedded/place.ts";
import { readPidFile } from "../../src/store/embedded/postmaster.ts";
import {
  connectAsAdmin,
  isRunning,
  serverPid,
  startUser,
  temporaryFolder,
  until,
} from "../support/embedded-postgres.ts";

const socketDirOf = (dataDir: string) => readPidFile(placeIn(dataDir))!.socketDir;

describe("the embedded Postgres of a data directory", () => {
  it("is started by the first process, joined by the next, and stopped by the last one out", async () => {
    const dataDir = temporaryFolder();
    const first = startUser(dataDir);
    await first.ready();
    const pid = serverPid(dataDir)!;
    const socketDir = socketDirOf(dataDir);
    const second = startUser(dataDir);
    await second.ready();
    expect(serverPid(dataDir)).toBe(pid);

    await first.ask("close");
    expect(isRunning(pid)).toBe(true);
    await second.ask("close");
    await until(() => !isRunning(pid));
    expect(existsSync(socketDir)).toBe(false);
  });

  it("takes less than 28 MB in a new folder", async () => {
    const dataDir = temporaryFolder();
    const database = await openDatabase({ dataDir, applicationName: "test" });
    await database.pool.query("create table numbers as select generate_series(1, 1000) as n");
    const pid = serverPid(dataDir)!;
    await database.close();
    await until(() => !isRunning(pid));
    const files = readdirSync(dataDir, { withFileTypes: true, recursive: true }).filter((entry) => entry.isFile());
    const sizes = files.map((entry) => statSync(join(entry.parentPath, entry.name)).size);
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(28_000_000);
  });

  it("is one server even if several processes start at once in an empty folder", async () => {
    const dataDir = join(temporaryFolder(), "not", "there", "yet");
    const users = [startUser(dataDir), startUser(dataDir), startUser(dataDir)];
    await Promise.all(users.map((user) => user.ready()));
    const admin = await connectAsAdmin(dataDir);
    const sessions = await admin.query("select from pg_stat_activity where application_name = 'user (session)'");
    const watchdogs = await admin.query(
      "select from pg_stat_activity where application_name = 'wavesmith watchdog (session)'",
    );
    await admin.end();
    expect(sessions.rowCount).toBe(3);
    expect(watchdogs.rowCount).toBe(1);
    const pid = serverPid(dataDir)!;
    await Promise.all(users.map((user) => user.ask("close")));
    await until(() => !isRunning(pid));
    expect(readdirSync(dataDir).sort()).toEqual(["postgres", "postgres.lock", "postgres.log", "postgres.socket"]);
  });

  it("survives processes that come and go at the same time", async () => {
    const dataDir = temporaryFolder();
    const come = async () => {
      for (let round = 0; round < 4; round += 1) {
        const database = await openDatabase({ dataDir, applicationName: "comer" });
        await database.pool.query("select");
        await database.close();
      }
    };
    await Promise.all([come(), come(), come(), come()]);
    expect(serverPid(dataDir)).toBe(null);
  });

  it("listens only on a private socket, and keeps everything to its user", async () => {
    const dataDir = join(temporaryFolder(), "data");
    const database = await openDatabase({ dataDir, applicationName: "test" });
    try {
      const settings =
        "current_setting('listen_addresses') as tcp, current_setting('fsync') as fsync, current_setting('TimeZone') as zone";
      const { rows } = await database.pool.query(
        `select ${settings}, (select rolsuper from pg_roles where rolname = current_user) as super`,
      );
      expect(rows).toEqual([{ tcp: "", fsync: "on", zone: "UTC", super: false }]);
      const modes = [dataDir, join(dataDir, "postgres"), join(dataDir, "postgres.log"), socketDirOf(dataDir)];
      expect(modes.map((path) => statSync(path).mode & 0o077)).toEqual([0, 0, 0, 0]);
    } finally {
      await database.close();
    }
  });

  it("is not mistaken for the one of a copy of the data directory", async () => {
    const dataDir = temporaryFolder();
    const copy = join(temporaryFolder(), "copy");
    const original = startUser(dataDir);
    await original.ready();
    const pid = serverPid(dataDir)!;
    await cp(dataDir, copy, { recursive: true, preserveTimestamps: true });
    const other = startUser(copy);
    await other.ready();
    expect(serverPid(copy)).not.toBe(pid);
    await other.ask("close");
    const next = startUser(dataDir);
    await next.ready();
    expect(serverPid(dataDir)).toBe(pid);
    await next.ask("close");
    await original.ask("close");
  });

  it("makes way for a new one if its folder is removed while it runs", async () => {
    const dataDir = temporaryFolder();
    const before = startUser(dataDir, { orphanTimeoutMs: 200 });
    await before.ready();
    const pid = serverPid(dataDir)!;
    await rm(dataDir, { recursive: true });
    const after = startUser(dataDir);
    await after.ready();
    expect(serverPid(dataDir)).not.toBe(pid);
    await after.ask("close");
    await before.kill();
    await until(() => !isRunning(pid));
  });
});
