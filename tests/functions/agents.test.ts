import { beforeEach, describe, expect, it } from "vitest";
import { compatibleModels } from "../../src/cli/parts/agents.ts";
import { retryBuild } from "../../src/coordinator/build/retry-build.ts";
import { agentBuilds, builtin, scripted } from "../support/agent-builds.ts";
import { requires } from "../support/require.ts";

// Agents of the Agent Client Protocol in whole builds: the scripted one like any other agent, and
// the built-in one with a model on loopback.

const sandboxes = [
  ...(requires("bubblewrap") ? (["local"] as const) : (["local-unsafe"] as const)),
  ...(requires("docker") ? (["docker"] as const) : []),
];

const world = agentBuilds();
const openFixture = (sandbox: (typeof sandboxes)[number] = sandboxes[0]!): Promise<void> =>
  world.open({ sandbox, env: { OPENAI_API_KEY: "" } });

const plan = (fields: Record<string, unknown>) => ({
  name: "agents",
  source: { path: "seed" },
  gates: { testing: false, critic: false, integration: false, maxFixRounds: 0 },
  network: "none",
  ...fields,
});
const task = (id: string, instructions: string, more: object = {}) => ({ id, agent: "backend", instructions, ...more });

async function build(fields: Record<string, unknown>) {
  const buildId = await world.fixture.request(plan(fields), { planFolder: world.folder });
  return world.fixture.until(buildId);
}
const attempts = (buildId: string) => world.fixture.app.store.attempts.list({ buildId }, { by: "createdAt" });

describe.each(sandboxes)("an agent of the Agent Client Protocol (%s)", (sandbox) => {
  beforeEach(() => openFixture(sandbox));

  it("does a task: asks, writes in its tree, and is judged by its diff", async () => {
    const { id, status, reason } = await build({
      agents: { backend: scripted },
      tasks: [
        task("api", "plan one|two\nsay at work\nwrite api.txt made by an agent\nwrite ../../outside.txt no\nsay done"),
      ],
    });
    expect({ status, reason }).toMatchObject({ status: "completed" });
    expect(await world.fixture.git("show", "main:api.txt")).toBe("made by an agent");
    const [attempt] = await attempts(id);
    expect(attempt?.outputTail).toContain("at work");
    expect(attempt?.outputTail).toContain("not allowed: Write ../../outside.txt");
    const { events } = (await world.fixture.app.feed.read({ buildId: id }, null, 1_000))!;
    const reports = events.filter(({ name }) => name === "agent/activity.reported").map(({ data }) => data);
    expect(reports[0]).toMatchObject({ buildId: id, waveNumber: 1, role: "backend", taskKey: "api" });
    const activities = reports.map(({ activity }) => activity);
    const call = { kind: "tool", title: "Write api.txt", action: "edit" };
    for (const one of [
      {
        kind: "plan",
        entries: ["one", "two"].map((text) => ({ text, status: "pending" })),
      },
      { kind: "message", text: "at work" },
      { ...call, status: "pending" },
      { kind: "edit", path: expect.stringContaining("api.txt"), added: 1, removed: 0 },
      { ...call, status: "completed" },
      { kind: "permission", title: "Write ../../outside.txt", allowed: false },
    ])
      expect(activities).toContainEqual(expect.objectContaining(one));
  });
});

it("names the task whose agent changed an undeclared file of a shared tree", async () => {
  await openFixture();
  const { id } = await build({
    agents: { backend: scripted },
    isolation: "shared",
    limits: { maxParallelTasks: 2, tasksPerAgentPerWave: 2 },
    tasks: [
      task("one", "write one.txt 1\nwrite stray.txt no", { writes: ["one.txt"], retries: 0 }),
      task("two", "write two.txt 2", { writes: ["two.txt"], retries: 0 }),
    ],
  });
  const [wave] = await world.fixture.app.store.waves.list({ buildId: id });
  expect(wave).toMatchObject({ status: "failed", reason: expect.stringContaining("stray.txt (by one)") });
});

describe("an agent's end", () => {
  beforeEach(() => openFixture());

  it("continues its session in the next attempt if its claim to be finished was false", async () => {
    const { id, status } = await build({
      agents: { backend: scripted },
      tasks: [task("api", "say prompt {prompts}", { retries: 1 })],
    });
    expect(status).toBe("failed");
    const [first, second] = await attempts(id);
    expect(first?.reason).toBe("it finished without changing a file");
    expect(second?.outputTail).toContain("continues its session");
    expect(second?.outputTail).toContain("prompt 2");
  });

  it.each([
    ["refuse", "refused", "the agent ended: refused"],
    ["crash", "failed", "scripted: crashing"],
    ["fail -32603 model said 400", "failed", "the agent ended: model error: model said 400"],
  ])("by %s fails its attempt, and says how", async (instructions, outcome, reason) => {
    const { id } = await build({ agents: { backend: scripted }, tasks: [task("api", instructions, { retries: 0 })] });
    const [attempt] = await attempts(id);
    expect(attempt).toMatchObject({ outcome, reason: expect.stringContaining(reason) });
  });
});

describe.each(sandboxes)("the built-in agent (%s)", (sandbox) => {
  beforeEach(() => openFixture(sandbox));

  it("reaches its model only through the proxy, which counts its spending", async () => {
    world.answers = ({ number }) =>
      number === 1
        ? {
            tools: [{ name: "write_file", input: { path: "api.txt", content: "by a model" } }],
            inputTokens: 100,
            outputTokens: 20,
          }
        : { text: "I wrote it.", inputTokens: 150, outputTokens: 10 };
    const { id, status, reason } = await build({ agents: { backend: builtin }, tasks: [task("api", "write api.txt")] });
    expect({ status, reason }).toMatchObject({ status: "completed" });
    expect(await world.fixture.git("show", "main:api.txt")).toBe("by a model");
    expect(world.providers.requests.map(({ headers }) => headers["x-api-key"])).toEqual(["real-key", "real-key"]);
    expect(JSON.stringify(world.providers.requests)).not.toContain("wst_");
    const spending = await world.fixture.app.store.buildSpending.get({ buildId: id });
    expect(spending).toMatchObject({
      spentTokens: 280,
      reservedTokens: 0,
      spentMicroUsd: 250 * 3 + 30 * 15,
      unpricedCalls: 0,
    });
  });
});

describe("the built-in agent with Gemini", () => {
  beforeEach(() =>
    world.open({ env: { GEMINI_API_KEY: "real-key", GEMINI_BASE_URL: world.providers.url, ANTHROPIC_API_KEY: "" } }),
  );
  const gemini = { runtime: "builtin", model: "google:gemini-2.5-flash" };

  it("uses only the proxy, waits while Google is busy, and has its spending counted", async () => {
    const busy = { error: { code: 429, status: "RESOURCE_EXHAUSTED", details: [{ retryDelay: "0.2s" }] } };
    world.answers = ({ number }) => {
      if (number === 1) return { status: 429, raw: JSON.stringify(busy) };
      if (number > 2) return { text: "I wrote it.", inputTokens: 150, outputTokens: 10 };
      const input = { path: "api.txt", content: "by Gemini" };
      return { tools: [{ name: "write_file", input }], inputTokens: 100, outputTokens: 20 };
    };
    const { id, status, reason } = await build({ agents: { backend: gemini }, tasks: [task("api", "write api.txt")] });
    expect({ status, reason }).toMatchObject({ status: "completed" });
    expect(await world.fixture.git("show", "main:api.txt")).toBe("by Gemini");
    const { requests } = world.providers;
    expect(requests.map(({ path, query }) => `${path}?${query}`)).toEqual(
      Array(3).fill("/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"),
    );
    expect(requests.map(({ headers }) => headers["x-goog-api-key"])).toEqual(Array(3).fill("real-key"));
    expect(JSON.stringify(requests)).not.toContain("wst_");
    expect(requests[2]?.body.contents.at(-1).parts).toEqual([
      { functionResponse: expect.objectContaining({ name: "write_file" }) },
    ]);
    const spending = await world.fixture.app.store.buildSpending.get({ buildId: id });
    expect(spending).toMatchObject({ spentTokens: 280, reservedTokens: 0, unpricedCalls: 0 });
    expect(spending.spentMicroUsd).toBe(Math.ceil(100 * 0.3 + 20 * 2.5) + Math.ceil(150 * 0.3 + 10 * 2.5));
  });

  it.each([
    [400, "model error"],
    [401, "not signed in"],
  ])("fails its attempt when Google answers %i, and says why", async (status, words) => {
    world.answers = () => ({ status, raw: JSON.stringify({ error: { code: status, message: "as Google says" } }) });
    const { id } = await build({ agents: { backend: gemini }, tasks: [task("api", "write", { retries: 0 })] });
    const [attempt] = await attempts(id);
    expect(attempt).toMatchObject({ outcome: "failed", reason: expect.stringContaining(words) });
    expect(attempt?.reason).toContain("as Google says");
    expect((await world.fixture.app.store.buildSpending.get({ buildId: id })).spentTokens).toBe(0);
  });
});

describe("servers of compatible models", () => {
  it("are called by their names, at their exact URLs, with their own keys and limits", async () => {
    const { url } = world.providers;
    await world.open({
      env: {
        WAVESMITH_COMPATIBLE_SERVERS: `lab=${url}/gpu/api/,mac=${url}`,
        WAVESMITH_COMPATIBLE_KEYS: "lab=lab-key,mac=mac-key",
        WAVESMITH_COMPATIBLE_LIMITS: "mac=16384/2048",
      },
    });
    const listed = { data: [{ id: "qwen", max_model_len: 8_192 }, { id: "gone" }] };
    world.answers = ({ path, body }) => {
      if (path.endsWith("/models")) return { raw: JSON.stringify(listed) };
      const isDone = body.messages.some(({ role }: { role: string }) => role === "tool");
      const input = { path: `${body.model}.txt`, content: "by a server" };
      return isDone ? { text: "done" } : { tools: [{ name: "write_file", input }] };
    };
    const agents = {
      backend: { runtime: "builtin", model: "compatible-lab:qwen" },
      frontend: { runtime: "builtin", model: "compatible-mac:llama" },
    };
    const tasks = [task("api", "write"), task("page", "write", { agent: "frontend" })];
    expect(await build({ agents, tasks })).toMatchObject({ status: "completed" });
    expect(await world.fixture.git("show", "main:qwen.txt")).toBe("by a server");
    const calls = world.providers.requests.filter(({ body }) => body !== null);
    const seen = calls.map(({ path, headers, body }) => [path, headers.authorization, body.model, body.max_tokens]);
    expect(seen.filter(([path]) => path === "/gpu/api/chat/completions")).toEqual(
      Array(2).fill(["/gpu/api/chat/completions", "Bearer lab-key", "qwen", undefined]),
    );
    expect(seen.filter(([path]) => path === "/v1/chat/completions")).toEqual(
      Array(2).fill(["/v1/chat/completions", "Bearer mac-key", "llama", 2_048]),
    );
    expect(await compatibleModels(world.fixture.app.config)).toEqual([
      {
        name: "compatible-lab",
        problem: null,
        models: [
          { name: "qwen", contextTokens: 8_192, outputTokens: null },
          { name: "gone", contextTokens: null, outputTokens: null },
        ],
      },
      {
        name: "compatible-mac",
        problem: null,
        models: [
          { name: "qwen", contextTokens: 16_384, outputTokens: 2_048 },
          { name: "gone", contextTokens: 16_384, outputTokens: 2_048 },
        ],
      },
    ]);
  });
});

describe("a build whose model failed", () => {
  beforeEach(() => openFixture());

  it("is retried with another model, and with another agent", async () => {
    world.answers = () => ({ status: 400, message: "no such model" });
    const { id } = await build({ agents: { backend: builtin }, tasks: [task("api", "make api.txt", { retries: 0 })] });
    const { ports } = world.fixture.app;
    const agent = "exec node agent.mjs";
    await expect(retryBuild(ports, id, { model: "nothing" })).rejects.toMatchObject({ code: "plan-invalid" });
    await retryBuild(ports, id, { agent });
    await world.fixture.until(id, ({ status }) => status === "failed" || status === "completed");
    expect((await world.fixture.app.store.builds.get({ id })).plan.agents).toMatchObject({
      backend: { runtime: "acp", command: agent, model: builtin.model },
    });
    expect((await attempts(id)).at(-1)?.reason).toBe("it finished without changing a file");
    world.answers = ({ body }) =>
      JSON.stringify(body.messages).includes("tool_result")
        ? { text: "done" }
        : { tools: [{ name: "write_file", input: { path: "made.txt", content: "by a good one" } }] };
    await retryBuild(ports, id, { agent: "builtin", model: "anthropic:claude-good" });
    expect(await world.fixture.until(id)).toMatchObject({ status: "completed" });
    expect(world.providers.requests.at(-1)?.body.model).toBe("claude-good");
  });
});

describe("a budget", () => {
  beforeEach(() => openFixture());

  it("ends the agent and the build when it is used up, and gives that reason", async () => {
    // Does something else each time, because an agent that repeats itself is ended.
    world.answers = ({ number }) => ({
      tools: [{ name: "search", input: { pattern: `word ${number}` } }],
      ...{ inputTokens: 900, outputTokens: 600 },
    });
    const { id, status } = await build({
      limits: { budget: { tokens: 20_000 } },
      agents: { backend: builtin },
      tasks: [task("api", "go on for ever", { retries: 3 })],
    });
    expect(status).toBe("failed");
    const made = await attempts(id);
    expect(made).toHaveLength(1);
    expect(made[0]).toMatchObject({ outcome: "over-budget", reason: expect.stringContaining("20000 tokens") });
    expect((await world.fixture.app.store.buildSpending.get({ buildId: id })).spentTokens).toBeLessThanOrEqual(20_000);
  });
});
