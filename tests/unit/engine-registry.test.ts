import { type Inngest as Client, Inngest, type InngestFunction } from "inngest";
import { describe, expect, it } from "vitest";
import { isTransient } from "../../src/engine/database.ts";
import { compileCron } from "../../src/engine/registration/cron-expression.ts";
import { compileKey } from "../../src/engine/registration/expression.ts";
import { specsOf } from "../../src/engine/registration/registry.ts";
import { createCaller } from "../../src/engine/sdk/caller.ts";

async function register(functions: (client: Client) => InngestFunction.Any[]) {
  const client = new Inngest({ id: "app", isDev: true });
  return specsOf(await createCaller(client, functions(client)).configs());
}

const handler = async () => undefined;
const on = [{ event: "a/b" }];
const withOptions = (options: object) =>
  register((client) => [client.createFunction({ id: "f", triggers: on, ...options } as never, handler)]);
const event = (name: string, data: Record<string, unknown> = {}) => ({ name, id: "1", data });

describe("registering functions", () => {
  it.each<[string, object]>([
    ["cancel", { cancelOn: [{ event: "a/c" }] }],
    ["debounce", { debounce: { period: "1s" } }],
    ["throttle", { throttle: { limit: 1, period: "1s" } }],
    ["rateLimit", { rateLimit: { limit: 1, period: "1s" } }],
    ["priority", { priority: { run: "1" } }],
    ["singleton", { singleton: { mode: "skip" } }],
    ["batchEvents", { batchEvents: { maxSize: 2, timeout: "1s" } }],
    ["idempotency", { idempotency: "event.data.id" }],
    ["timeouts", { timeouts: { start: "1s" } }],
    ['the trigger condition "event.data.ok"', { triggers: [{ event: "a/b", if: "event.data.ok" }] }],
    ["the trigger option jitter", { triggers: [{ cron: "* * * * *", jitter: "30s" }] }],
    ['the event name "a*"', { triggers: [{ event: "a*" }] }],
    ["no event and no cron trigger", { triggers: [] }],
    ["account", { concurrency: { limit: 1, scope: "account", key: "event.data.a" } }],
    ["scope env without a key", { concurrency: { limit: 1, scope: "env" } }],
    ["event.data.a > 1", { concurrency: { limit: 1, key: "event.data.a > 1" } }],
    ["event.user.id", { concurrency: { limit: 1, key: "event.user.id" } }],
  ])("refuses %s by name", async (name, options) => {
    const refusal = await withOptions(options).catch((error) => error);
    expect(refusal).toMatchObject({ code: "unsupported" });
    expect(refusal.message).toContain("function app-f");
    expect(refusal.message).toContain(name);
  });

  it("reads retries, and takes the SDK's documented default when there are none", async () => {
    expect((await withOptions({ retries: 0 })).get("app-f")?.maxAttempts).toBe(1);
    expect((await withOptions({ retries: 7 })).get("app-f")?.maxAttempts).toBe(8);
    expect((await withOptions({})).get("app-f")?.maxAttempts).toBe(4);
  });

  it("turns onFailure into a function that waits only for its own function's failure", async () => {
    const spec = (await withOptions({ onFailure: handler })).get("app-f-failure");
    expect(spec?.maxAttempts).toBe(2);
    expect(spec?.matches(event("inngest/function.failed", { function_id: "app-f" }))).toBe(true);
    expect(spec?.matches(event("inngest/function.failed", { function_id: "app-g" }))).toBe(false);
  });

  it("counts slots per function and per key, and once for options that share a key", async () => {
    const slots = async (concurrency: unknown) =>
      (await withOptions({ concurrency })).get("app-f")?.slots(event("a/b", { owner: { id: "x" } }));
    expect(await slots(3)).toEqual(["3 fn app-f"]);
    expect(await slots({ limit: 0 })).toEqual([]);
    expect(await slots([{ limit: 5 }, { limit: 2 }])).toEqual(["2 fn app-f"]);
    expect(await slots({ limit: 2, key: "event.data.owner.id" })).toEqual(['2 fn app-f event.data.owner.id = "x"']);
    expect(await slots({ limit: 2, key: '"all"', scope: "env" })).toEqual(['2 env "all" = "all"']);
  });
});

describe("concurrency keys", () => {
  const value = (expression: string, data: unknown) => compileKey(expression, "a key")({ data });
  it("are paths into the event's data, literals, and their concatenation", () => {
    expect(value("event.data.a", { a: 1 })).toBe("1");
    expect(value("event.data.a", { a: "1" })).toBe('"1"');
    expect(value("event.data.a.b", { a: null })).toBe("null");
    expect(value("event.data.toString", {})).toBe("null");
    expect(value("event.data.a + '-' + event.data.b", { a: "x", b: 2 })).toBe('"x-2"');
    expect(value("'a+b'", {})).toBe('"a+b"');
  });
  it.each(["", "event.data", "event.data.a +", "event.data['a']", "a", "event.data.a.b()", "'it\\'s'", "event.name"])(
    "are nothing else: %j",
    (expression) => {
      expect(() => compileKey(expression, "a key of f")).toThrow("a key of f has the expression");
    },
  );
});

describe("crons", () => {
  const at = (text: string) => Date.parse(text);
  it("are read in UTC, or in the zone they name", () => {
    expect(compileCron("30 4 * * *", "f")(at("2026-03-01T00:00:00Z"))).toBe(at("2026-03-01T04:30:00Z"));
    expect(compileCron("TZ=Europe/Berlin 30 4 * * *", "f")(at("2026-03-01T00:00:00Z"))).toBe(
      at("2026-03-01T03:30:00Z"),
    );
    expect(compileCron("*/5 * * * *", "f")(at("2026-03-01T00:05:00Z"))).toBe(at("2026-03-01T00:10:00Z"));
  });
  it.each(["", "* * * *", "* * * * * *", "99 * * * *", "TZ=Nowhere/At * * * * *", "@daily"])(
    "refuse %j",
    (expression) => {
      expect(() => compileCron(expression, "function f")).toThrow("function f has the cron");
    },
  );
});

describe("database errors", () => {
  it("are temporary or permanent", () => {
    const coded = (code: string) => Object.assign(new Error("x"), { code });
    for (const code of ["ECONNREFUSED", "ENOENT", "57P01", "57P03", "08006", "40P01"])
      expect(isTransient(coded(code))).toBe(true);
    for (const code of ["23505", "42P01", "22021", "EACCES"]) expect(isTransient(coded(code))).toBe(false);
    expect(isTransient(new Error("Connection terminated unexpectedly"))).toBe(true);
    expect(isTransient("ECONNREFUSED")).toBe(false);
  });
});
