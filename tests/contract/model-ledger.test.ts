import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { randomIds } from "../../src/domain/ids.ts";
import { createModelLedger } from "../../src/models/budget/ledger.ts";
import { createModels } from "../../src/models/models.ts";
import type { ModelLedger, Models } from "../../src/models/port.ts";
import { tokenOf } from "../../src/models/token.ts";
import type { Store } from "../../src/store/port.ts";
import { createStore } from "../../src/store/store.ts";
import { bundledProgram } from "../support/bundled-program.ts";
import { type TestDatabase, testDatabase } from "../support/database.ts";
import {
  type FakeAnswer,
  type FakeProviders,
  type FakeRequest,
  startFakeProviders,
} from "../support/fake-providers.ts";
import { callModel, liveModelAttempt, modelAttempt, modelBuild, modelProject } from "../support/model-builds.ts";
import type { ModelProcessInput } from "../support/model-process.ts";

// W10: a reservation is settled once, whichever process dies, and simultaneous calls do not exceed
// the budget.

let database: TestDatabase;
let store: Store;
beforeEach(async () => {
  database = await testDatabase();
  store = createStore(database.pool);
});
afterEach(() => database.close());

const program = await bundledProgram("model-process");
const spending = () => store.buildSpending.get({ buildId: modelBuild });
const price = { provider: "p", model: "m", input: 2, cached: 2, cacheWrite: 2, output: 10 };

/** Repeatable: the title of a run includes its seed. */
function randomFrom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

async function until(what: string, holds: () => Promise<boolean> | boolean): Promise<void> {
  const deadline = Date.now() + 60_000;
  while (!(await holds())) {
    if (Date.now() > deadline) throw new Error(`never came to pass: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

describe("a budget under many calls at once", () => {
  const seeds = [1, 2, Date.now() % 1_000_000];
  it.each(
    seeds.flatMap((seed) => [
      { seed, budget: { tokens: 60_000, usd: null } },
      { seed, budget: { tokens: null, usd: 0.3 } },
    ]),
  )("is never exceeded, and every call is counted once (seed $seed, $budget)", async ({ seed, budget }) => {
    await liveModelAttempt(store, budget);
    const random = randomFrom(seed);
    const make = (): ModelLedger =>
      createModelLedger({
        store: createStore(database.pool),
        ids: randomIds,
        now: () => new Date(),
        priceOf: () => price,
      });
    // To the database, these are two processes.
    const ledgers = [make(), make()];
    const owner = (await ledgers[0]!.findOwner("attempt", modelAttempt.id, modelAttempt.fence))!;
    const held = async (): Promise<void> => {
      const row = await spending();
      expect(row.spentTokens + row.reservedTokens).toBeLessThanOrEqual(budget.tokens ?? Number.POSITIVE_INFINITY);
      expect(row.spentMicroUsd + row.reservedMicroUsd).toBeLessThanOrEqual((budget.usd ?? 1e6) * 1e6);
    };
    const plans = Array.from({ length: 120 }, () => ({
      ledger: ledgers[random(2)]!,
      inputTokens: random(1_500),
      outputTokens: 1 + random(6_000),
      used: random(101) / 100,
      end: ["done", "done", "done", "cut", "failed", "dead"][random(6)]!,
    }));
    let refused = 0;
    const make1 = async ({ ledger, inputTokens, outputTokens, used, end }: (typeof plans)[number]): Promise<void> => {
      const asked = {
        owner,
        provider: "p",
        model: "m",
        inputTokens,
        outputTokens,
        leastOutputTokens: 256,
        keepsLong: false,
        offersTools: true,
      };
      // A caller hangs up if it waits for calls that nobody will ever settle.
      const hungUp = AbortSignal.timeout(300);
      const granted = await ledger.reserve(asked, hungUp).catch(() => ({ callId: null }) as const);
      if (granted.callId === null) {
        refused += 1;
        return;
      }
      expect(granted.outputTokens).toBeLessThanOrEqual(outputTokens);
      await held();
      if (end === "dead") return;
      const count = { inputTokens, cachedTokens: 0, cacheWriteTokens: 0 };
      const usage = end === "done" ? { ...count, outputTokens: Math.floor(granted.outputTokens * used) } : null;
      const outcome = { status: end as "done" | "cut" | "failed", httpStatus: null, error: null };
      const settlement = { ...outcome, usage, isEstimated: usage === null, ending: "whole" as const };
      // Settled twice, by a process that does not know whether its first try arrived, or by one
      // that takes over; it counts once.
      await Promise.all([ledger.settle(granted.callId, settlement), ledgers[0]!.settle(granted.callId, settlement)]);
      await held();
    };
    const queue = [...plans];
    await Promise.all(
      Array.from({ length: 12 }, async () => {
        for (let next = queue.shift(); next !== undefined; next = queue.shift()) await make1(next);
      }),
    );
    expect(refused).toBeGreaterThan(0);
    // Sums and calls agree, and a process that takes over counts the reservations of dead processes
    // as spent.
    const agree = async (): Promise<void> => {
      const calls = await store.modelCalls.list({ buildId: modelBuild });
      const open = calls.filter(({ status }) => status === "open");
      const spent = [...(await store.modelSpending(modelBuild)).values()];
      const sum = (of: (one: (typeof spent)[number]) => number): number => spent.reduce((all, one) => all + of(one), 0);
      expect(await spending()).toMatchObject({
        reservedTokens: open.reduce((all, call) => all + call.reservedTokens, 0),
        reservedMicroUsd: open.reduce((all, call) => all + call.reservedMicroUsd!, 0),
        spentTokens: sum(({ tokens }) => tokens),
        spentMicroUsd: sum(({ microUsd }) => microUsd),
      });
    };
    await agree();
    const another = make();
    await Promise.all([another.settleLeft(modelProject), another.settleLeft(modelProject)]);
    await agree();
    expect(await spending()).toMatchObject({ reservedTokens: 0, reservedMicroUsd: 0 });
    await held();
  });

  it("is enforced by the store in one statement, which records a call only if there is room", async () => {
    await liveModelAttempt(store);
    const call = {
      id: "call_1",
      buildId: modelBuild,
      ownerKind: "attempt",
      ownerId: modelAttempt.id,
      provider: "p",
      model: "m\0\ud800",
      status: "open",
      offersTools: true,
      reservedTokens: 600,
      reservedMicroUsd: 70,
      startedAt: new Date(1_000),
    } as const;
    // The first call of a build creates its row.
    expect(await store.reserveModelCall(call, { tokens: null, microUsd: null })).toBe(false);
    await store.buildSpending.insertIfAbsent({ buildId: modelBuild, spentTokens: 100, spentMicroUsd: 30 });
    expect(await store.reserveModelCall(call, { tokens: 699, microUsd: null })).toBe(false);
    expect(await store.reserveModelCall(call, { tokens: null, microUsd: 99 })).toBe(false);
    expect(await store.modelCalls.list({})).toEqual([]);
    expect(await spending()).toMatchObject({ reservedTokens: 0, reservedMicroUsd: 0 });
    expect(await store.reserveModelCall(call, { tokens: 700, microUsd: 100 })).toBe(true);
    const { id } = call;
    expect(await store.modelCalls.list({})).toMatchObject([{ ...call, model: "m\ufffd\ufffd", endedAt: null }]);
    expect(await spending()).toMatchObject({ reservedTokens: 600, reservedMicroUsd: 70 });
    // A call at an unknown price, and a repeated id, which leaves nothing behind.
    const unpriced = { ...call, id: "call_2", reservedMicroUsd: null };
    expect(await store.reserveModelCall(unpriced, { tokens: null, microUsd: null })).toBe(true);
    await expect(store.reserveModelCall({ ...call, id }, { tokens: null, microUsd: null })).rejects.toThrow();
    expect(await spending()).toMatchObject({ reservedTokens: 1_200, reservedMicroUsd: 70, spentTokens: 100 });
  });

  it("is exceeded by two streaming agents only by what providers count beyond their reservations", async () => {
    await liveModelAttempt(store, { tokens: 10_000, usd: null });
    const ledger = createModelLedger({ store, ids: randomIds, now: () => new Date(), priceOf: () => null });
    const owner = (await ledger.findOwner("attempt", modelAttempt.id, modelAttempt.fence))!;
    const asked = {
      owner,
      provider: "p",
      model: "m",
      inputTokens: 500,
      outputTokens: 8_000,
      leastOutputTokens: 256,
      keepsLong: false,
      offersTools: true,
    };
    const ask = () => ledger.reserve(asked, AbortSignal.timeout(60_000));
    const [first, second] = [ask(), ask()];
    const granted = await Promise.race([first, second]);
    // One got everything it asked for, and the other waits for it.
    expect(granted).toMatchObject({ outputTokens: 8_000 });
    await until("the other waits", async () => (await store.modelCalls.list({ status: "waiting" })).length === 1);
    expect(ledger.waiting(owner.id)).toBe(1);
    // A provider overshoots by a fifth: no further call passes, and waiting calls end at once.
    const usage = { inputTokens: 500, cachedTokens: 0, cacheWriteTokens: 0, outputTokens: 9_600 };
    await ledger.settle(granted.callId!, {
      status: "done",
      usage,
      isEstimated: false,
      ending: "whole",
      httpStatus: 200,
      error: null,
    });
    const other = (await Promise.all([first, second])).find(({ callId }) => callId !== granted.callId);
    expect(other).toMatchObject({
      callId: null,
      isOver: true,
      reason: expect.stringContaining("10100 of 10000 tokens"),
    });
    expect((await ask()).callId).toBeNull();
    expect((await spending()).spentTokens).toBe(10_100);
    expect([await store.modelCalls.list({ status: "waiting" }), ledger.waiting(owner.id)]).toEqual([[], 0]);
  });
});

describe("a process that is killed in the middle of a call", () => {
  let folder: string;
  let providers: FakeProviders;
  let answers: (request: FakeRequest) => FakeAnswer | Promise<FakeAnswer>;
  let children: ChildProcess[];
  let mine: Models[];
  const socket = () => join(folder, "model.sock");
  const message = { model: "claude-sonnet-4-5", max_tokens: 2_000, messages: [{ role: "user", content: "hello" }] };

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), "wavesmith-ledger-"));
    answers = () => ({ text: "hello" });
    providers = await startFakeProviders((asked) => answers(asked));
    children = [];
    mine = [];
  });
  afterEach(async () => {
    for (const child of children) await kill(child);
    for (const models of mine) await models.close();
    await providers.close();
    rmSync(folder, { recursive: true, force: true });
  });

  async function kill(child: ChildProcess): Promise<void> {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGKILL");
    await once(child, "exit");
  }

  function startProcess(): { child: ChildProcess; said: () => string } {
    const input: ModelProcessInput = {
      databaseUrl: database.url,
      socket: socket(),
      projectId: modelProject,
      providerUrl: providers.url,
    };
    const child = spawn(process.execPath, [program, JSON.stringify(input)], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    let said = "";
    child.stdout!.setEncoding("utf8").on("data", (text: string) => {
      said += text;
    });
    children.push(child);
    return { child, said: () => said };
  }

  function takeOver(): Models {
    const models = createModels({
      store,
      ids: randomIds,
      now: () => new Date(),
      prices: [],
      cassette: null,
      patienceMs: 0,
      providers: [{ name: "anthropic", baseUrl: providers.url, headers: { "x-api-key": "real-key" } }],
      warn: () => undefined,
    });
    models.listen(socket(), modelProject);
    mine.push(models);
    return models;
  }

  const token = () => createToken(store);

  it("leaves a reservation that the next one settles, once, although the agent lives on", async () => {
    await liveModelAttempt(store, { tokens: 6_000, usd: null });
    let release: () => void = () => undefined;
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    answers = async ({ number }) => {
      if (number === 1) await held;
      return { text: "hello", inputTokens: 20, outputTokens: 5 };
    };
    const { child } = startProcess();
    const cut = callModel(socket(), await token(), message);
    await until("the provider is asked", () => providers.requests.length === 1);
    const [open] = await store.modelCalls.list({ status: "open" });
    expect(await spending()).toMatchObject({ reservedTokens: open!.reservedTokens, spentTokens: 0 });
    await kill(child);
    expect((await cut).status).toBe(0);

    takeOver();
    expect((await callModel(socket(), await token(), message)).status).toBe(200);
    release();
    expect(await store.modelCalls.get({ id: open!.id })).toMatchObject({
      status: "cut",
      error: expect.stringContaining("gone"),
    });
    // Counted in full, because nobody knows; the next call gets the rest of the budget, not less.
    expect(await spending()).toMatchObject({ reservedTokens: 0, spentTokens: open!.reservedTokens + 25 });
    expect((await store.modelSpending(modelBuild)).get(modelAttempt.id)).toMatchObject({ calls: 2, openCalls: 0 });
  });

  it("has its call repeated by the process that takes over, also while the provider is busy", async () => {
    await liveModelAttempt(store);
    // Busy for all processes at first, then once more for the second one, which does not know that
    // the first has waited.
    answers = ({ number }) =>
      number <= 2 ? { status: 429, headers: { "retry-after": number === 1 ? "600" : "0.3" } } : { text: "later" };
    const { child, said } = startProcess();
    const first = callModel(socket(), await token(), message);
    await until("it waits for the provider", () => said().includes("its calls wait for 600 s"));
    await kill(child);
    expect((await first).status).toBe(0);
    expect(startProcess().child.pid).toBeDefined();
    // The request of an agent whose connection broke.
    expect((await callModel(socket(), await token(), message)).status).toBe(200);
    expect(providers.requests).toHaveLength(3);
    expect((await spending()).reservedTokens).toBe(0);
  });
});

/** As the coordinator passes it to the agent: the same in every process. */
async function createToken(store: Store): Promise<string> {
  return tokenOf(await store.modelSecret("x".repeat(40)), { kind: "attempt", ...modelAttempt });
}
