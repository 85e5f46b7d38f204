import { chmodSync, mkdirSync, statSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { openDatabase } from "../../src/store/connection/connection.ts";
import { installBinaries } from "../../src/store/embedded/binaries.ts";
import { databaseFailure } from "../../src/store/embedded/failure.ts";
import { placeIn } from "../../src/store/embedded/place.ts";
import { serverUserOf } from "../../src/store/embedded/server-user.ts";
import { isOurSocketDir, makeSocketDir, removeSocketDir } from "../../src/store/embedded/socket-dir.ts";
import {
  isRunning,
  serverPid,
  startUser,
  temporaryFolder,
  temporaryFolderOf,
  until,
} from "../support/embedded-postgres.ts";

const isRoot = process.geteuid?.() === 0;
if (!isRoot) console.warn("SKIPPED: only root can become another user");

async function worksIn(dataDir: string): Promise<void> {
  const database = await openDatabase({ dataDir, applicationName: "test" });
  try {
    expect((await database.pool.query("select 1 as one")).rows).toEqual([{ one: 1 }]);
  } finally {
    await database.close();
  }
}

describe("an embedded Postgres works", () => {
  it("below a folder that only its owner may enter, whose name has spaces and quotes", async () => {
    const home = join(temporaryFolder(), `it's "my" home $(x)`);
    mkdirSync(home, { mode: 0o700 });
    await worksIn(join(home, "data"));
  });

  it("in folders far deeper than a socket's path may be long", async () => {
    const deep = Array.from({ length: 30 }, (_, level) => `a-folder-with-quite-a-long-name-${level}`);
    await worksIn(join(temporaryFolder(), ...deep));
  });

  it.runIf(isRoot)("for an ordinary user, even one without a name", async () => {
    const dataDir = join(temporaryFolderOf(1234), "data");
    const user = startUser(dataDir, { uid: 1234 });
    await user.ready();
    const pid = serverPid(dataDir)!;
    expect(statSync(`/proc/${pid}`).uid).toBe(1234);
    await user.ask("close");
    await until(() => !isRunning(pid));
  });

  it.runIf(isRoot)("for root in an ordinary user's data directory, as that user", async () => {
    const dataDir = join(temporaryFolderOf(1234), "data");
    const owner = startUser(dataDir, { uid: 1234 });
    await owner.ready();
    await owner.ask("close");
    const root = startUser(dataDir);
    await root.ready();
    expect(statSync(`/proc/${serverPid(dataDir)}`).uid).toBe(1234);
    await root.ask("close");
    const again = startUser(dataDir, { uid: 1234 });
    await again.ready();
    await again.ask("close");
  });
});

describe("the programs of the embedded Postgres", () => {
  it("are copied once, by whichever process comes first", async () => {
    const cache = join(temporaryFolder(), "cache");
    chmodSync(join(cache, ".."), 0o755);
    const user = serverUserOf(join(tmpdir(), "none"));
    const [first, second] = await Promise.all([installBinaries(user, [cache]), installBinaries(user, [cache])]);
    expect(first).toEqual(second);
    const copiedAt = statSync(first.postgres).ctimeMs;
    await installBinaries(user, [cache]);
    expect(statSync(first.postgres).ctimeMs).toBe(copiedAt);
  });

  it("are never taken from a folder that others may write to", async () => {
    const cache = temporaryFolder();
    chmodSync(cache, 0o777);
    const user = serverUserOf(join(tmpdir(), "none"));
    await expect(installBinaries(user, [cache])).rejects.toMatchObject({
      code: "environment",
      message: expect.stringContaining("others may write"),
      remedy: expect.stringContaining("DATABASE_URL"),
    });
  });
});

describe("a socket's folder", () => {
  it("is trusted only if it belongs to its user alone", async () => {
    const user = serverUserOf(join(tmpdir(), "none"));
    const folder = await makeSocketDir(user, async () => undefined);
    try {
      expect(isOurSocketDir(folder, user)).toBe(true);
      expect(isOurSocketDir(folder, { ...user, uid: user.uid + 1 })).toBe(false);
      chmodSync(folder, 0o770);
      expect(isOurSocketDir(folder, user)).toBe(false);
      chmodSync(folder, 0o700);
      const planted = join(temporaryFolder(), "wavesmith-pg-planted");
      symlinkSync(folder, planted);
      expect(isOurSocketDir(planted, user)).toBe(false);
    } finally {
      await removeSocketDir(folder);
    }
  });
});

describe("a failure of the embedded Postgres", () => {
  it("says how little space is left, with Postgres's last message", async () => {
    const place = placeIn(temporaryFolder());
    const failure = await databaseFailure("initdb failed", place, "could not extend file: No space left on device\n");
    expect(failure).toMatchObject({ code: "database", retryable: true });
    expect(failure.message).toMatch(/too little room: \d+ MiB are free at .*\ncould not extend file/);
  });
});
