import { tmpdir } from "node:os";
import { describe, expect, it } from "vitest";
import { messageOf } from "../../src/domain/errors.ts";
import { openDatabase } from "../../src/store/connection/connection.ts";
import { testDatabase } from "../support/database.ts";

const open = (databaseUrl: string) =>
  openDatabase({ dataDir: tmpdir(), databaseUrl, applicationName: "connection test" });

/** Everything that printing an error shows, with all its properties. */
const shown = (error: unknown) => `${messageOf(error)} ${JSON.stringify(error)} ${(error as Error).stack}`;

describe("a database given by its address", () => {
  it("is used under the application's name, and outlives the end of its connections", async () => {
    const test = await testDatabase({ migrated: false });
    const database = await open(test.url);
    expect(database.kind).toBe("server");
    const { rows } = await database.pool.query(
      "select pg_backend_pid() as pid, current_setting('application_name') as name",
    );
    expect(rows[0].name).toBe("connection test");
    const lent = await database.pool.connect();
    await lent.query("begin");
    await test.pool.query(
      "select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = 'connection test'",
    );
    await expect(lent.query("select")).rejects.toThrow();
    lent.release(true);
    await database.ensureRunning();
    expect((await database.pool.query("select 1 as one")).rows).toEqual([{ one: 1 }]);
    await database.close();
    await database.close();
  });

  it("is named, without its password, when it cannot be reached", async () => {
    const error = await open("postgres://me:s3cret@127.0.0.1:1/db").catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code: "database", retryable: true, remedy: expect.stringContaining("DATABASE_URL") });
    expect(messageOf(error)).toContain("127.0.0.1:1/db");
    expect(shown(error)).not.toContain("s3cret");
  });

  it.each(["s3cret", "http://me:s3cret@host/db", "postgres://me:s3cret@ho st/db"])(
    "is refused when it is no address, unquoted: %s",
    async (url) => {
      const error = await open(url).catch((reason: unknown) => reason);
      expect(error).toMatchObject({ code: "database", remedy: expect.stringContaining("postgres://") });
      expect(shown(error)).not.toContain("s3cret");
    },
  );
});
