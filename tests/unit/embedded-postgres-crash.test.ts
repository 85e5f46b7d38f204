import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { openDatabase } from "../../src/store/connection/connection.ts";
import { placeIn } from "../../src/store/embedded/place.ts";
import { readPidFile } from "../../src/store/embedded/postmaster.ts";
import { serverUserOf } from "../../src/store/embedded/server-user.ts";
import { makeSocketDir } from "../../src/store/embedded/socket-dir.ts";
import {
  connectAsAdmin,
  isRunning,
  rememberServer,
  serverPid,
  startUser,
  temporaryFolder,
  until,
} from "../support/embedded-postgres.ts";

describe("an embedded Postgres whose last user was killed", () => {
  it("is adopted by the next process, which stops it when it leaves", async () => {
    const dataDir = temporaryFolder();
    const killed = startUser(dataDir);
    await killed.ready();
    const pid = serverPid(dataDir)!;
    await killed.kill();
    expect(isRunning(pid)).toBe(true);

    const next = startUser(dataDir);
    await next.ready();
    expect(serverPid(dataDir)).toBe(pid);
    await next.ask("close");
    await until(() => !isRunning(pid));
  });

  it("is stopped by its watchdog, which leaves nothing behind", async () => {
    const dataDir = temporaryFolder();
    const user = startUser(dataDir, { orphanTimeoutMs: 400 });
    await user.ready();
    const pid = serverPid(dataDir)!;
    const { socketDir } = readPidFile(placeIn(dataDir))!;
    await user.kill();
    await until(() => !isRunning(pid));
    await until(() => !existsSync(socketDir));
    expect(serverPid(dataDir)).toBe(null);
  });

  it("gets a new watchdog from the next process if the first one was ended", async () => {
    const dataDir = temporaryFolder();
    const first = startUser(dataDir, { orphanTimeoutMs: 400 });
    await first.ready();
    const pid = serverPid(dataDir)!;
    const admin = await connectAsAdmin(dataDir);
    const watchdogs = "from pg_stat_activity where application_name like 'wavesmith watchdog%'";
    await admin.query(`select pg_terminate_backend(pid, 5000) ${watchdogs}`);
    expect((await admin.query(`select ${watchdogs}`)).rowCount).toBe(0);
    await admin.end();

    const second = startUser(dataDir, { orphanTimeoutMs: 400 });
    await second.ready();
    await first.kill();
    await second.kill();
    await until(() => !isRunning(pid));
  });
});

describe("an embedded Postgres that was killed", () => {
  it("is started again for a process that asks, without losing anything committed", async () => {
    const dataDir = temporaryFolder();
    const database = await openDatabase({ dataDir, applicationName: "test" });
    try {
      await database.pool.query("create table kept (id int)");
      await database.pool.query("insert into kept values (1)");
      const lent = await database.pool.connect();
      await lent.query("begin");
      const pid = serverPid(dataDir)!;
      process.kill(pid, "SIGKILL");
      await until(() => !isRunning(pid));

      await Promise.all([database.ensureRunning(), database.ensureRunning()]);
      expect((await database.pool.query("select id from kept")).rows).toEqual([{ id: 1 }]);
      await expect(lent.query("select")).rejects.toThrow();
      lent.release(true);
      expect(serverPid(dataDir)).not.toBe(pid);
    } finally {
      await database.close();
    }
    expect(serverPid(dataDir)).toBe(null);
  });

  it("removes the folder of a socket whose creator was killed", async () => {
    const dataDir = temporaryFolder();
    const { socketFile, clusterDir } = placeIn(dataDir);
    await (await openDatabase({ dataDir, applicationName: "test" })).close();
    const folder = await makeSocketDir(serverUserOf(clusterDir), async (made) => writeFileSync(socketFile, made));
    await (await openDatabase({ dataDir, applicationName: "test" })).close();
    expect(existsSync(folder)).toBe(false);
  });

  it("restarts by itself while a process uses it", async () => {
    const dataDir = temporaryFolder();
    const users = [startUser(dataDir), startUser(dataDir)];
    await Promise.all(users.map((user) => user.ready()));
    const pid = serverPid(dataDir)!;
    process.kill(pid, "SIGKILL");
    await until(() => (serverPid(dataDir) ?? pid) !== pid);
    await Promise.all(users.map((user) => user.ask("ensure")));
    const admin = await connectAsAdmin(dataDir);
    const sessions = await admin.query("select from pg_stat_activity where application_name = 'user (session)'");
    expect(sessions.rowCount).toBe(2);
    await admin.end();
    rememberServer(dataDir);
    await Promise.all(users.map((user) => user.ask("close")));
  });

  it("starts even if another process has its old process id", async () => {
    const dataDir = temporaryFolder();
    const user = startUser(dataDir);
    await user.ready();
    const pid = serverPid(dataDir)!;
    await user.kill();
    process.kill(pid, "SIGKILL");
    await until(() => !isRunning(pid));
    const { socketDir } = readPidFile(placeIn(dataDir))!;
    const stale = `${process.pid}\n/proc/self/cwd\n1\n5432\n${socketDir}\n\n  1  1\nready   \n`;
    writeFileSync(join(dataDir, "postgres", "postmaster.pid"), stale);

    const database = await openDatabase({ dataDir, applicationName: "test" });
    expect((await database.pool.query("select 1 as one")).rows).toEqual([{ one: 1 }]);
    await database.close();
    expect(existsSync(socketDir)).toBe(false);
  });

  it("recovers when one of its sessions' processes is killed", async () => {
    const dataDir = temporaryFolder();
    const database = await openDatabase({ dataDir, applicationName: "test" });
    try {
      const { rows } = await database.pool.query("select pg_backend_pid() as pid");
      process.kill(rows[0].pid, "SIGKILL");
      await until(() =>
        database
          .ensureRunning()
          .then(() => database.pool.query("select"))
          .then(() => true)
          .catch(() => false),
      );
    } finally {
      await database.close();
    }
    expect(serverPid(dataDir)).toBe(null);
  });
});

describe("making a cluster", () => {
  it("is done again if it was interrupted", async () => {
    const dataDir = temporaryFolder();
    const killed = startUser(dataDir);
    await until(() => readdirSync(dataDir).some((name) => name.startsWith("postgres.draft-")));
    await killed.kill();
    const left = join(dataDir, "postgres.draft-older");
    mkdirSync(left);
    writeFileSync(join(left, "PG_VERSION"), "18\n");

    const next = startUser(dataDir);
    await next.ready();
    await next.ask("close");
    expect(readdirSync(dataDir).sort()).toEqual(["postgres", "postgres.lock", "postgres.log", "postgres.socket"]);
  });

  it("says so if something else is in its place", async () => {
    const dataDir = temporaryFolder();
    mkdirSync(join(dataDir, "postgres"));
    writeFileSync(join(dataDir, "postgres", "mine.txt"), "keep me");
    await expect(openDatabase({ dataDir, applicationName: "test" })).rejects.toMatchObject({
      code: "database",
      message: expect.stringContaining("is in the way"),
    });
    expect(readdirSync(dataDir).filter((name) => name.startsWith("postgres.draft-"))).toEqual([]);
  });
});
