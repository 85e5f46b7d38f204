import { type Inngest, type InngestFunction, NonRetriableError, RetryAfterError } from "inngest";
import type { Pool } from "pg";
import { afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { EngineOptions } from "../../src/engine/engine.ts";
import { testDatabase } from "../support/database.ts";
import { emptyEngine, engineWith, gate, until, type World } from "./engine-harness.ts";

let pool: Pool;
let log: string[] = [];
const worlds: World[] = [];

beforeAll(async () => {
  pool = (await testDatabase()).pool;
});
beforeEach(() => {
  log = [];
});
afterEach(async () => {
  for (const world of worlds.splice(0)) await world.engine.stop(0);
  await emptyEngine(pool);
});

async function world(
  functions: (client: Inngest) => InngestFunction.Any[],
  options: Partial<EngineOptions> = {},
): Promise<World> {
  const made = await engineWith(pool, functions, options);
  worlds.push(made);
  return made;
}

async function runsOf(functionId: string): Promise<{ status: string; output: unknown }[]> {
  const { rows } = await pool.query(
    "SELECT status, output FROM engine.runs WHERE function_id = $1 ORDER BY started_at, id",
    [functionId],
  );
  return rows;
}

const event = (name: string, id: string, data: Record<string, unknown> = {}) => ({ name, id, data });

describe("events", () => {
  it("start a run once, however often the same event is sent", async () => {
    const { engine } = await world((client) => [
      client.createFunction({ id: "f", triggers: [{ event: "a/b" }], retries: 0 }, async () => {
        log.push("ran");
      }),
    ]);
    engine.start("all");
    for (let time = 0; time < 5; time += 1) await engine.send([event("a/b", "same"), event("a/b", "same")]);
    await engine.idle();
    await engine.send([event("a/b", "same")]);
    await engine.idle();
    expect(log).toEqual(["ran"]);
  });

  it("with one id and different names are different events", async () => {
    const { engine } = await world((client) => [
      client.createFunction({ id: "f", triggers: [{ event: "a/*" }], retries: 0 }, async ({ event }) => {
        log.push(event.name);
      }),
    ]);
    engine.start("all");
    await engine.send([event("a/b", "same"), event("a/c", "same")]);
    await engine.idle();
    expect(log.sort()).toEqual(["a/b", "a/c"]);
  });

  it("match wildcards below a prefix and no other name", async () => {
    const { engine } = await world((client) => [
      client.createFunction({ id: "f", triggers: [{ event: "agent/execution.*" }], retries: 0 }, async ({ event }) => {
        log.push(event.name);
      }),
    ]);
    engine.start("all");
    const names = [
      "agent/execution.backend",
      "agent/execution.",
      "agent/execution",
      "agent/executions.x",
      "agent/execution.a.b",
    ];
    await engine.send(names.map((name) => event(name, "1")));
    await engine.idle();
    expect(log.sort()).toEqual(["agent/execution.a.b", "agent/execution.backend"]);
  });

  it("reach the function complete, strange characters included", async () => {
    const data = { text: "nul \u0000, half \ud800, \u{1f600}", nested: { z: 1, a: [null, 1.5] } };
    const { engine } = await world((client) => [
      client.createFunction({ id: "f", triggers: [{ event: "a/b" }], retries: 0 }, async ({ event, step, runId }) => {
        const echoed = await step.run("echo", () => event.data);
        return { echoed, id: event.id, ts: event.ts, runId };
      }),
    ]);
    engine.start("all");
    await engine.send([{ ...event("a/b", "1", data), ts: 17 }]);
    await engine.idle();
    const [run] = await runsOf("app-f");
    expect(run).toMatchObject({ status: "completed", output: { echoed: data, id: "1", ts: 17 } });
  });

  it("sent by a step start the functions that wait for them, and keep their own ids", async () => {
    const { engine } = await world((client) => [
      client.createFunction({ id: "first", triggers: [{ event: "a/b" }], retries: 0 }, async ({ step }) => {
        await step.sendEvent("tell", [
          { name: "a/next", id: "given", data: { n: 1 } },
          { name: "a/next", data: { n: 2 } },
        ]);
      }),
      client.createFunction({ id: "second", triggers: [{ event: "a/next" }], retries: 0 }, async ({ event }) => {
        log.push(`${event.data.n} ${event.id === "given"}`);
      }),
    ]);
    engine.start("all");
    await engine.send([event("a/b", "1")]);
    await engine.idle();
    expect(log.sort()).toEqual(["1 true", "2 false"]);
  });
});

describe("steps", () => {
  it("run once each, in a row and in parallel, and their results are kept", async () => {
    const { engine } = await world((client) => [
      client.createFunction({ id: "f", triggers: [{ event: "a/b" }], retries: 0 }, async ({ step }) => {
        const one = (name: string, value: number) =>
          step.run(name, () => {
            log.push(name);
            return value;
          });
        const first = await one("first", 1);
        const [left, right] = await Promise.all([
          one("left", 2),
          one("right", 3).then(async (value: number) => value + (await one("right again", 4))),
        ]);
        const twice = (await one("twice", 5)) + (await one("twice", 6));
        return { first, left, right, twice };
      }),
    ]);
    engine.start("all");
    await engine.send([event("a/b", "1")]);
    await engine.idle();
    expect(await runsOf("app-f")).toEqual([
      { status: "completed", output: { first: 1, left: 2, right: 7, twice: 11 } },
    ]);
    expect(log.sort()).toEqual(["first", "left", "right", "right again", "twice", "twice"]);
  });

  it("in parallel run at the same time", async () => {
    const both = [gate(), gate()] as const;
    const { engine } = await world((client) => [
      client.createFunction({ id: "f", triggers: [{ event: "a/b" }], retries: 0 }, async ({ step }) => {
        await Promise.all(
          [0, 1].map((mine) =>
            step.run(`p${mine}`, async () => {
              both[mine]?.open();
              await both[1 - mine]?.opened;
            }),
          ),
        );
      }),
    ]);
    engine.start("all");
    await engine.send([event("a/b", "1")]);
    await engine.idle();
    expect(await runsOf("app-f")).toMatchObject([{ status: "completed" }]);
  });

  it("sleep until the clock reaches the time", async () => {
    let nowMs = 1_000_000;
    const { engine } = await world(
      (client) => [
        client.createFunction({ id: "f", triggers: [{ event: "a/b" }], retries: 0 }, async ({ step }) => {
          await Promise.all([
            step.sleep("hour", "1h"),
            step.sleep("day", "1d"),
            step.run("meanwhile", () => log.push("meanwhile")),
          ]);
          log.push("awake");
        }),
      ],
      { clock: () => nowMs },
    );
    engine.start("all");
    await engine.send([event("a/b", "1")]);
    await engine.idle();
    expect(log).toEqual(["meanwhile"]);
    nowMs += 3_600_000;
    await engine.idle();
    expect(await runsOf("app-f")).toMatchObject([{ status: "running" }]);
    nowMs += 23 * 3_600_000;
    await engine.idle();
    expect(await runsOf("app-f")).toMatchObject([{ status: "completed" }]);
    expect(log).toEqual(["meanwhile", "awake"]);
  });
});

describe("failures", () => {
  it("are retried as often as `retries` says, and then reach onFailure", async () => {
    const { engine } = await world((client) => [
      client.createFunction(
        {
          id: "f",
          triggers: [{ event: "a/b" }],
          retries: 2,
          onFailure: async ({ error, event }) => {
            log.push(`failed: ${error.message} ${event.data.event.id} ${event.data.run_id.slice(0, 4)}`);
          },
        },
        async ({ step, attempt }) => {
          await step.run("fine", () => log.push("fine"));
          await step.run("broken", () => {
            log.push(`attempt ${attempt}`);
            throw new TypeError("no use");
          });
        },
      ),
    ]);
    engine.start("all");
    await engine.send([event("a/b", "1")]);
    await engine.idle();
    expect(log).toEqual(["fine", "attempt 0", "attempt 1", "attempt 2", "failed: no use 1 run_"]);
    expect(await runsOf("app-f")).toMatchObject([
      { status: "failed", output: { message: "no use", name: "TypeError" } },
    ]);
    expect(await runsOf("app-f-failure")).toMatchObject([{ status: "completed" }]);
  });

  it("of the function itself are retried too, but without repeating finished steps", async () => {
    const { engine } = await world((client) => [
      client.createFunction({ id: "f", triggers: [{ event: "a/b" }], retries: 3 }, async ({ step, attempt }) => {
        await step.run("once", () => log.push("once"));
        if (attempt < 2) throw new Error("not yet");
        return attempt;
      }),
    ]);
    engine.start("all");
    await engine.send([event("a/b", "1")]);
    await engine.idle();
    expect(log).toEqual(["once"]);
    expect(await runsOf("app-f")).toEqual([{ status: "completed", output: 2 }]);
  });

  it("are final if they say so", async () => {
    const { engine } = await world((client) => [
      client.createFunction({ id: "f", triggers: [{ event: "a/b" }], retries: 5 }, async () => {
        log.push("tried");
        throw new NonRetriableError("never");
      }),
    ]);
    engine.start("all");
    await engine.send([event("a/b", "1")]);
    await engine.idle();
    expect(log).toEqual(["tried"]);
    expect(await runsOf("app-f")).toMatchObject([{ status: "failed", output: { message: "never" } }]);
  });

  it("wait as long as RetryAfterError asks, otherwise as long as the engine's own delays", async () => {
    const nowMs = 1_000_000_000_000;
    const { engine } = await world(
      (client) => [
        client.createFunction({ id: "asks", triggers: [{ event: "a/b" }], retries: 1 }, async () => {
          throw new RetryAfterError("later", 90_000);
        }),
        client.createFunction({ id: "usual", triggers: [{ event: "a/b" }], retries: 1 }, async () => {
          throw new Error("later");
        }),
      ],
      { clock: () => nowMs, retryDelaysMs: [7_000] },
    );
    engine.start("all");
    await engine.send([event("a/b", "1")]);
    await engine.idle();
    const { rows } = await pool.query("SELECT function_id, due_at, attempt FROM engine.jobs ORDER BY function_id");
    expect(rows).toEqual([
      { function_id: "app-asks", due_at: new Date(nowMs + 90_000), attempt: 1 },
      { function_id: "app-usual", due_at: new Date(nowMs + 7_000), attempt: 1 },
    ]);
  });

  it("may be caught by the function if a step failed", async () => {
    const { engine } = await world((client) => [
      client.createFunction({ id: "f", triggers: [{ event: "a/b" }], retries: 0 }, async ({ step }) => {
        const caught = await step
          .run("broken", () => Promise.reject(new RangeError("so")))
          .catch((error: Error) => error.message);
        return `caught ${caught}`;
      }),
    ]);
    engine.start("all");
    await engine.send([event("a/b", "1")]);
    await engine.idle();
    expect(await runsOf("app-f")).toEqual([{ status: "completed", output: "caught so" }]);
  });

  it("name function, step and op when a function uses what the engine does not support", async () => {
    const { engine } = await world((client) => [
      client.createFunction({ id: "f", triggers: [{ event: "a/b" }], retries: 4 }, async ({ step }) => {
        log.push("called");
        await step.waitForEvent("the answer", { event: "a/answer", timeout: "1h" });
      }),
    ]);
    engine.start("all");
    await engine.send([event("a/b", "1")]);
    await engine.idle();
    expect(log).toEqual(["called"]);
    const message =
      'function app-f uses the op WaitForEvent of step "the answer", which the embedded engine does not support';
    expect(await runsOf("app-f")).toMatchObject([{ status: "failed", output: { message } }]);
  });
});

describe("order and limits", () => {
  it("start runs in the order of their events", async () => {
    const { engine } = await world((client) => [
      client.createFunction(
        { id: "f", triggers: [{ event: "a/b" }], retries: 0, concurrency: 1 },
        async ({ event }) => {
          log.push(event.data.n);
        },
      ),
    ]);
    await engine.send([event("a/b", "z", { n: "0" }), event("a/b", "a", { n: "1" })]);
    for (let n = 2; n < 20; n += 1) await engine.send([event("a/b", `${100 - n}`, { n: `${n}` })]);
    engine.start("all");
    await engine.idle();
    expect(log).toEqual(Array.from({ length: 20 }, (_, n) => `${n}`));
  });

  it("run no more at once per key than the limit, across two engines", async () => {
    const running: string[] = [];
    const seven = gate();
    const functions = (client: Inngest) => [
      client.createFunction(
        {
          id: "f",
          triggers: [{ event: "a/b" }],
          retries: 0,
          concurrency: [{ limit: 3, key: "event.data.owner.id" }, { limit: 7 }],
        },
        async ({ event, step }) => {
          await step.run("work", async () => {
            running.push(event.data.owner.id);
            for (const key of running) expect(running.filter((other) => other === key).length).toBeLessThanOrEqual(3);
            expect(running.length).toBeLessThanOrEqual(7);
            if (running.length === 7) seven.open();
            await seven.opened;
            await new Promise((resolve) => setImmediate(resolve));
            running.splice(running.indexOf(event.data.owner.id), 1);
            log.push(event.data.owner.id);
          });
        },
      ),
    ];
    const first = await world(functions);
    const second = await world(functions);
    const events = Array.from({ length: 80 }, (_, n) => event("a/b", `${n}`, { owner: { id: `k${n % 4}` } }));
    await first.engine.send(events);
    first.engine.start("all");
    second.engine.start("all");
    await first.engine.idle();
    expect(log).toHaveLength(80);
    expect((await runsOf("app-f")).every((run) => run.status === "completed")).toBe(true);
  });

  it("let a free key pass a full one", async () => {
    const held = gate();
    const { engine } = await world(
      (client) => [
        client.createFunction(
          {
            id: "f",
            triggers: [{ event: "a/b" }],
            retries: 0,
            concurrency: { limit: 1, key: "event.data.key", scope: "env" },
          },
          async ({ event }) => {
            if (event.data.key === "full") await held.opened;
            log.push(event.id ?? "");
          },
        ),
      ],
      { parallelism: 2 },
    );
    const full = Array.from({ length: 30 }, (_, n) => event("a/b", `full${n}`, { key: "full" }));
    await engine.send([...full, event("a/b", "free", { key: "free" })]);
    engine.start("all");
    await until(() => log.length === 1);
    expect(log).toEqual(["free"]);
    held.open();
    await engine.idle();
    expect(log).toHaveLength(31);
  });

  it("claim only the served partitions, and those of nobody; a set may grow", async () => {
    const serves = new Set(["one"]);
    const { engine } = await world(
      (client) => [
        client.createFunction(
          {
            id: "f",
            triggers: [{ event: "a/b" }],
            retries: 0,
            onFailure: async ({ event }) => {
              log.push(`failed ${event.data.event.id}`);
            },
          },
          async ({ event, step }) => {
            await Promise.all([step.run("x", () => 1), step.run("y", () => 2)]);
            log.push(event.id ?? "");
            if (event.id === "2") throw new Error("so that onFailure runs");
          },
        ),
      ],
      { partition: (event) => (event.data.build as string | undefined) ?? null },
    );
    engine.start(serves);
    await engine.send([event("a/b", "1", { build: "one" }), event("a/b", "2", { build: "two" }), event("a/b", "3")]);
    await engine.idle();
    expect(log.sort()).toEqual(["1", "3"]);
    serves.add("two");
    await until(() => log.length === 4);
    expect(log.slice(2)).toEqual(["2", "failed 2"]);
    const { rows } = await pool.query("SELECT partition FROM engine.runs WHERE function_id = 'app-f-failure'");
    expect(rows).toEqual([{ partition: "two" }]);
  });
});

describe("crons", () => {
  it("fire once per tick across two engines, and once for any number of missed ticks", async () => {
    let nowMs = Date.UTC(2026, 0, 1, 0, 0, 30);
    const functions = (client: Inngest) => [
      client.createFunction({ id: "f", triggers: [{ cron: "*/5 * * * *" }], retries: 0 }, async ({ event }) => {
        log.push(`${(event.data as { cron: string }).cron} ${new Date(event.ts ?? 0).toISOString().slice(11, 16)}`);
      }),
    ];
    const engines = [await world(functions, { clock: () => nowMs }), await world(functions, { clock: () => nowMs })];
    for (const { engine } of engines) engine.start("all");
    await until(async () => (await pool.query("SELECT 1 FROM engine.crons")).rowCount === 1);
    expect(log).toEqual([]);
    nowMs = Date.UTC(2026, 0, 1, 0, 5, 0);
    await until(() => log.length === 1);
    nowMs = Date.UTC(2026, 0, 1, 1, 2, 0);
    await until(() => log.length === 2);
    nowMs = Date.UTC(2026, 0, 1, 1, 5, 0);
    await until(() => log.length === 3);
    expect(log).toEqual(["*/5 * * * * 00:05", "*/5 * * * * 00:10", "*/5 * * * * 01:05"]);
    expect(await runsOf("app-f")).toHaveLength(3);
  });
});

describe("the client's fetch", () => {
  it("names the endpoints that the engine does not answer, and refuses them", async () => {
    const { engine } = await world(() => []);
    await expect(engine.fetch("http://engine.invalid/v1/signals", { method: "POST", body: "{}" })).rejects.toThrow(
      "does not answer POST /v1/signals",
    );
  });

  it("answers a checkpoint of a superseded call with 409 and stores nothing of it", async () => {
    const held = gate();
    const { engine } = await world((client) => [
      client.createFunction({ id: "f", triggers: [{ event: "a/b" }], retries: 0 }, async ({ step }) => {
        await step.run("hold", () => held.opened);
      }),
    ]);
    engine.start("all");
    await engine.send([event("a/b", "1")]);
    await until(async () => (await pool.query("SELECT 1 FROM engine.jobs WHERE holder IS NOT NULL")).rowCount === 1);
    const { rows } = await pool.query("SELECT id, run_id, generation FROM engine.jobs");
    const checkpoint = (generation: number) =>
      engine.fetch(`http://engine.invalid/v1/checkpoint/${rows[0].run_id}/async`, {
        method: "POST",
        body: JSON.stringify({
          run_id: rows[0].run_id,
          qi_id: rows[0].id,
          generation_id: generation,
          steps: [{ id: `step of ${generation}`, op: "StepRun", data: 1 }],
        }),
      });
    expect((await checkpoint(rows[0].generation - 1)).status).toBe(409);
    expect((await checkpoint(rows[0].generation)).status).toBe(200);
    const steps = await pool.query("SELECT step_id, value FROM engine.steps");
    expect(steps.rows).toEqual([{ step_id: `step of ${rows[0].generation}`, value: { data: 1 } }]);
    held.open();
    await engine.idle();
  });
});

describe("retention", () => {
  it("forgets runs that ended long ago, but never that an event was seen", async () => {
    let nowMs = 1_000_000_000_000;
    const functions = (client: Inngest) => [
      client.createFunction({ id: "f", triggers: [{ event: "a/b" }], retries: 0 }, async ({ step }) => {
        await step.run("s", () => log.push("ran"));
      }),
    ];
    const { engine } = await world(functions, { clock: () => nowMs, retentionMs: 1_000 });
    engine.start("all");
    await engine.send([event("a/b", "1")]);
    await engine.idle();
    await engine.stop();
    nowMs += 5_000;
    engine.start("all");
    const eventsWithData = "SELECT 1 FROM engine.events WHERE data IS NOT NULL";
    await until(async () => (await pool.query(eventsWithData)).rowCount === 0);
    expect(await runsOf("app-f")).toEqual([]);
    await engine.send([event("a/b", "1")]);
    await engine.idle();
    expect(log).toEqual(["ran"]);
    expect((await pool.query("SELECT 1 FROM engine.steps")).rowCount).toBe(0);
    expect((await pool.query("SELECT name, data FROM engine.events")).rows).toEqual([{ name: "a/b", data: null }]);
  });
});
