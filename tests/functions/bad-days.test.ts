import { afterEach, describe, expect, it } from "vitest";
import { limitTenant } from "../../src/api/tenants.ts";
import { retryBuild } from "../../src/coordinator/build/retry-build.ts";
import { requestCancel } from "../../src/coordinator/build/stop/cancel-build.ts";
import { processesSaying, sleepToken } from "../contract/guest-fixture.ts";
import { agentBuilds, builtin, scripted } from "../support/agent-builds.ts";
import type { FakeAnswer } from "../support/fake-providers.ts";
import { requires } from "../support/require.ts";

// Failures of agents and of their models, in whole builds. Mistakes of agents within one session
// are in tests/contract/agent-host.test.ts, answers of providers in
// tests/contract/model-proxy.test.ts.

const world = agentBuilds();
const ungated = { testing: false, critic: false, integration: false, maxFixRounds: 0 };
const task = (id: string, instructions: string, more: object = {}) => ({
  id,
  agent: "backend",
  instructions,
  retries: 0,
  ...more,
});
const start = (agent: object, tasks: object[], more: object = {}) =>
  world.fixture.request(
    { source: { path: "seed" }, gates: ungated, network: "none", agents: { backend: agent }, tasks, ...more },
    { planFolder: world.folder },
  );
const attempts = (buildId: string) => world.fixture.app.store.attempts.list({ buildId }, { by: "createdAt" });
const writes: FakeAnswer = {
  tools: [{ name: "write_file", input: { path: "api.txt", content: "by a model" } }],
  inputTokens: 100,
  outputTokens: 20,
};

describe("a model that", () => {
  const ends = async (answer: FakeAnswer) => {
    await world.open();
    world.answers = () => answer;
    const buildId = await start(builtin, [task("api", "write api.txt")]);
    expect((await world.fixture.until(buildId)).status).toBe("failed");
    const { store } = world.fixture.app;
    const calls = await store.modelCalls.list({ buildId });
    expect(calls.length).toBeGreaterThan(0);
    expect(calls.filter(({ status }) => status === "open")).toEqual([]);
    expect((await store.buildSpending.get({ buildId })).reservedTokens).toBe(0);
    const [attempt, ...others] = await attempts(buildId);
    expect(others).toEqual([]);
    return attempt!;
  };

  it.each([
    [400, "model error"],
    [401, "not signed in"],
    [500, "model error"],
  ])("answers %i fails the attempt with that reason and leaves nothing reserved", async (status, said) => {
    const attempt = await ends({ status, message: `the provider says ${status}` });
    expect(attempt).toMatchObject({ outcome: "failed", reason: expect.stringContaining(`the agent ended: ${said}`) });
    expect(attempt.reason).toContain(`the provider says ${status}`);
  });

  it("answers with something other than JSON fails the attempt, with that reason", async () => {
    const attempt = await ends({ raw: "<html>502 Bad gateway</html>" });
    expect(attempt).toMatchObject({
      outcome: "failed",
      reason: expect.stringMatching(/the agent ended|without changing/),
    });
  });

  it("cuts its answer off never counts as finished", async () => {
    const attempt = await ends({ ...writes, cut: true });
    expect(attempt).toMatchObject({
      outcome: "failed",
      reason: expect.stringMatching(/the agent ended|without changing/),
    });
  });

  it("is busy makes the agent wait and costs no attempt", async () => {
    await world.open();
    world.answers = ({ number }) => {
      if (number <= 2) return { status: number === 1 ? 429 : 529, headers: { "retry-after": "0.2" } };
      return number === 3 ? writes : { text: "done" };
    };
    const buildId = await start(builtin, [task("api", "write api.txt")]);
    expect(await world.fixture.until(buildId)).toMatchObject({ status: "completed", reason: null });
    expect(await attempts(buildId)).toHaveLength(1);
  });
});

describe("a budget that two agents reach at once, in the middle of their answers", () => {
  it("is never exceeded by more than the one call in flight, and both end over budget", async () => {
    await world.open();
    const tokens = 200_000;
    // Neither gets its first answer before both have called.
    let met: () => void = () => undefined;
    const both = new Promise<void>((resolve) => {
      met = resolve;
    });
    world.answers = async ({ number, body }) => {
      if (number === 2) met();
      await both;
      const outputTokens = Math.min(40_000, body.max_tokens);
      return { tools: [{ name: "list_files", input: {} }], inputTokens: 900, outputTokens };
    };
    const buildId = await start(builtin, [task("one", "go on for ever"), task("two", "go on for ever")], {
      limits: { budget: { tokens }, maxParallelTasks: 2, tasksPerAgentPerWave: 2 },
    });
    expect((await world.fixture.until(buildId)).status).toBe("failed");
    expect((await attempts(buildId)).map(({ outcome }) => outcome)).toEqual(["over-budget", "over-budget"]);
    const { spentTokens, reservedTokens } = await world.fixture.app.store.buildSpending.get({ buildId });
    expect(reservedTokens).toBe(0);
    expect(spentTokens).toBeGreaterThan(tokens / 2);
    expect(spentTokens).toBeLessThanOrEqual(tokens);
    const calls = await world.fixture.app.store.modelCalls.list({ buildId });
    expect(new Set(calls.map(({ ownerId }) => ownerId)).size).toBe(2);
  });
});

describe("a tenant that has spent its limit in USD", () => {
  it("ends its builds as over budget, running and future ones, until the limit is raised", async () => {
    await world.open({ env: { WAVESMITH_TENANT_USD: "0.05" } });
    const { app, until } = world.fixture;
    // 900 tokens in and 1,000 out cost about two cents.
    world.answers = () => ({ ...writes, inputTokens: 900, outputTokens: 1_000 });
    const spending = await start(builtin, [task("api", "write api.txt for ever")]);
    expect((await until(spending)).status).toBe("failed");
    const [attempt] = await attempts(spending);
    const said = "this tenant has spent 0.05 of 0.05 USD";
    expect(attempt).toMatchObject({ outcome: "over-budget", reason: expect.stringContaining(said) });
    expect(await app.store.modelCalls.list({ buildId: spending })).toHaveLength(3);
    const later = await start(builtin, [task("api", "write api.txt")]);
    expect((await until(later)).status).toBe("failed");
    expect(await attempts(later)).toMatchObject([{ outcome: "over-budget", reason: expect.stringContaining(said) }]);
    expect(await app.store.modelCalls.list({ buildId: later })).toEqual([]);
    await limitTenant(app.ports, "default", { usd: 10 });
    const rest = [writes];
    world.answers = () => rest.pop() ?? { text: "done" };
    await retryBuild(app.ports, spending);
    expect((await until(spending)).status).toBe("completed");
  });
});

describe("an agent that", () => {
  afterEach(() => {
    world.answers = () => ({ text: "done" });
  });

  it("ignores a cancel is killed with its child processes, and its work is kept", async () => {
    await world.open();
    const token = sleepToken();
    const buildId = await start(scripted, [
      task("api", `write api.txt begun\nrun sh -c 'trap "" TERM; setsid sleep ${token} & exit 0'\nsay ready\ndeaf`),
    ]);
    await world.fixture.until(buildId, async () => {
      const chunks = await world.fixture.app.store.logChunks.list({});
      return chunks.some(({ text }) => text.includes("ready"));
    });
    await requestCancel(world.fixture.app.ports, buildId, "enough");
    expect(await world.fixture.until(buildId)).toMatchObject({ status: "cancelled" });
    expect(processesSaying(`sleep\0${token}`)).toEqual([]);
    expect(await world.fixture.git("show", `wavesmith/${buildId}/task/api/1:api.txt`)).toBe("begun");
  });

  it("hangs is ended by the time limit of its task", async () => {
    await world.open();
    const buildId = await start(scripted, [task("api", "say ready\nhang", { timeout: "4s" })]);
    expect((await world.fixture.until(buildId)).status).toBe("failed");
    expect((await attempts(buildId))[0]).toMatchObject({ outcome: "timed-out" });
  });

  it("floods is limited to what a stage may print, and its end is still read", async () => {
    await world.open();
    const buildId = await start(scripted, [
      task(
        "api",
        `run head -c 12000000 /dev/zero | tr '\\0' x | fold -w 100 > big; cat big >&2 || :\nflood 20000\nwrite api.txt yes\nrun rm -f big\nsay the very last word`,
      ),
    ]);
    expect(await world.fixture.until(buildId)).toMatchObject({ status: "completed", reason: null });
    const chunks = await world.fixture.app.store.logChunks.list({});
    expect(chunks.reduce((sum, { text }) => sum + text.length, 0)).toBeLessThan(9 * 1024 * 1024);
    expect((await attempts(buildId))[0]?.outputTail).toContain("the very last word");
  });

  it.runIf(requires("bubblewrap"))(
    "writes outside of its tree by a command of its own changes nothing there",
    async () => {
      await world.open();
      const buildId = await start(
        scripted,
        [
          task(
            "one",
            "write one.txt yes\nrun echo no > ../two.1/planted.txt\nrun echo no > ../../../repo/planted.txt\nrun echo no > ../../../CLAUDE.md\nrun echo no > ../CLAUDE.md",
          ),
          task("two", "write two.txt yes\nrun ls ../../.. ../../../repo .. > seen.txt"),
        ],
        { limits: { maxParallelTasks: 2, tasksPerAgentPerWave: 2 } },
      );
      expect(await world.fixture.until(buildId)).toMatchObject({ status: "completed", reason: null });
      expect((await world.fixture.git("ls-tree", "-r", "--name-only", "main")).trim().split("\n").sort()).toEqual([
        "agent.mjs",
        "one.txt",
        "seen.txt",
        "two.txt",
      ]);
      expect(await world.fixture.git("show", "main:seen.txt")).not.toMatch(/CLAUDE|planted/);
    },
  );
});
