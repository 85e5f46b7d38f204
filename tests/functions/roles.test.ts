import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { agentBuilds, builtin, scripted } from "../support/agent-builds.ts";
import type { FakeAnswer } from "../support/fake-providers.ts";
import { requires } from "../support/require.ts";

// The critic, the fixer and what agents say in whole builds, whatever the runtime. The scripted
// agent does what each line of its prompt says. A role's own prompt tells it what to do; the prompt
// of the second look is ours, so there the plan's description does.

const world = agentBuilds();
beforeEach(async () => {
  writeFileSync(join(world.folder, "seed/old.txt"), "stood before\n");
  await world.open();
});

const critic = (fields: object) => ({
  source: { path: "seed" },
  gates: { testing: false, integration: false, maxFixRounds: 0 },
  network: "none",
  tasks: [{ id: "a", run: "printf 'one\\ntwo\\n' > new.txt" }],
  ...fields,
});
async function build(plan: Record<string, unknown>) {
  const { id } = await world.fixture.until(await world.fixture.request(plan, { planFolder: world.folder }));
  const { store } = world.fixture.app;
  const runs = await store.gateRuns.list({ buildId: id, gate: "critic" }, { by: "createdAt" });
  const found = await store.findings.list({ gateRunId: runs.map((run) => run.id) }, { by: "id" });
  return {
    status: (await store.builds.get({ id })).status,
    verdicts: runs.map(({ verdict }) => verdict),
    notes: runs.flatMap(({ evidence }) => evidence?.notes ?? []),
    findings: found.map(({ severity, message }) => `${severity}: ${message}`),
    jobs: (await store.jobs.list({ ownerId: runs.map((run) => run.id) })).length,
    runs,
    id,
  };
}
const loses = { title: "Loses data", severity: "high", confidence: 0.9, file: "new.txt", line: 2 };
const elsewhere = { title: "Old fault", severity: "critical", confidence: 0.9, file: "old.txt", line: 1 };
const handIn = (result: object) => `submit ${JSON.stringify(result)}`;
const verdicts = (...confirmed: boolean[]) =>
  confirmed.map((one, index) => ({ finding: index + 1, confirmed: one, reason: one ? "seen" : "the caller checks" }));

describe("a critic of the Agent Client Protocol", () => {
  const agents = (findings: object[]) => ({
    critic: { ...scripted, prompt: `${handIn({ findings })}\n{{diff}}\n{{handIn}}` },
  });

  it("blocks a wave by findings that a second look confirms, and keeps those outside the change", async () => {
    const ended = await build(
      critic({ agents: agents([loses, elsewhere]), description: handIn({ verdicts: verdicts(true) }) }),
    );
    expect(ended).toMatchObject({ status: "failed", verdicts: ["failed"], jobs: 2 });
    expect(ended.findings).toEqual([
      "high: Loses data",
      "low: outside this wave's changes, so it cannot block (reported as critical): Old fault",
    ]);
    expect(ended.notes).toContain("2 findings by the critic agent, 1 of 1 confirmed by a second look");
  });

  it("cannot block by findings that a second look does not confirm, whatever the level", async () => {
    const plan = critic({ agents: agents([loses]), description: handIn({ verdicts: verdicts(false) }) });
    const ended = await build({ ...plan, gates: { ...plan.gates, critic: { block: "low" } } });
    expect(ended).toMatchObject({ status: "completed", verdicts: ["passed"], jobs: 2 });
    expect(ended.findings).toEqual([
      "low: not confirmed by a second look (the caller checks), so it cannot block (reported as high): Loses data",
    ]);
  });

  it("is not asked twice when nothing would block", async () => {
    const ended = await build(critic({ agents: agents([{ ...loses, severity: "medium" }, elsewhere]) }));
    expect(ended).toMatchObject({ status: "completed", verdicts: ["passed"], jobs: 1 });
    expect(ended.findings).toHaveLength(2);
  });

  it("does not let the wave pass if its second look fails", async () => {
    const plan = critic({ agents: agents([{ ...loses, severity: "critical" }]), description: "crash" });
    const ended = await build({ ...plan, gates: { ...plan.gates, critic: { block: "critical" } } });
    expect(ended).toMatchObject({ status: "failed", verdicts: ["failed"] });
    expect(ended.findings[0]).toMatch(/^critical: in its second look, the critic agent did not finish/);
    expect(ended.findings[1]).toMatch(/^low: not looked at again/);
  });
});

describe("a critic that fails", () => {
  it("blocks the wave, says how its agent ended, and starts no fixer", async () => {
    const prompt = "fail -32603 model said 400\n{{diff}}\n{{handIn}}";
    const fixer = { runtime: "command", command: "echo mended > new.txt" };
    const ended = await build({
      ...critic({ agents: { critic: { ...scripted, prompt }, fixer } }),
      gates: { testing: false, integration: false },
    });
    expect(ended).toMatchObject({ status: "failed", verdicts: ["failed"], jobs: 1 });
    expect(ended.findings).toEqual([
      "high: the critic agent did not finish: the agent ended: model error: model said 400",
    ]);
    expect(await world.fixture.app.store.attempts.list({ buildId: ended.id, kind: "fix" })).toEqual([]);
    expect((await world.fixture.app.store.waves.get({ buildId: ended.id })).reason).toContain("no fixer can fix");
  });
});

describe("a critic of another runtime", () => {
  it("may be a program that reports the same findings again, which confirms them", async () => {
    const says = `cat > /dev/null; echo '${JSON.stringify({ findings: [loses, elsewhere] })}' > "$WAVESMITH_RESULT_FILE"`;
    const ended = await build(critic({ agents: { critic: { runtime: "command", command: says } } }));
    expect(ended).toMatchObject({ status: "failed", verdicts: ["failed"], jobs: 2 });
    expect(ended.findings[0]).toBe("high: Loses data");
  });

  it("may be a program that tells the two looks apart by its task file", async () => {
    writeFileSync(
      join(world.folder, "seed/critic.mjs"),
      `import { readFileSync, writeFileSync } from "node:fs";
       const { kind, findings } = JSON.parse(readFileSync(process.env.WAVESMITH_TASK_FILE, "utf8"));
       const result = kind === "second-look" ? { verdicts: findings.map((_, at) => ({ finding: at + 1, confirmed: false })) }
         : { findings: [${JSON.stringify(loses)}] };
       writeFileSync(process.env.WAVESMITH_RESULT_FILE, JSON.stringify(result));`,
    );
    const ended = await build(critic({ agents: { critic: { runtime: "command", command: "node critic.mjs" } } }));
    expect(ended).toMatchObject({ status: "completed", verdicts: ["passed"], jobs: 2 });
  });

  it("may be the built-in agent, whose second look is a session that knows nothing of the first", async () => {
    const asked: string[] = [];
    world.answers = ({ body }) => {
      const said = JSON.stringify(body.messages);
      if (said.includes("tool_result")) return { text: "done" };
      asked.push(said);
      const input = said.includes("A second look") ? { verdicts: verdicts(true) } : { findings: [loses] };
      return { tools: [{ name: "submit_result", input }] };
    };
    const ended = await build(critic({ agents: { critic: builtin } }));
    expect(ended).toMatchObject({ status: "failed", verdicts: ["failed"], jobs: 2 });
    expect(asked).toHaveLength(2);
    expect(asked[1]).toContain("1. [high] new.txt:2 review: Loses data");
    expect(asked[1]).not.toContain("Review of wave");
  });
});

describe("a fixer of the Agent Client Protocol", () => {
  const tests = "sh ./test.sh";
  const script = `printf 'echo 1..1; if grep -q good value; then echo ok 1 - value; else echo not ok 1 - value is bad; exit 1; fi\\n' > test.sh; echo bad > value`;
  const gated = (fixer: object, fields: object = {}) => ({
    source: { path: "seed" },
    network: "none",
    gates: { testing: { command: tests }, integration: false, maxFixRounds: 2 },
    agents: { fixer },
    tasks: [{ id: "a", run: script }],
    ...fields,
  });
  const end = async (plan: Record<string, unknown>) => {
    const { id, status } = await world.fixture.until(await world.fixture.request(plan, { planFolder: world.folder }));
    const { store } = world.fixture.app;
    const { reason, fixRounds } = await store.waves.get({ buildId: id });
    const fixes = await store.attempts.list({ buildId: id, kind: "fix" }, { by: "number" });
    return { status, reason, fixRounds, outcomes: fixes.map(({ outcome }) => outcome), fixes };
  };
  const asks = (lines: string) => ({ ...scripted, prompt: `${lines}\n{{findings}}\n\n{{rules}}` });

  it("fixes the finding of a gate, and its last message is shown", async () => {
    const ended = await end(gated(asks("write value good\nsay mended")));
    expect(ended).toMatchObject({ status: "completed", fixRounds: 1, outcomes: ["succeeded"] });
    expect(ended.fixes[0]!.verdict?.summary).toBe("mended");
  });

  it("stops when the same findings come twice", async () => {
    const ended = await end(gated(asks("write touched {prompts}")));
    expect(ended).toMatchObject({ status: "failed", fixRounds: 1, outcomes: ["succeeded"] });
    expect(ended.reason).toContain("same findings");
  });

  it("has as many rounds as the plan gives it", async () => {
    // Each round leaves another fault.
    const counts = `printf 'echo 1..1; echo "not ok 1 - fault $(cat value)"; exit 1\\n' > test.sh; echo zero > value`;
    const plan = gated(asks("run if grep -q zero value; then echo one > value; else echo two > value; fi"), {
      tasks: [{ id: "a", run: counts }],
    });
    const ended = await end(plan);
    expect(ended).toMatchObject({ status: "failed", fixRounds: 2, outcomes: ["succeeded", "succeeded"] });
  });

  it("may not weaken tests", async () => {
    const test = `import test from "node:test"; import assert from "node:assert"; test("value", () => assert.equal(1, 2));`;
    const plan = gated(asks("run rm test/value.test.js; echo 1 > other.js"), {
      gates: { testing: { command: "node --test test/" }, integration: false, maxFixRounds: 2 },
      tasks: [{ id: "a", run: `mkdir test; echo '${test}' > test/value.test.js` }],
    });
    const ended = await end(plan);
    expect(ended).toMatchObject({ status: "failed", outcomes: ["refused"] });
    expect(ended.reason).toContain("weakens tests");
  });

  it("may be the built-in agent", async () => {
    world.answers = ({ body }) =>
      JSON.stringify(body.messages).includes("tool_result")
        ? { text: "The value is good now." }
        : { tools: [{ name: "exec", input: { command: "echo good > value" } }] };
    const ended = await end(gated(builtin));
    expect(ended).toMatchObject({ status: "completed", fixRounds: 1, outcomes: ["succeeded"] });
    expect(ended.fixes[0]!.verdict?.summary).toBe("The value is good now.");
  });
});

const sandboxes = [
  requires("bubblewrap") ? ("local" as const) : ("local-unsafe" as const),
  ...(requires("docker") ? ["docker" as const] : []),
];

describe.each(sandboxes)("models in every role (%s)", { timeout: 600_000 }, (sandbox) => {
  /**
   * The first action of each role's model, recognised by its prompt; afterwards it says that it is
   * done.
   */
  const first = (prompt: string): FakeAnswer => {
    const write = (path: string, content: string): FakeAnswer => ({
      tools: [{ name: "write_file", input: { path, content } }],
    });
    const handOver = (input: object): FakeAnswer => ({ tools: [{ name: "submit_result", input }] });
    if (prompt.includes("# Task: api")) return write("api.txt", "unchecked\n");
    if (prompt.includes("# Task: page")) return write("page.txt", "page\n");
    if (prompt.includes("# Fix: the critic gate"))
      return { tools: [{ name: "exec", input: { command: "echo checked > api.txt" } }] };
    const fault = { title: "The id is not checked", severity: "high", confidence: 0.9, file: "api.txt", line: 1 };
    if (prompt.includes("# Review of wave"))
      return handOver({ findings: prompt.includes("+unchecked") ? [fault] : [] });
    if (prompt.includes("# A second look")) return handOver({ verdicts: verdicts(true) });
    return { status: 500, message: "an unknown prompt" };
  };

  it("build a plan: work, tests, a review that is confirmed, a fix, and every gate again", async () => {
    await world.fixture.close();
    await world.open({ sandbox, patienceMs: 400_000 });
    world.answers = ({ body }) => {
      // A continued session includes the earlier messages.
      const said = JSON.stringify(body.messages.at(-1));
      return said.includes("tool_result") ? { text: "Done." } : first(said);
    };
    const buildId = await world.fixture.request({
      network: "none",
      agents: { default: builtin, critic: builtin },
      gates: {
        testing: { command: "echo 1..1; test -s api.txt && echo ok 1 - api" },
        integration: { command: "grep -qx checked api.txt" },
      },
      tasks: [
        { id: "api", agent: "backend", instructions: "Write api.txt." },
        {
          id: "page",
          agent: "frontend",
          instructions: "Write page.txt.",
          dependsOn: ["api"],
          acceptance: [{ check: "test -s page.txt" }],
        },
      ],
    });
    const { status } = await world.fixture.until(buildId);
    const waves = await world.fixture.app.store.waves.list({ buildId }, { by: "number" });
    expect(waves.map(({ reason }) => reason)).toEqual([null, null]);
    expect(status).toBe("completed");
    const runs = await world.fixture.app.store.gateRuns.list({ buildId }, { by: "createdAt" });
    expect(runs.map(({ gate, verdict }) => `${gate} ${verdict}`)).toEqual([
      ...["testing passed", "critic failed", "testing passed", "critic passed", "integration passed"],
      ...["testing passed", "critic passed", "integration passed"],
    ]);
    expect(await world.fixture.git("show", "main:api.txt")).toBe("checked\n");
    const page = world.providers.requests.find(({ body }) => JSON.stringify(body.messages).includes("# Task: page"));
    expect(JSON.stringify(page?.body.messages), "a summary for who builds on it").toContain("Done.");
  });
});

describe("an agent's last message", () => {
  it("is the summary for dependent tasks, without secrets, unless it submitted one", async () => {
    await world.fixture.close();
    await world.open({ env: { DEPLOY_TOKEN: "tok-1234567890" } });
    const buildId = await world.fixture.request(
      {
        source: { path: "seed" },
        network: "none",
        gates: { testing: false, critic: false, integration: false },
        secrets: ["DEPLOY_TOKEN"],
        agents: { backend: scripted, reader: { runtime: "command", command: "cat > prompt.txt" } },
        tasks: [
          {
            id: "said",
            agent: "backend",
            instructions: "say let me see\nwrite a.txt a\nsay I made a.txt with tok-1234567890.",
            acceptance: [{ check: "test -s a.txt; echo checked" }],
          },
          {
            id: "handed-in",
            agent: "backend",
            instructions: `write b.txt b\nrun echo '{"summary":"from the file"}' > $WAVESMITH_RESULT_FILE\nsay not this`,
          },
          { id: "reads", agent: "reader", dependsOn: ["said", "handed-in"], instructions: "Read." },
        ],
      },
      { planFolder: world.folder },
    );
    expect((await world.fixture.until(buildId)).status).toBe("completed");
    const prompt = await world.fixture.git("show", "main:prompt.txt");
    expect(prompt).toContain("I made a.txt with [secret DEPLOY_TOKEN].");
    expect(prompt).toContain("from the file");
    for (const text of ["let me see", "chose once", "not this", "tok-1234567890"]) expect(prompt).not.toContain(text);
  });
});
