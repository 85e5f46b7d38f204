import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { ModelsOptions } from "../../src/models/models.ts";
import type { Store } from "../../src/store/port.ts";
import { createStore } from "../../src/store/store.ts";
import { type TestDatabase, testDatabase } from "../support/database.ts";
import {
  callModelAt,
  liveModelAttempt,
  modelAttempt,
  modelBuild,
  modelProject,
  openTestModels,
  type TestModels,
} from "../support/model-builds.ts";

// How much of a budget is free, and what calls cost if they did not end normally.

let folder: string;
let database: TestDatabase;
let store: Store;
let open: TestModels[];
let servers: { close(): Promise<void> }[];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "wavesmith-budget-"));
  database = await testDatabase();
  store = createStore(database.pool);
  open = [];
  servers = [];
});
afterEach(async () => {
  for (const models of open) await models.close();
  for (const server of servers) await server.close();
  await database.close();
  rmSync(folder, { recursive: true, force: true });
});

type Answer = (response: ServerResponse, body: { max_tokens: number; [key: string]: unknown }) => Promise<void> | void;

/** A provider that a test controls byte by byte, and the proxy in front of it. */
async function provider(answer: Answer, more: Partial<ModelsOptions> = {}): Promise<TestModels & { seen: object[] }> {
  const seen: object[] = [];
  const server = createServer(async (incoming: IncomingMessage, response) => {
    let text = "";
    for await (const chunk of incoming) text += chunk;
    const body = JSON.parse(text);
    seen.push(body);
    await answer(response, body);
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const close = (): Promise<void> =>
    new Promise((done) => {
      server.close(() => done());
      server.closeAllConnections();
    });
  servers.push({ close });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const models = await openTestModels({ store, folder, url }, more);
  open.push(models);
  return { ...models, seen };
}

const messages = "/anthropic/v1/messages";
const chat = "/openai/v1/chat/completions";
const message = (more: object = {}) => ({ model: "m", max_tokens: 1_000, messages: [], ...more });
const ask = ({ socket, token }: TestModels, body: object, path = messages) =>
  callModelAt({ socketPath: socket, token, path }, body);
const spending = () => store.buildSpending.get({ buildId: modelBuild });
const spent = async () => (await store.modelSpending(modelBuild)).get(modelAttempt.id);

async function until(what: string, holds: () => Promise<boolean> | boolean): Promise<void> {
  for (const deadline = Date.now() + 50_000; !(await holds()); ) {
    if (Date.now() > deadline) throw new Error(`never came to pass: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

const event = (data: { type: string; [key: string]: unknown }) =>
  `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`;
const start = event({ type: "message_start", message: { usage: { input_tokens: 40, output_tokens: 1 } } });
const delta = (text: string) => event({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text } });
const end = (tokens: number) =>
  event({ type: "message_delta", usage: { output_tokens: tokens } }) + event({ type: "message_stop" });

function stream(response: ServerResponse, ...parts: string[]): void {
  response.writeHead(200, { "content-type": "text/event-stream" });
  for (const part of parts) response.write(part);
}

/** Starts a call, and hangs up as soon as `heard` returns true for the answer so far. */
async function hangUp(
  { socket, token }: TestModels,
  body: object,
  heard: RegExp | null,
  path = messages,
): Promise<() => void> {
  const headers = { authorization: `Bearer ${token}` };
  const outgoing = request({ socketPath: socket, path, method: "POST", headers });
  outgoing.on("error", () => undefined);
  const come = new Promise<void>((resolve) => {
    if (heard === null) return resolve();
    let text = "";
    outgoing.on("response", (reply) =>
      reply
        .on("error", () => undefined)
        .on("data", (chunk) => {
          text += chunk;
          if (heard.test(text)) resolve();
        }),
    );
  });
  outgoing.end(JSON.stringify(body));
  await come;
  return () => outgoing.destroy();
}

/** Resolves once it listens; this counts no call. */
const listens = ({ socket, token }: TestModels) =>
  until("the proxy listens", () =>
    callModelAt({ socketPath: socket, token, path: "/nowhere" }, {}).then(({ status }) => status === 404),
  );

describe("a tenant with a limit in USD", () => {
  const answerAll: Answer = (response) =>
    void response.end(JSON.stringify({ usage: { input_tokens: 20, output_tokens: 10 } }));

  it("makes no more calls in any of its builds once the limit is spent, until it is raised", async () => {
    await liveModelAttempt(store);
    const base = { tenantId: "ten", projectId: modelProject, sandboxDriver: "local", network: "none" as const };
    const plan = (await store.builds.get({ id: modelBuild })).plan;
    await store.builds.insert({ id: "bld-other", eventId: "before", status: "queued", plan, ...base });
    await store.buildSpending.insert({ buildId: "bld-other", spentMicroUsd: 12_499_999 });
    const models = await provider(answerAll, {
      tenantLimits: { builds: null, tasks: null, sandboxes: null, usd: 12.5 },
    });
    await listens(models);
    expect((await ask(models, message())).status).toBe(200);
    await store.buildSpending.update({ buildId: "bld-other" }, { spentMicroUsd: 12_500_000 });
    const refused = await ask(models, message());
    expect([refused.status, JSON.parse(refused.text).error.message]).toEqual([
      402,
      "wavesmith: over budget: this tenant has spent 12.50 of 12.5 USD; " +
        "an operator can raise that with `wavesmith tenants limit`",
    ]);
    await store.tenants.update({ id: "ten" }, { limits: { usd: 20 } });
    expect((await ask(models, message())).status).toBe(200);
    await store.tenants.update({ id: "ten" }, { limits: { usd: 1 } });
    expect((await ask(models, message())).status).toBe(402);
    await store.tenants.update({ id: "ten" }, { limits: { usd: null } });
    expect((await ask(models, message())).status).toBe(200);
    expect(models.seen).toHaveLength(3);
  });
});

describe("a call that a budget has no room for now", () => {
  it("waits for its turn: of five calls at once with room for one, each is made and none exceeds the budget", async () => {
    await liveModelAttempt(store, { tokens: 2_000, usd: null });
    let atWork = 0;
    let most = 0;
    const order: unknown[] = [];
    let release: () => void = () => undefined;
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const models = await provider(async (response, body) => {
      atWork += 1;
      most = Math.max(most, atWork);
      order.push((body.metadata as { user_id: string }).user_id);
      await held;
      atWork -= 1;
      response.end(JSON.stringify({ usage: { input_tokens: 20, output_tokens: 10 } }));
    });
    await listens(models);
    const calls: Promise<{ status: number }>[] = [];
    for (const number of [0, 1, 2, 3, 4]) {
      calls.push(ask(models, message({ max_tokens: 1_500, metadata: { user_id: `${number}` } })));
      await until("it is made, or waits", async () => ((await spent())?.calls ?? 0) > number);
    }
    // People see that they wait, and so does the agent host, which would otherwise think the agent
    // is stuck.
    expect(await spent()).toMatchObject({ calls: 5, openCalls: 1, waitingCalls: 4, tokens: 0 });
    const headers = { authorization: `Bearer ${models.token}` };
    const waiting = new Promise<string>((resolve) => {
      request({ socketPath: models.socket, path: "/wavesmith/waiting", headers }, (reply) => {
        reply.once("data", (chunk) => resolve(String(chunk)));
      }).end();
    });
    expect(JSON.parse(await waiting)).toEqual({ waiting: 4 });
    release();
    expect((await Promise.all(calls)).map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
    expect([most, order]).toEqual([1, ["0", "1", "2", "3", "4"]]);
    expect(await spending()).toMatchObject({ reservedTokens: 0, spentTokens: 150 });
    expect(await spent()).toMatchObject({ calls: 5, openCalls: 0, waitingCalls: 0, estimatedCalls: 0 });
  });

  it("stops waiting with its agent, when a limit is used up, or after its time", async () => {
    await liveModelAttempt(store, { tokens: 2_000, usd: null });
    let release: (tokens: number) => void = () => undefined;
    const models = await provider(async (response) => {
      const tokens = await new Promise<number>((resolve) => {
        release = resolve;
      });
      response.end(JSON.stringify({ usage: { input_tokens: 20, output_tokens: tokens } }));
    });
    await listens(models);
    const first = ask(models, message({ max_tokens: 1_500 }));
    await until("the first is under way", () => models.seen.length === 1);
    const leave = await hangUp(models, message({ max_tokens: 1_500 }), null);
    await until("the second waits", async () => (await spent())?.waitingCalls === 1);
    const third = ask(models, message({ max_tokens: 1_500 }));
    await until("the third waits", async () => (await spent())?.waitingCalls === 2);
    leave();
    await until("the second is gone", async () => (await spent())?.waitingCalls === 1);
    release(1_900);
    expect((await first).status).toBe(200);
    const { status, text } = await third;
    expect([status, JSON.parse(text).error.message]).toEqual([
      402,
      expect.stringMatching(/1920 of 2000 tokens are spent: no room for this call, which may take \d{3} tokens$/),
    ]);
    expect(models.seen).toHaveLength(1);
    expect(await spent()).toMatchObject({ calls: 1, waitingCalls: 0 });
    expect(models.warnings).toEqual([]);
  });

  it("notices that its plan now has a larger budget", async () => {
    await liveModelAttempt(store, { tokens: 2_000, usd: null });
    let release: () => void = () => undefined;
    const models = await provider(async (response, body) => {
      if (body.max_tokens === 1_500) await new Promise<void>((resolve) => (release = resolve));
      response.end(JSON.stringify({ usage: { input_tokens: 20, output_tokens: 10 } }));
    });
    await listens(models);
    const first = ask(models, message({ max_tokens: 1_500 }));
    await until("the first is under way", () => models.seen.length === 1);
    const second = ask(models, message({ max_tokens: 1_400 }));
    await until("the second waits", async () => (await spent())?.waitingCalls === 1);
    await liveModelAttempt(store, { tokens: 20_000, usd: null });
    expect((await second).status).toBe(200);
    release();
    expect((await first).status).toBe(200);
  });

  it("thinks no longer than it may answer, and is not made without enough room to think", async () => {
    await liveModelAttempt(store, { tokens: 4_000, usd: null });
    const models = await provider((response) => {
      response.end(JSON.stringify({ usage: { input_tokens: 20, output_tokens: 2_800 } }));
    });
    const thinking = { type: "enabled", budget_tokens: 31_999 };
    expect((await ask(models, message({ max_tokens: 32_000, thinking }))).status).toBe(200);
    const sent = models.seen[0] as { max_tokens: number; thinking: { budget_tokens: number } };
    expect(sent.max_tokens).toBeLessThan(4_000);
    expect(sent.thinking.budget_tokens).toBe(sent.max_tokens - 256);
    expect(
      (await ask(models, message({ max_tokens: 32_000, thinking: { ...thinking, budget_tokens: 9 } }))).status,
    ).toBe(402);
  });
});

describe("a call whose agent hung up", () => {
  it("costs what its provider reports, if the report comes in time", async () => {
    await liveModelAttempt(store);
    let finish: () => void = () => undefined;
    const models = await provider((response) => {
      stream(response, start, delta("a few words"));
      finish = () => response.end(delta("and some more") + end(77));
    });
    await listens(models);
    const leave = await hangUp(models, message({ stream: true }), /a few words/);
    leave();
    await until("the proxy knows", async () => (await spent())?.openCalls === 1);
    finish();
    await until("it is counted", async () => (await spent())?.openCalls === 0);
    expect((await store.modelCalls.list({}))[0]).toMatchObject({
      ...{ status: "cut", inputTokens: 40, outputTokens: 77, estimated: false },
      error: "the agent hung up",
    });
    expect(await spending()).toMatchObject({ reservedTokens: 0, spentTokens: 117 });
    expect(models.warnings).toEqual([]);
  });

  it.each([
    ["a stream, after some of it", true, /a few words/, { inputTokens: 40, outputTokens: 3 }],
    ["an answer that never came", false, null, { inputTokens: 13, outputTokens: 0 }],
  ] as const)("is counted by what passed otherwise: %s", async (_what, isStream, heard, counted) => {
    await liveModelAttempt(store);
    const models = await provider(
      (response) => {
        if (isStream) stream(response, start, delta("a few words"));
      },
      { drainMs: 50 },
    );
    await listens(models);
    const leave = await hangUp(models, message({ stream: isStream }), heard);
    await until("it is made", () => models.seen.length === 1);
    leave();
    await until("it is counted", async () => (await spent())?.openCalls === 0);
    expect((await store.modelCalls.list({}))[0]).toMatchObject({ status: "cut", estimated: true });
    const tokens = await spent();
    expect(tokens).toMatchObject({ estimatedCalls: 1, outputTokens: counted.outputTokens });
    expect(Math.abs(tokens!.inputTokens - counted.inputTokens)).toBeLessThan(10);
  });

  it("is counted at once when nobody is left to listen, but not a call whose agent still listens", async () => {
    await liveModelAttempt(store);
    let finish: () => void = () => undefined;
    const models = await provider((response) => {
      stream(response, start, delta("a few words"));
      finish = () => response.end(end(77));
    });
    await listens(models);
    const leave = await hangUp(models, message({ stream: true }), /a few words/);
    leave();
    await until("the proxy knows", async () => (await models.models.unfinished(modelAttempt.id))?.ending === "broken");
    const heard = ask(models, message({ stream: true }));
    await until("it is made", () => models.seen.length === 2);
    await models.models.countLeft();
    expect(await store.modelCalls.list({}, { by: "startedAt" })).toMatchObject([
      { status: "cut", inputTokens: 40, outputTokens: 3, estimated: true },
      { status: "open" },
    ]);
    finish();
    await heard;
    expect((await spent())?.openCalls).toBe(0);
  });

  it("counts as unfinished, even if the provider finished it, until the agent makes another", async () => {
    await liveModelAttempt(store);
    let finish: () => void = () => undefined;
    const models = await provider((response) => {
      stream(response, start, delta("a few words"));
      finish = () => response.end(end(77));
    });
    await listens(models);
    const unfinished = () => models.models.unfinished(modelAttempt.id);
    const leave = await hangUp(models, message({ stream: true }), /a few words/);
    expect(await unfinished()).toMatchObject({ ending: "open" });
    leave();
    await until("the proxy knows", async () => (await unfinished())?.ending === "broken");
    expect((await spent())?.openCalls).toBe(1);
    finish();
    await until("it is counted", async () => (await spent())?.openCalls === 0);
    const reason = "the model's last answer broke off (the agent hung up)";
    expect(await unfinished()).toMatchObject({ ending: "broken", reason });
    const second = ask(models, message({ stream: true }));
    await until("it is made", () => models.seen.length === 2);
    finish();
    await second;
    expect(await unfinished()).toBeNull();
  });

  // Codex 2.6.0 does so after every answer, without waiting for the end of the stream.
  it("counts as finished if the agent had read that it was complete", async () => {
    await liveModelAttempt(store);
    const usage = { input_tokens: 40, output_tokens: 3, input_tokens_details: { cached_tokens: 0 } };
    let finish: () => void = () => undefined;
    const models = await provider((response) => {
      stream(response, event({ type: "response.completed", response: { status: "completed", output: [], usage } }));
      finish = () => response.end();
    });
    await listens(models);
    const body = { model: "m", input: [], stream: true };
    const leave = await hangUp(models, body, /response.completed/, "/openai/v1/responses");
    leave();
    finish();
    await until("it is counted", async () => (await spent())?.openCalls === 0);
    expect((await store.modelCalls.list({}))[0]).toMatchObject({ ending: "whole", outputTokens: 3, estimated: false });
    expect(await models.models.unfinished(modelAttempt.id)).toBeNull();
  });

  it("also counts as finished if the answer is a recording that is still being counted", async () => {
    await liveModelAttempt(store);
    const completed = event({ type: "response.completed", response: { status: "completed", output: [] } });
    const counting = await database.pool.connect();
    const answer = { status: 200, headers: { "content-type": "text/event-stream" }, body: completed };
    const find = async () => {
      await counting.query("begin");
      await counting.query("select 1 from build_spending for update");
      return answer;
    };
    const notes: object[] = [];
    const update: typeof store.modelCalls.update = (where, changes) => {
      notes.push(changes);
      return store.modelCalls.update(where, changes);
    };
    const noted = { ...store, modelCalls: { ...store.modelCalls, update } };
    const cassette = { find, keep: async () => undefined };
    const models = await openTestModels({ store: noted, folder, url: "http://127.0.0.1:1" }, { cassette });
    open.push(models);
    await listens(models);
    const leave = await hangUp(models, { model: "m", input: [], stream: true }, /completed/, "/openai/v1/responses");
    leave();
    await listens(models); // By now it knows that the agent has hung up.
    await counting.query("commit");
    counting.release();
    await until("it is counted", async () => (await spent())?.openCalls === 0);
    expect(notes).toEqual([]);
    expect(await models.models.unfinished(modelAttempt.id)).toBeNull();
  });

  it("says nothing about the agent's work if its turn had ended without waiting for it", async () => {
    await liveModelAttempt(store);
    const models = await provider((response) => stream(response, start, delta("a few words")), { drainMs: 50 });
    await listens(models);
    const leave = await hangUp(models, message({ stream: true }), /a few words/);
    const { socket: socketPath, token } = models;
    const answered = await callModelAt({ socketPath, token, path: "/wavesmith/unfinished" }, {});
    expect(JSON.parse(answered.text)).toEqual({ unfinished: null });
    leave();
    await until("it is counted", async () => (await spent())?.openCalls === 0);
    expect(await models.models.unfinished(modelAttempt.id)).toBeNull();
  });

  it("does not delay the end of the process that answers it", async () => {
    await liveModelAttempt(store);
    const models = await provider((response) => stream(response, start, delta("a few words")));
    await listens(models);
    await hangUp(models, message({ stream: true }), /a few words/);
    await models.close();
    expect((await store.modelCalls.list({}))[0]).toMatchObject({ status: "cut", inputTokens: 40, estimated: true });
    expect((await spending()).reservedTokens).toBe(0);
  });
});

describe("a provider that breaks off", () => {
  it("costs what passed: the question if it reset the connection, and nothing if it was never reached", async () => {
    await liveModelAttempt(store, { tokens: null, usd: 5 });
    const prices = [{ provider: "anthropic", model: "m", input: 10, cached: 1, cacheWrite: 12.5, output: 50 }];
    const models = await provider((response) => void response.socket?.resetAndDestroy(), { prices });
    const body = message({ max_tokens: 64_000, messages: [{ role: "user", content: "x".repeat(4_000) }] });
    expect((await ask(models, body)).status).toBe(502);
    const [made] = await store.modelCalls.list({});
    expect(made).toMatchObject({ status: "cut", estimated: true, outputTokens: 0 });
    // About a thousand tokens of input, and not the 3.2 USD that 64,000 tokens of output would have
    // cost.
    expect(made?.microUsd).toBeGreaterThan(9_000);
    expect(made?.microUsd).toBeLessThan(12_000);
    await servers.pop()?.close();
    expect((await ask(models, body)).status).toBe(502);
    expect((await store.modelCalls.list({ status: "failed" }))[0]).toMatchObject({ microUsd: 0, estimated: false });
    expect((await spending()).spentMicroUsd).toBe(made?.microUsd);
  });

  it.each([
    ["messages", messages, start + delta("five "), 2],
    ["chat", chat, `data: ${JSON.stringify({ choices: [{ delta: { content: "five " } }] })}\n\n`, 2],
    [
      "responses",
      "/openai/v1/responses",
      event({ type: "response.output_text.delta", delta: "five " }) +
        event({ type: "response.output_text.done", text: "five five five five five five" }),
      2,
    ],
    [
      "Gemini",
      "/gemini/v1beta/models/m:streamGenerateContent?alt=sse",
      `data: ${JSON.stringify({ candidates: [{ content: { parts: [{ text: "five " }] } }] })}\n\n`,
      2,
    ],
  ])("after five characters of %s costs what five characters are", async (_name, path, part, outputTokens) => {
    await liveModelAttempt(store);
    const models = await provider((response) => {
      stream(response, part);
      response.socket?.end();
    });
    const body =
      path === messages || path === chat ? message({ stream: true }) : { model: "m", input: [], stream: true };
    await ask(models, /gemini/.test(path) ? { contents: [] } : body, path);
    expect((await store.modelCalls.list({}))[0]).toMatchObject({ status: "cut", estimated: true, outputTokens });
    expect((await spending()).spentTokens).toBeLessThan(60);
  });
});

describe("the usage of a chat's stream", () => {
  const chunk = (more: object) => `data: ${JSON.stringify({ id: "c", ...more })}\r\n\r\n`;
  const usage = { prompt_tokens: 30, completion_tokens: 5, prompt_tokens_details: { cached_tokens: 10 } };
  const parts = [
    chunk({ choices: [], prompt_filter_results: [] }),
    chunk({ choices: [{ delta: { content: 'he said "usage":{}' } }], usage: null }),
    chunk({ choices: [{ delta: {}, finish_reason: "stop" }] }),
  ];
  const answer: Answer = async (response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    const text = `${parts.join("")}${chunk({ choices: [], usage })}data: [DONE]\r\n\r\n`;
    // In pieces that ignore the ends of lines.
    for (let at = 0; at < text.length; at += 7) {
      if (!response.write(text.slice(at, at + 7))) await new Promise((resolve) => response.once("drain", resolve));
    }
    response.end();
  };

  it("is requested and counted, and its event is hidden from an agent that did not ask for it", async () => {
    await liveModelAttempt(store);
    const models = await provider(answer);
    const { text } = await ask(models, { ...message({ stream: true }) }, chat);
    expect(models.seen[0]).toMatchObject({ stream_options: { include_usage: true } });
    expect(text).toBe(`${parts.join("")}data: [DONE]\r\n\r\n`);
    const asked = await ask(models, message({ stream: true, stream_options: { include_usage: true } }), chat);
    expect(asked.text).toContain('"completion_tokens":5');
    const counted = { status: "done", inputTokens: 30, cachedTokens: 10, outputTokens: 5, estimated: false };
    expect(await store.modelCalls.list({})).toEqual([
      expect.objectContaining(counted),
      expect.objectContaining(counted),
    ]);
  });
});

describe("a budget in USD", () => {
  it("prices a model that is newer than the prices like the nearest of its family, and warns once", async () => {
    await liveModelAttempt(store, { tokens: null, usd: 5 });
    const models = await provider((response) => {
      response.end(JSON.stringify({ usage: { input_tokens: 1_000_000, output_tokens: 100_000 } }));
    });
    const newer = message({ model: "claude-opus-9", max_tokens: 100 });
    for (const call of [newer, newer]) await ask(models, call);
    // 4 and 20 USD per million, as claude-opus-5-5: there is no room left for the second call.
    expect((await spending()).spentMicroUsd).toBe(6_000_000);
    expect(models.warnings).toEqual([
      expect.stringMatching(/^the price of anthropic:claude-opus-9 is unknown, so it is counted like claude-opus-5-5 /),
    ]);
  });

  it("prices a cache entry kept for an hour as one, and an answer that may take its time as a batch", async () => {
    await liveModelAttempt(store, { tokens: null, usd: 50 });
    let usage: object = {};
    let more: object = {};
    const models = await provider((response) => void response.end(JSON.stringify({ usage, ...more })));
    const write = { cache_creation_input_tokens: 100_000, output_tokens: 0, input_tokens: 0 };
    usage = { ...write, cache_creation: { ephemeral_5m_input_tokens: 0, ephemeral_1h_input_tokens: 100_000 } };
    const system = [{ type: "text", text: "x".repeat(2_000), cache_control: { type: "ephemeral", ttl: "1h" } }];
    await ask(models, message({ model: "claude-sonnet-5", max_tokens: 1, system }));
    const [made] = await store.modelCalls.list({});
    expect(made?.microUsd).toBe(400_000);
    // Reserved at 4 USD per million, and not at the 2.5 of a few minutes ago.
    expect(made?.reservedMicroUsd).toBeGreaterThan(1_000 * 4);
    usage = { prompt_tokens: 100_000, completion_tokens: 10_000 };
    more = { service_tier: "flex" };
    await ask(models, { model: "gpt-6-sol", messages: [], service_tier: "flex" }, chat);
    expect((await store.modelCalls.list({ model: "gpt-6-sol" }))[0]?.microUsd).toBe((200_000 + 100_000) / 2);
  });
});
