import { afterEach, describe, expect, it } from "vitest";
import { type CommandPlace, createCommandPlace } from "../support/command.ts";
import { type TestDatabase, testDatabase } from "../support/database.ts";
import { type DatabaseProxy, openDatabaseProxy } from "../support/database-proxy.ts";

// A database that goes away during a build.

const count = 24;
/** Waves of four tasks; each task records that it ran, where its attempts' trees do not reach. */
const tasks = Array.from({ length: count }, (_, n) => ({
  id: `t-${n}`,
  run: `sleep 0.2; echo ${n} > file-${n}; echo wrote file-${n}`,
  ...(n < 4 ? {} : { dependsOn: [`t-${n - 4}`] }),
}));
const limits = { tasksPerAgentPerWave: 4, maxParallelTasks: 4 };

let place: CommandPlace;
let proxy: DatabaseProxy | null = null;
let database: TestDatabase | null = null;
afterEach(async () => {
  place.close();
  await proxy?.close();
  await database?.close();
  proxy = null;
  database = null;
});

async function onServer(settings: Record<string, string> = {}): Promise<DatabaseProxy> {
  database = await testDatabase({ migrated: false });
  proxy = await openDatabaseProxy(database.url);
  place = createCommandPlace({ DATABASE_URL: proxy.url, ...settings });
  return proxy;
}

/** Returns one attempt of each task, and their joined tree. */
async function isWhole(text: string): Promise<void> {
  expect(text).toContain(`${count} of ${count} tasks completed`);
  expect(text).not.toContain("bug in Wavesmith");
  const id = /bld_\w+/.exec(text)![0];
  const status = await place.run("status", id, "--json");
  const { status: outcome, tasks: seen } = JSON.parse(status.text);
  expect(outcome).toBe("completed");
  expect(seen.map(({ attempts }: { attempts: number }) => attempts)).toEqual(tasks.map(() => 1));
}

describe("a build whose database goes away", () => {
  it("continues when its own Postgres is killed repeatedly", { timeout: 240_000 }, async () => {
    place = createCommandPlace();
    const build = place.start("build", place.plan("killed", tasks, { limits }));
    for (const n of [1, 6, 11, 18]) {
      await build.said(`t-${n}: done`);
      process.kill(place.postgres(), "SIGKILL");
    }
    expect(await build.ended, build.text()).toBe(0);
    expect(build.text()).toContain("lost the connection to Postgres at");
    await isWhole(build.text());
  });

  it("continues when a server is stopped and comes back, and so do its followers", { timeout: 240_000 }, async () => {
    const server = await onServer();
    const build = place.start("build", place.plan("stopped", tasks, { limits }));
    await build.said("t-0: done");
    const id = /bld_\w+/.exec(build.text())![0];
    const follower = place.start("logs", id, "--follow");
    await follower.said("wrote file-0");
    for (const n of [3, 9, 15]) {
      await build.said(`t-${n}: done`);
      await server.cut();
      const look = place.start("status", id);
      await new Promise((wake) => setTimeout(wake, n * 50));
      await server.mend();
      const code = await look.ended;
      // It had not started: an address that does not answer is reported at once.
      if (code !== 0) expect(look.text()).toContain("cannot be used");
    }
    expect(await build.ended, build.text()).toBe(0);
    expect(await follower.ended, follower.text()).toBe(0);
    await isWhole(build.text());
  });

  it("ends with exit 4 and the remedy when it does not come back, and is resumed", { timeout: 240_000 }, async () => {
    const server = await onServer({ WAVESMITH_DATABASE_WAIT: "2s" });
    const build = place.start("build", place.plan("gone", tasks, { limits }));
    await build.said("t-3: done");
    await server.cut();
    expect(await build.ended, build.text()).toBe(4);
    const text = build.text();
    expect(text).toMatch(/Postgres at 127\.0\.0\.1:\d+\/\w+ has been gone for \d+ s/);
    expect(text).toMatch(/remedy: .*wavesmith resume/);
    expect(text).not.toContain("bug in Wavesmith");
    await server.mend();
    const { code, text: rest } = await place.run("resume", /bld_\w+/.exec(text)![0]);
    expect(code, rest).toBe(0);
    await isWhole(rest);
  });
});
