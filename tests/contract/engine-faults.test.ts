import type { Inngest } from "inngest";
import type { Pool } from "pg";
import { afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type EngineCrashPoint, engineCrashPoints } from "../../src/engine/crash-points.ts";
import { testDatabase } from "../support/database.ts";
import { emptyEngine, engineWith, gate, mortal, until, type World } from "./engine-harness.ts";

let pool: Pool;
let log: string[] = [];
let worlds: World[] = [];

beforeAll(async () => {
  pool = (await testDatabase()).pool;
});
beforeEach(() => {
  log = [];
  worlds = [];
});
afterEach(async () => {
  for (const world of worlds) await world.engine.stop(0);
  await emptyEngine(pool);
});

const keep = (world: World): World => {
  worlds.push(world);
  return world;
};
const event = (id: string, data: Record<string, unknown> = {}) => ({ name: "a/b", id, data });
const leases = async () => (await pool.query("SELECT * FROM engine.jobs WHERE holder IS NOT NULL")).rows;
const runs = async () => (await pool.query("SELECT status, output FROM engine.runs ORDER BY id")).rows;

/**
 * One of everything: several steps in a row, a sent event, parallel steps, and a function that the
 * event starts.
 */
const everything = (client: Inngest) => [
  client.createFunction({ id: "f", triggers: [{ event: "a/b" }], retries: 0, concurrency: 1 }, async ({ step }) => {
    const once = (name: string) =>
      step.run(name, () => {
        log.push(name);
        return name;
      });
    await once("one");
    await step.sendEvent("tell", { name: "a/told", id: "told", data: {} });
    await Promise.all([once("left"), once("right")]);
    return await once("last");
  }),
  client.createFunction({ id: "told", triggers: [{ event: "a/told" }], retries: 0 }, async ({ step }) => {
    await step.run("told", () => log.push("told"));
  }),
];

describe("an engine that dies", () => {
  const points = engineCrashPoints.filter((point) => !point.startsWith("engine.cron"));
  it.each(points)("at %s leaves nothing undone, and no step that was kept runs again", async (point) => {
    for (const occurrence of [1, 2]) {
      await emptyEngine(pool);
      log = [];
      const database = mortal(pool);
      const dead = gate();
      let seen = 0;
      const crashPoint = async (name: EngineCrashPoint) => {
        if (name !== point) return;
        seen += 1;
        if (seen < occurrence) return;
        database.die();
        dead.open();
        await new Promise(() => undefined);
      };
      const first = keep(await engineWith(database, everything, { crashPoint }));
      first.engine.start("all");
      first.engine.send([event("1")]).catch(() => undefined); // it may fail because of that
      await Promise.race([
        dead.opened,
        until(async () => (await runs()).filter((run) => run.status === "completed").length === 2),
      ]);

      const second = keep(await engineWith(pool, everything));
      second.engine.start("all");
      await second.engine.send([event("1")]);
      await until(async () => (await runs()).filter((run) => run.status === "completed").length === 2);
      await second.engine.idle();
      const stored = await pool.query("SELECT 1 FROM engine.steps");
      expect(stored.rowCount).toBe(6);
      // At most the step in progress when the engine died has run twice.
      expect(new Set(log)).toEqual(new Set(["one", "left", "right", "last", "told"]));
      expect(log.length).toBeLessThanOrEqual(7);
      expect(await leases()).toEqual([]);
    }
  });

  it("has its calls adopted at once, long before their leases end, and no stored step runs again", async () => {
    const stuck = gate();
    const functions = (client: Inngest) => [
      client.createFunction({ id: "f", triggers: [{ event: "a/b" }], retries: 0 }, async ({ step }) => {
        await step.run("kept", () => log.push("kept"));
        await step.run("stuck", async () => {
          log.push("stuck");
          if (log.length === 2) await stuck.opened;
        });
      }),
    ];
    const database = mortal(pool);
    const first = keep(await engineWith(database, functions));
    const second = keep(await engineWith(pool, functions));
    first.engine.start("all");
    await first.engine.send([event("1")]);
    await until(() => log.length === 2);
    const startedAt = performance.now();
    database.die();
    second.engine.start("all");
    await until(async () => (await runs())[0]?.status === "completed");
    expect(performance.now() - startedAt).toBeLessThan(10_000);
    expect(log).toEqual(["kept", "stuck", "stuck"]);
    stuck.open();
  });
});

describe("an engine that is held up", () => {
  it("loses its lease when it does not renew it, and its late answers change nothing", async () => {
    const held = gate();
    const functions = (name: string) => (client: Inngest) => [
      client.createFunction({ id: "f", triggers: [{ event: "a/b" }], retries: 0 }, async ({ step }) => {
        const by = await step.run("who", async () => {
          log.push(name);
          if (name === "slow") await held.opened;
          return name;
        });
        await step.run("after", () => log.push(`after ${by} by ${name}`));
        return by;
      }),
    ];
    // Renewal comes only after the lease has expired, as for a process that was stopped (SIGSTOP).
    const slow = keep(await engineWith(pool, functions("slow"), { leaseMs: 1_000_000_000 }));
    slow.engine.start("all");
    await slow.engine.send([event("1")]);
    await until(() => log.length === 1);
    await pool.query("UPDATE engine.jobs SET lease_until = clock_timestamp() - interval '1 second'");
    const fast = keep(await engineWith(pool, functions("fast")));
    fast.engine.start("all");
    await until(async () => (await runs())[0]?.status === "completed");
    held.open();
    await slow.engine.stop();
    expect(log).toEqual(["slow", "fast", "after fast by fast"]);
    expect(await runs()).toEqual([{ status: "completed", output: "fast" }]);
  });

  it("keeps a long call by renewing its lease", async () => {
    const held = gate();
    const functions = (client: Inngest) => [
      client.createFunction({ id: "f", triggers: [{ event: "a/b" }], retries: 0 }, async () => {
        log.push("called");
        await held.opened;
      }),
    ];
    const first = keep(await engineWith(pool, functions, { leaseMs: 300 }));
    const second = keep(await engineWith(pool, functions, { leaseMs: 300 }));
    first.engine.start("all");
    second.engine.start("all");
    await first.engine.send([event("1")]);
    const [taken] = await until(async () => (await leases()).length === 1).then(leases);
    await until(async () => (await leases())[0]?.lease_until.getTime() > taken?.lease_until.getTime() + 600);
    held.open();
    await first.engine.idle();
    expect(log).toEqual(["called"]);
  });
});

describe("stopping", () => {
  it("waits for the running calls, then releases the others", async () => {
    const [short, long] = [gate(), gate()];
    const functions = (client: Inngest) => [
      client.createFunction({ id: "f", triggers: [{ event: "a/b" }], retries: 0 }, async ({ event }) => {
        log.push(`called ${event.id}`);
        await (event.id === "short" ? short : long).opened;
        return event.id;
      }),
    ];
    const { engine } = keep(await engineWith(pool, functions));
    engine.start("all");
    await engine.send([event("short"), event("long"), event("long too")]);
    await until(() => log.length === 3);
    const stopped = engine.stop(500);
    await engine.send([event("late")]);
    short.open();
    await stopped;
    expect(await leases()).toEqual([]);
    expect((await runs()).map((run) => run.status).sort()).toEqual(["completed", "running", "running", "running"]);
    long.open();
    const next = keep(await engineWith(pool, functions));
    next.engine.start("all");
    await next.engine.idle();
    expect((await runs()).every((run) => run.status === "completed")).toBe(true);
    expect(log.filter((line) => line === "called late")).toHaveLength(1);
  });
});

describe("a database that goes away", () => {
  it("ends no run: connections that are killed repeatedly are opened again", async () => {
    const functions = (client: Inngest) => [
      client.createFunction(
        { id: "f", triggers: [{ event: "a/b" }], retries: 0, concurrency: 2 },
        async ({ step, event }) => {
          for (let n = 0; n < 5; n += 1) await step.run(`s${n}`, () => log.push(`${event.id} ${n}`));
          await step.sendEvent("tell", { name: "a/told", id: event.id ?? "", data: {} });
        },
      ),
      client.createFunction({ id: "told", triggers: [{ event: "a/told" }], retries: 0 }, async () => undefined),
    ];
    const { engine } = keep(await engineWith(pool, functions));
    engine.start("all");
    await engine.send(Array.from({ length: 20 }, (_, n) => event(`${n}`)));
    const completed = async () => (await runs()).filter((run) => run.status === "completed").length;
    for (let kill = 1; kill <= 6; kill += 1) {
      await until(() => log.length >= kill * 12);
      await pool
        .query(
          "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
        )
        .catch(() => undefined); // that connection itself may have just been killed
    }
    await until(async () => (await completed().catch(() => 0)) === 40);
    expect((await runs()).every((run) => run.status === "completed")).toBe(true);
    expect((await pool.query("SELECT 1 FROM engine.steps")).rowCount).toBe(20 * 6);
    expect(new Set(log).size).toBe(100);
  });

  it("makes `send` fail with an error that says to try again", async () => {
    const away = Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });
    const database = { query: () => Promise.reject(away), connect: () => Promise.reject(away) };
    const { engine } = await engineWith(database, () => []);
    await expect(engine.send([event("1")])).rejects.toMatchObject({ code: "database", retryable: true });
  });
});
