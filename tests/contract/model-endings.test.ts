import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createStore } from "../../src/store/store.ts";
import { type TestDatabase, testDatabase } from "../support/database.ts";
import { type FakeAnswer, type FakeProviders, startFakeProviders } from "../support/fake-providers.ts";
import {
  callModelAt,
  liveModelAttempt,
  modelAttempt,
  openTestModels,
  type TestModels,
} from "../support/model-builds.ts";

// How the answers to an agent's calls ended, which tells half-done work from finished work.

let folder: string;
let database: TestDatabase;
let providers: FakeProviders;
let world: TestModels;
let answers: (number: number) => FakeAnswer;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "wavesmith-endings-"));
  database = await testDatabase();
  providers = await startFakeProviders(({ number }) => answers(number));
});
afterEach(async () => {
  await world.close();
  await providers.close();
  await database.close();
  rmSync(folder, { recursive: true, force: true });
});

async function open(patienceMs = 0): Promise<void> {
  const store = createStore(database.pool);
  world = await openTestModels({ store, folder, url: providers.url }, { patienceMs });
  await liveModelAttempt(store);
}

const toolOf = (path: string): object => {
  if (path.startsWith("/anthropic")) return { name: "run", input_schema: {} };
  return path.endsWith("/responses")
    ? { type: "function", name: "run" }
    : { type: "function", function: { name: "run" } };
};
const ask = (path: string, body: object = {}) =>
  callModelAt(
    { socketPath: world.socket, token: world.token, path },
    { model: "m", messages: [], max_tokens: 100, stream: true, tools: [toolOf(path)], ...body },
  );
const messages = "/anthropic/v1/messages";
const captured: readonly { readonly path: string; readonly body: { readonly model?: string } }[] = createRequire(
  import.meta.url,
)("../support/captured-requests.json");
const unfinished = () => world.models.unfinished(modelAttempt.id);

describe("the last call of an agent", () => {
  it.each([
    [messages, {}],
    [messages, { stream: false }],
    ["/openai/v1/chat/completions", {}],
    ["/openai/v1/responses", { messages: undefined, max_tokens: undefined, input: [] }],
    ["/gemini/v1beta/models/m:streamGenerateContent?alt=sse", { messages: undefined, contents: [] }],
  ])("at %s (%o) came to its end, or was cut at its limit", async (path, more) => {
    await open();
    const body = path.startsWith("/gemini")
      ? { model: undefined, max_tokens: undefined, stream: undefined, tools: [{ functionDeclarations: [] }] }
      : {};
    answers = () => ({ text: "hello", atLimit: true });
    expect((await ask(path, { ...more, ...body })).status).toBe(200);
    expect(await unfinished()).toMatchObject({ ending: "limit" });
    answers = () => ({ text: "hello" });
    expect((await ask(path, { ...more, ...body })).status).toBe(200);
    expect(await unfinished()).toBeNull();
  });

  it.each([
    [{ text: "half of it", cut: true }, "broken"],
    [{ raw: "<html>Welcome</html>" }, "unreadable"],
    [{ raw: '{"hello":1}' }, "unreadable"],
    [{ status: 400, message: "no" }, "error"],
  ] as const)("answered with %o did not", async (answer, ending) => {
    await open();
    answers = () => answer;
    await ask(messages);
    expect(await unfinished()).toMatchObject({ ending, reason: expect.stringMatching(/./) });
  });

  it.each([
    [{ status: 400, message: "prompt is too long: 210000 tokens > 200000 maximum" }, true],
    [{ status: 400, message: "context_length_exceeded" }, true],
    [{ status: 400, message: "no such thing" }, false],
    [{ status: 500, message: "prompt is too long" }, false],
  ] as const)("answered with %o says whether the conversation was too long", async (answer, overflowed) => {
    await open();
    answers = () => answer;
    await ask(messages);
    const reason = overflowed ? "the conversation is longer than the model's window" : expect.stringMatching(/failed/);
    expect(await unfinished()).toEqual({ ending: "error", overflowed, reason });
  });

  it("is one that offers tools, if there is one", async () => {
    await open();
    answers = () => ({ status: 400 });
    await ask(messages, { tools: undefined });
    expect(await unfinished()).toMatchObject({ ending: "error" });
    answers = () => ({ text: "done" });
    await ask(messages);
    answers = () => ({ status: 400 });
    await ask(messages, { tools: undefined });
    expect(await unfinished()).toBeNull();
  });

  it("is not the one in which Codex asks for its session's title", async () => {
    await open();
    const [work, title] = ["gpt-6-sol", "gpt-5.6-luna"].map(
      (model) => captured.find(({ body }) => body.model === model)!,
    );
    const send = ({ path, body }: typeof work & object) =>
      callModelAt({ socketPath: world.socket, token: world.token, path }, body);
    answers = () => ({ text: "done" });
    expect((await send(work!)).status).toBe(200);
    answers = () => ({ text: "A title", cut: true });
    await send(title!);
    expect(await unfinished()).toBeNull();
    answers = () => ({ text: "half of it", cut: true });
    await send(work!);
    expect(await unfinished()).toMatchObject({ ending: "broken" });
  });
});

describe("a provider that fails", () => {
  it("is called again for some time, and the agent notices nothing", async () => {
    await open(60_000);
    answers = (number) => (number < 3 ? { status: number === 1 ? 500 : 502 } : { text: "hello" });
    expect((await ask(messages)).text).toContain("hello");
    expect(world.warnings).toEqual(["anthropic answers 500: trying again"]);
    expect(await unfinished()).toBeNull();
  });

  it("is given up in the end, and its answer passed on", async () => {
    await open(1_500);
    answers = () => ({ status: 500 });
    expect((await ask(messages)).status).toBe(500);
    expect(providers.requests.length).toBeGreaterThan(1);
    expect(await unfinished()).toMatchObject({ reason: "the provider failed (it answered 500)" });
  });

  it("gets less time when the agent repeats a call that was given up", async () => {
    await open(1_500);
    answers = () => ({ status: 500 });
    await ask(messages);
    const { length } = providers.requests;
    await ask(messages);
    expect(providers.requests.length).toBe(length + 1);
    // Once a call has worked, calls are retried again.
    answers = (number) => (number === length + 3 ? { status: 500 } : { text: "hello" });
    expect((await ask(messages)).status).toBe(200);
    expect((await ask(messages)).status).toBe(200);
    expect(providers.requests.length).toBe(length + 4);
  });

  it("is named with the reason if it cannot be called at all", async () => {
    await open();
    answers = () => ({ hangUp: true });
    expect((await ask(messages)).text).toContain("the call failed: socket hang up");
    expect(world.warnings).toEqual(["a call to anthropic failed: socket hang up"]);
  });
});
