import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { ModelTool } from "../../src/domain/models.ts";
import type { NetworkMode } from "../../src/domain/sandbox/network.ts";
import type { Store } from "../../src/store/port.ts";
import { createStore } from "../../src/store/store.ts";
import { type TestDatabase, testDatabase } from "../support/database.ts";
import { type FakeProviders, startFakeProviders } from "../support/fake-providers.ts";
import { callModelAt, liveModelAttempt, modelBuild, openTestModels, type TestModels } from "../support/model-builds.ts";

// MP5: a provider is a way out of a sandbox's network. Each of these is a request with which an
// agent could make the provider search, fetch, run, store or create something.

let folder: string;
let database: TestDatabase;
let store: Store;
let providers: FakeProviders;
let models: TestModels;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "wavesmith-outside-"));
  database = await testDatabase();
  store = createStore(database.pool);
  providers = await startFakeProviders(() => ({ text: "hello" }));
  models = await openTestModels({ store, folder, url: providers.url });
  await liveModelAttempt(store);
});
afterEach(async () => {
  await models.close();
  await providers.close();
  await database.close();
  rmSync(folder, { recursive: true, force: true });
});

interface Captured {
  readonly agent: string;
  readonly path: string;
  readonly beta: string | null;
  readonly body: object;
}
const captured: readonly Captured[] = createRequire(import.meta.url)("../support/captured-requests.json");

const messages = "/anthropic/v1/messages";
const chat = "/openai/v1/chat/completions";
const compatible = "/compatible/v1/chat/completions";
const responses = "/openai/v1/responses";
const gemini = "/gemini/v1beta/models/gemini-2.5-pro:generateContent";

const usual: Readonly<Record<string, object>> = {
  [messages]: { model: "m", max_tokens: 100, messages: [{ role: "user", content: "hello" }] },
  [chat]: { model: "m", messages: [{ role: "user", content: "hello" }] },
  [compatible]: { model: "m", messages: [{ role: "user", content: "hello" }] },
  [responses]: { model: "m", input: "hello" },
  [gemini]: { contents: [{ role: "user", parts: [{ text: "hello" }] }] },
};

const ask = (path: string, more: object, headers: Record<string, string> = {}) =>
  callModelAt({ socketPath: models.socket, path, token: models.token, headers }, { ...usual[path], ...more });

let planVersion = 100;
/** Changes the plan as an edit does. */
const allow = (modelTools: readonly ModelTool[], network: NetworkMode = "none") => {
  const plan = { limits: { budget: { tokens: null, usd: null } }, modelTools } as never;
  planVersion += 1;
  return store.builds.update({ id: modelBuild }, { network, plan, planVersion });
};

const user = (...content: object[]) => ({ messages: [{ role: "user", content }] });
const input = (...items: object[]) => ({ input: items });
const parts = (...all: object[]) => ({ contents: [{ role: "user", parts: all }] });
const url = "https://attacker.example/pixel.png";

/** The request, the message that refuses it, and the plan's setting that allows it. */
const outside: readonly (readonly [string, object, string, ModelTool | null])[] = [
  [messages, { tools: [{ type: "web_search_20250305", name: "web_search" }] }, "web_search_20250305", "web_search"],
  [messages, { tools: [{ type: "web_fetch_20250910", name: "web_fetch" }] }, "web_fetch_20250910", "web_fetch"],
  [messages, { tools: [{ type: "code_execution_20250825", name: "x" }] }, "code_execution_20250825", "code_execution"],
  [messages, { tools: [{ type: "mcp_toolset", mcp_server_name: "x" }] }, "mcp_toolset", "mcp"],
  [messages, { mcp_servers: [{ type: "url", url, name: "x" }] }, "mcp_servers", "mcp"],
  [messages, { container: { skills: [] } }, "container", "code_execution"],
  [messages, user({ type: "image", source: { type: "url", url } }), "source.type: url", "urls"],
  [messages, user({ type: "document", source: { type: "url", url } }), "source.type: url", "urls"],
  [messages, user({ type: "document", source: { type: "file", file_id: "f" } }), "source.type: file", "files"],
  [messages, user({ type: "container_upload", file_id: "f" }), "container_upload", "files"],
  [
    messages,
    user({ type: "tool_result", tool_use_id: "t", content: [{ type: "image", source: { type: "url", url } }] }),
    "content[0].content[0].source.type: url",
    "urls",
  ],
  [
    messages,
    user({
      type: "document",
      source: { type: "content", content: [{ type: "image", source: { type: "url", url } }] },
    }),
    "source.content[0].source.type: url",
    "urls",
  ],
  [messages, { tools: [{ type: "advisor_20990101", name: "x" }] }, "advisor_20990101", null],
  [messages, { something_new: { on: true } }, "something_new", null],
  [chat, { tools: [{ type: "web_search" }] }, "web_search", "web_search"],
  [chat, { tools: [{ type: "mcp", server_url: url }] }, "tools[0].type: mcp", "mcp"],
  [chat, { web_search_options: {} }, "web_search_options", "web_search"],
  [chat, { model: "gpt-4o-search-preview" }, "the model gpt-4o-search-preview", "web_search"],
  [chat, { store: true }, "store: true", "stored"],
  [chat, user({ type: "image_url", image_url: { url } }), "image_url with a URL", "urls"],
  [chat, user({ type: "image_url", image_url: url }), "image_url with a URL", "urls"],
  [chat, user({ type: "file", file: { file_id: "f" } }), "file.file_id", "files"],
  [chat, { something_new: 1 }, "something_new", null],
  [compatible, { plugins: [{ id: "web" }] }, "plugins", null],
  [compatible, { model: "some/model:online" }, "the model some/model:online", "web_search"],
  [responses, { tools: [{ type: "web_search_preview" }] }, "web_search_preview", "web_search"],
  [responses, { tools: [{ type: "mcp", server_url: url }] }, "tools[0].type: mcp", "mcp"],
  [responses, { tools: [{ type: "file_search", vector_store_ids: [] }] }, "file_search", "files"],
  [responses, { tools: [{ type: "code_interpreter", container: {} }] }, "code_interpreter", "code_execution"],
  [responses, { tools: [{ type: "shell", environment: { type: "container_auto" } }] }, "type: shell", "code_execution"],
  [responses, { tools: [{ type: "image_generation" }] }, "image_generation", "image_generation"],
  [responses, { tools: [{ type: "computer_use_preview" }] }, "computer_use_preview", "computer_use"],
  [
    responses,
    { tools: [{ type: "namespace", name: "x", tools: [{ type: "web_search" }] }] },
    "tools[0].tools[0].type: web_search",
    "web_search",
  ],
  [responses, { previous_response_id: "resp_1" }, "previous_response_id", "stored"],
  [responses, { conversation: "conv_1" }, "conversation", "stored"],
  [responses, { store: true }, "store: true", "stored"],
  [responses, { prompt: { id: "pmpt_1" } }, "prompt", "stored"],
  [responses, input({ type: "item_reference", id: "msg_1" }), "item_reference", "stored"],
  [responses, input({ type: "mcp_approval_response", approve: true }), "mcp_approval_response", "mcp"],
  [
    responses,
    input({ role: "user", content: [{ type: "input_image", image_url: url }] }),
    "input[0].content[0].image_url with a URL",
    "urls",
  ],
  [
    responses,
    input({ type: "function_call_output", call_id: "c", output: [{ type: "input_file", file_url: url }] }),
    "input[0].output[0].file_url",
    "urls",
  ],
  [responses, input({ role: "user", content: [{ type: "input_image", file_id: "f" }] }), "file_id", "files"],
  [gemini, { tools: [{ googleSearch: {} }] }, "tools[0].googleSearch", "web_search"],
  [gemini, { tools: [{ google_search: {} }] }, "tools[0].google_search", "web_search"],
  [gemini, { tools: [{ googleSearchRetrieval: {} }] }, "googleSearchRetrieval", "web_search"],
  [gemini, { tools: { urlContext: {} } }, "tools[0].urlContext", "web_fetch"],
  [gemini, { tools: [{ codeExecution: {} }] }, "codeExecution", "code_execution"],
  [gemini, { tools: [{ fileSearch: {} }] }, "fileSearch", "files"],
  [gemini, { tools: [{ computerUse: {} }] }, "computerUse", "computer_use"],
  [gemini, parts({ fileData: { fileUri: url } }), "parts[0].fileData", "urls"],
  [gemini, parts({ file_data: { file_uri: url } }), "parts[0].fileData", "urls"],
  [
    gemini,
    parts({ fileData: { fileUri: "https://generativelanguage.googleapis.com/v1beta/files/x" } }),
    "parts[0].fileData",
    "files",
  ],
  [gemini, { systemInstruction: { parts: [{ fileData: { fileUri: url } }] } }, "systemInstruction[0]", "urls"],
  [gemini, { cachedContent: "cachedContents/x" }, "cachedContent", "files"],
  [gemini, { generationConfig: { responseModalities: ["TEXT", "IMAGE"] } }, "responseModalities", "image_generation"],
  [gemini, { something_new: {} }, "something_new", null],
];

describe.each(outside)("%s with %j", (path, more, words, tool) => {
  it("is refused by name, unless the plan allows exactly that", async () => {
    const { status, text } = await ask(path, more);
    const { error } = JSON.parse(text);
    expect([status, error.message]).toEqual([400, expect.stringContaining(words)]);
    expect(error.message).toContain(tool === null ? "network: open" : `modelTools: [${tool}]`);
    expect(providers.requests).toEqual([]);
    expect(await store.modelCalls.list({})).toEqual([]);
    if (tool !== null) {
      await allow([tool]);
      expect((await ask(path, more)).status).toBe(200);
      // As it was sent: nothing was left out of it.
      const call = providers.requests.find(({ body }) => body !== null); // not the request for the model's limits
      expect(call?.body).toMatchObject(path === gemini && "generationConfig" in more ? {} : more);
    }
    await allow([], "open");
    expect((await ask(path, more)).status).toBe(200);
    await allow(tool === "web_fetch" ? ["web_search"] : ["web_fetch"], "allowlist");
    expect((await ask(path, more)).status).toBe(400);
  });
});

it("is also refused where a call only counts tokens, and for a beta in a header", async () => {
  const image = user({ type: "image", source: { type: "url", url } });
  const count = "/anthropic/v1/messages/count_tokens";
  expect((await ask(count, { model: "m", ...image })).text).toContain("source.type: url");
  const counted = "/gemini/v1beta/models/gemini-2.5-pro:countTokens";
  const inner = { generateContentRequest: parts({ fileData: { fileUri: url } }) };
  expect((await ask(counted, inner)).text).toContain("fileData");
  const beta = { "anthropic-beta": "claude-code-20250219, mcp-client-2025-04-04" };
  expect((await ask(messages, {}, beta)).text).toContain("the beta mcp-client-2025-04-04");
  expect(providers.requests).toEqual([]);
});

it("is refused in the form that a provider's own agents read, and reported to the person once", async () => {
  const search = { tools: [{ googleSearch: {} }] };
  const error = { code: 400, status: "INVALID_ARGUMENT", message: expect.stringContaining("wavesmith: ") };
  expect(JSON.parse((await ask(gemini, search)).text)).toEqual({ error });
  await ask(gemini, search);
  expect(models.warnings).toEqual([expect.stringMatching(/^a call of wave 1 fix #1 was refused: tools\[0\]/)]);
  expect(JSON.parse((await ask(messages, { container: "c" })).text)).toMatchObject({
    type: "error",
    error: { type: "invalid_request_error" },
  });
});

const costly: readonly (readonly [string, object, string])[] = [
  [chat, { n: 8 }, "n: 8"],
  [chat, { best_of: 4 }, "best_of: 4"],
  [chat, { prediction: { type: "content", content: "x" } }, "prediction"],
  [chat, { service_tier: "priority" }, 'service_tier: "priority"'],
  [compatible, { n_predict: 100_000 }, "n_predict"],
  [responses, { background: true }, "background"],
  [responses, { service_tier: "priority" }, "service_tier"],
  [messages, { speed: "fast" }, 'speed: "fast"'],
  [messages, { inference_geo: "us" }, "inference_geo"],
  [gemini, { generationConfig: { candidateCount: 8 } }, "candidateCount: 8"],
  [gemini, { generation_config: { max_output_tokens: 100_000 } }, "generation_config"],
];

it.each(costly)("%s with %j is refused whatever the network is, since no budget could limit it", async (...one) => {
  const [path, more, words] = one;
  for (const network of ["none", "open"] as const) {
    await allow(["web_search"], network);
    const { status, text } = await ask(path, more);
    expect([status, JSON.parse(text).error.message]).toEqual([400, expect.stringContaining(words)]);
  }
  expect(providers.requests).toEqual([]);
});

it("enforces every limit that a call names, whichever of them the provider uses", async () => {
  await liveModelAttempt(store, { tokens: 3_000, usd: null });
  await ask(chat, { max_tokens: 900_000, max_completion_tokens: 500 });
  expect(providers.requests[0]?.body).toMatchObject({ max_tokens: 500, max_completion_tokens: 500 });
});

it("passes ordinary requests: the agent's own tools, data in the call, and options of the answer alone", async () => {
  const image = "data:image/png;base64,AAAA";
  const sent: [string, object][] = [
    [
      messages,
      {
        tools: [
          { name: "run", input_schema: {} },
          { type: "bash_20250124", name: "bash" },
        ],
        thinking: { type: "enabled", budget_tokens: 50, display: "updates" },
        context_management: { edits: [{ type: "clear_thinking_20251015", keep: "all" }] },
        output_config: { format: { type: "json_schema", schema: {} } },
        ...user(
          { type: "image", source: { type: "base64", data: "AAAA" } },
          // The arguments of an agent's own tool are its own business.
          { type: "tool_use", id: "t", name: "x", input: { type: "image", source: { type: "url", url } } },
        ),
      },
    ],
    [
      chat,
      { n: 1, tools: [{ type: "function", function: {} }], ...user({ type: "image_url", image_url: { url: image } }) },
    ],
    [
      responses,
      {
        store: false,
        background: false,
        previous_response_id: null,
        include: ["reasoning.encrypted_content"],
        client_metadata: { x: "y" },
        tools: [{ type: "namespace", tools: [{ type: "function" }] }, { type: "custom" }],
        ...input({ role: "user", content: [{ type: "input_image", image_url: image }] }, { type: "reasoning" }),
      },
    ],
    [gemini, { generationConfig: { candidateCount: 1, thinkingConfig: { thinkingBudget: 8_192 } } }],
  ];
  for (const [path, more] of sent) expect((await ask(path, more)).text, path).toContain("hello");
});

// Captured on 2026-11-22 from the pinned agents, each at its first call and after a tool. Texts are
// shortened, and Codex's search is left out because we tell it to leave it out.
it.each(captured)("passes a call as $agent makes it ($path)", async ({ path, beta, body }) => {
  const headers: Record<string, string> = beta === null ? {} : { "anthropic-beta": beta };
  const at = { socketPath: models.socket, path, token: models.token, headers };
  const { status, text } = await callModelAt(at, body);
  expect([status, text]).toEqual([200, expect.stringContaining("hello")]);
});
