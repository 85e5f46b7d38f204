import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { retryBuild } from "../../src/coordinator/build/retry-build.ts";
import { requestCancel } from "../../src/coordinator/build/stop/cancel-build.ts";
import type { BuildRow } from "../../src/store/port.ts";
import { agentBuilds, builtin, scripted } from "../support/agent-builds.ts";
import type { FixtureOptions } from "../support/build-fixture.ts";
import { requires } from "../support/require.ts";

// Agents that add checks to the testing and integration gates, in whole builds. The scripted agent
// does what each line of its prompt says, and the role's own prompt says what to do.

const world = agentBuilds();
/** A gate with an agent takes three jobs. */
const patienceMs = 200_000;
const open = (options: FixtureOptions = {}) => world.open({ patienceMs, ...options });
beforeEach(async () => {
  writeFileSync(join(world.folder, "seed/value"), "good\n");
  await open();
});

const ours = "echo 1..1; echo ok 1 - ours; cat value";
const check = (command: string, name = "it holds") => ({ name, command, why: "the task says so" });
const handIn = (...checks: object[]) => `submit ${JSON.stringify({ checks })}`;
const tester = (...lines: string[]) => ({ ...scripted, prompt: `${lines.join("\n")}\n{{diff}}\n{{handIn}}` });
const gated = (agent: object, fields: { gates?: object; agents?: object; tasks?: object[] } = {}) => ({
  source: { path: "seed" },
  network: "none",
  agents: { tester: agent, ...fields.agents },
  gates: { testing: { command: ours, agent: "tester" }, integration: false, maxFixRounds: 0, ...fields.gates },
  tasks: fields.tasks ?? [{ id: "a", run: "echo new > new.txt" }],
});

async function build(plan: Record<string, unknown>, gate: "testing" | "integration" = "testing") {
  const { id, status } = await world.fixture.until(await world.fixture.request(plan, { planFolder: world.folder }));
  const { store } = world.fixture.app;
  const runs = await store.gateRuns.list({ buildId: id, gate }, { by: "createdAt" });
  const found = await store.findings.list({ gateRunId: runs.map((run) => run.id) }, { by: "id" });
  const wave = await store.waves.get({ buildId: id, number: 1 });
  return {
    status,
    wave,
    runs,
    verdicts: runs.map(({ verdict }) => verdict),
    added: runs.map(({ evidence }) => evidence?.added),
    outcomes: runs.map(({ evidence }) => evidence?.added?.checks.map(({ result }) => result?.outcome)),
    notes: runs.map(({ evidence }) => evidence?.notes ?? []),
    findings: found.map(({ rule, message }) => `${rule}: ${message}`),
    jobs: (await store.jobs.list({ ownerId: runs.map((run) => run.id) })).length,
    id,
  };
}

describe("checks that a gate's agent adds", { timeout: 400_000 }, () => {
  it("run on a clean tree, and are kept as evidence beside our own checks", async () => {
    const ended = await build(
      gated(tester("run echo planted > value", handIn(check("grep good value"), check("true")))),
    );
    expect(ended).toMatchObject({
      status: "completed",
      verdicts: ["passed"],
      outcomes: [["passed", "passed"]],
      jobs: 3,
    });
    expect(ended.runs[0]!.evidence).toMatchObject({ command: ours, exitCode: 0, tests: { total: 1 } });
    expect(ended.notes[0]).toContain("agent tester added 2 checks: 2 passed");
    expect(ended.added[0]!.checks[0]).toMatchObject({ command: "grep good value", result: { outputTail: "good" } });
  });

  it("fail the gate by their exit code alone, and go to the fixer with evidence", async () => {
    const fixer = { runtime: "command", command: "cat > asked.txt; echo mended >> value" };
    const command = "echo looked; grep mended value || exit 3";
    const plan = gated(tester(handIn(check(command, "it is mended"))), {
      agents: { fixer },
      gates: { maxFixRounds: 2 },
    });
    const ended = await build(plan);
    expect(ended).toMatchObject({ status: "completed", verdicts: ["failed", "passed"], jobs: 5 });
    expect(ended.outcomes).toEqual([["failed"], ["passed"]]);
    expect(ended.runs[0]).toMatchObject({
      reason: "it is mended: exit 3, a check that agent tester added",
      evidence: { command, exitCode: 3, outputTail: "looked" },
    });
    expect(ended.findings[0]).toBe(`added-check: it is mended (the task says so): exit 3 of ${command}`);
    expect(ended.added[1], "nobody is asked twice").toMatchObject({ asked: false });
    const prompt = await world.fixture.git("show", "main:asked.txt");
    expect(prompt).toContain("```data end of its output\n$ echo looked; grep mended value || exit 3\nlooked\n```");
    expect(prompt, "an agent's command is not quoted as ours").not.toContain("The gate ran");
  });

  it("end the fixes when they find the same problem twice", async () => {
    const fixer = { runtime: "command", command: "cat > /dev/null; date +%s%N >> value" };
    const plan = gated(tester(handIn(check("echo took 3 ms; exit 1"))), {
      agents: { fixer },
      gates: { maxFixRounds: 5 },
    });
    const ended = await build(plan);
    expect(ended).toMatchObject({ status: "failed", verdicts: ["failed", "failed"], wave: { fixRounds: 1 } });
    expect(ended.wave.reason).toContain("same findings");
  });

  it("neither block nor pass if they could not run, and are reported", async () => {
    const tree = "run echo exit 0 > own.sh; echo here > $TMPDIR/x";
    const checks = [
      check("no-such-program-at-all", "absent program"),
      check("sh ./own.sh", "own file"),
      check("kill -9 $$", "killed"),
      check("cat /tmp/made-before", "temporary"),
      check("test -e new.txt", "a good one"),
    ];
    const ended = await build(gated(tester(tree, handIn(...checks))));
    expect(ended).toMatchObject({ status: "completed", verdicts: ["passed"], findings: [] });
    expect(ended.outcomes).toEqual([["not-run", "not-run", "not-run", "not-run", "passed"]]);
    expect(ended.notes[0]).toContain("agent tester added 5 checks: 1 passed, 4 could not be run");
    const notes = ended.notes[0]!.join("\n");
    expect(notes).toContain("own file: could not be run: it needs own.sh, which only its agent's tree had");
    expect(notes).toContain("absent program: could not be run: ");
  });

  it("time out when the gate does, which is not a verdict", async () => {
    const ended = await build(
      gated(tester(handIn(check("sleep 600"))), {
        gates: { testing: { command: ours, agent: "tester", timeout: "2s" } },
      }),
    );
    expect(ended).toMatchObject({ status: "completed", verdicts: ["passed"], outcomes: [["not-run"]] });
    expect(ended.added[0]!.checks[0]!.result!.note).toContain("did not end within its time");
  });
});

describe("a gate with an agent", { timeout: 400_000 }, () => {
  it("does not ask its agent if our own command fails", async () => {
    const testing = { command: "echo 1..1; echo not ok 1 - ours; exit 1", agent: "tester" };
    const ended = await build(gated(tester(handIn(check("true"))), { gates: { testing } }));
    expect(ended).toMatchObject({ status: "failed", verdicts: ["failed"], added: [undefined], jobs: 1 });
  });

  it("stays absent when it has no checks of its own, and fails by a failed added check", async () => {
    const integration = { agent: "tester" };
    const gates = { testing: false, integration };
    const held = await build(gated(tester(handIn(check("test -e new.txt"))), { gates }), "integration");
    expect(held).toMatchObject({ status: "completed", verdicts: ["absent"], outcomes: [["passed"]], jobs: 2 });
    expect(held.runs[0]!.reason).toBe("no command, preview or acceptance check to run");
    await world.fixture.close();
    await open();
    const failed = await build(gated(tester(handIn(check("test -e old.txt"))), { gates }), "integration");
    expect(failed).toMatchObject({ status: "failed", verdicts: ["failed"], outcomes: [["failed"]] });
  });

  it.each([
    ["crash", "it did not finish: the agent ended: crashed"],
    ["say that is all", "it did not finish: the agent ended: no result"],
    ["fail -32603 model said 400", "it did not finish: the agent ended: model error: model said 400"],
  ])("uses our own verdict when the agent fails: %s", async (line, lack) => {
    const ended = await build(gated(tester(line)));
    expect(ended).toMatchObject({ status: "completed", verdicts: ["passed"], jobs: 2 });
    expect(ended.added[0]!.lack).toContain(lack);
    expect(ended.notes[0]!.join("\n")).toContain(`agent tester added no checks: ${lack}`);
  });

  it("ignores a result file that does not match the schema", async () => {
    const many = Array.from({ length: 11 }, (_, index) => check(`test ${index}`));
    const says = `cat > /dev/null; echo '${JSON.stringify({ checks: many })}' > "$WAVESMITH_RESULT_FILE"`;
    const ended = await build(gated({ runtime: "command", command: says }));
    expect(ended).toMatchObject({ status: "completed", verdicts: ["passed"], outcomes: [[]] });
    expect(ended.added[0]!.lack).toContain("its result file cannot be read: checks: ");
  });

  it("asks once more on each new head if no checks were added", async () => {
    const fixer = { runtime: "command", command: "cat > /dev/null; echo mended > mended" };
    const counts = `cat > /dev/null; echo asked >> ../../../cache/asked; echo '{"checks":[]}' > "$WAVESMITH_RESULT_FILE"`;
    const integration = { command: "test -e mended" };
    const plan = gated(
      { runtime: "command", command: counts },
      { agents: { fixer }, gates: { integration, maxFixRounds: 1 } },
    );
    const ended = await build(plan);
    expect(ended).toMatchObject({ status: "completed", verdicts: ["passed", "passed"] });
    expect(ended.added.map((added) => added?.asked)).toEqual([true, true]);
    expect(ended.notes[1]).toContain("agent tester added no checks");
  });

  it("does not run a command with a secret in it, and shows only its name", async () => {
    await world.fixture.close();
    await open({ env: { DEPLOY_TOKEN: "tok-1234567890" } });
    const plan = gated(
      tester(handIn(check("echo tok-1234567890"), check('test "$DEPLOY_TOKEN" && echo $DEPLOY_TOKEN'))),
    );
    const ended = await build({ ...plan, secrets: ["DEPLOY_TOKEN"] });
    expect(ended).toMatchObject({ status: "completed", verdicts: ["passed"], outcomes: [["not-run", "passed"]] });
    expect(ended.added[0]!.checks[0]).toMatchObject({
      command: "echo [secret DEPLOY_TOKEN]",
      refused: "it holds the value of a secret",
    });
    expect(ended.added[0]!.checks[1]!.result!.outputTail).toBe("[secret DEPLOY_TOKEN]");
    expect(JSON.stringify(ended.runs)).not.toContain("tok-1234567890");
  });

  it("may use the built-in agent, whose calls count for the gate", async () => {
    const asked: string[] = [];
    world.answers = ({ body }) => {
      const said = JSON.stringify(body.messages);
      if (said.includes("tool_result")) return { text: "done" };
      asked.push(said);
      return { tools: [{ name: "submit_result", input: { checks: [check("test -e new.txt")] } }] };
    };
    const ended = await build(gated(builtin));
    expect(ended).toMatchObject({ status: "completed", verdicts: ["passed"], outcomes: [["passed"]] });
    expect(asked).toHaveLength(1);
    expect(asked[0]).toContain("More checks for the testing gate of wave 1");
    expect(asked[0]).toContain("+new");
    const calls = await world.fixture.app.store.modelCalls.list({ buildId: ended.id });
    expect(calls.map(({ ownerKind, ownerId }) => [ownerKind, ownerId])).toEqual(
      calls.map(() => ["gate", ended.runs[0]!.id]),
    );
  });
});

/** Waits in its tree until a file on the volume says that it may go on. */
const waits = `while ! test -e ../../../signals/go; do sleep 0.05; done`;
const asksAndWaits = (result: object) => ({
  runtime: "command",
  command: `cat > /dev/null; echo asked >> ../../../cache/asked; ${waits}; echo '${JSON.stringify(result)}' > "$WAVESMITH_RESULT_FILE"`,
});

describe("a gate while its agent works", { timeout: 400_000 }, () => {
  const guest = async (build: BuildRow) =>
    (await world.fixture.app.ports.driver(build.sandboxDriver).find(world.fixture.projectId as never))?.guest;
  const inPart = async (buildId: string, phase: string, losses = 0) => {
    const run = await world.fixture.app.store.gateRuns.find({ buildId, gate: "testing", losses, status: "running" });
    const key = run?.evidence?.added?.phase === phase ? run.jobKey : null;
    return key != null && (await world.fixture.app.store.jobs.find({ key, status: "running" })) !== null;
  };
  const request = (plan: Record<string, unknown>) => world.fixture.request(plan, { planFolder: world.folder });
  const ended = async (buildId: string) => {
    const build = await world.fixture.until(buildId);
    const runs = await world.fixture.app.store.gateRuns.list({ buildId, gate: "testing" }, { by: "createdAt" });
    return { build, run: runs.at(-1)!, runs };
  };

  it("repeats that part alone when its sandbox is lost", async () => {
    const buildId = await request(gated(asksAndWaits({ checks: [check("test -e new.txt")] })));
    const build = await world.fixture.until(buildId, () => inPart(buildId, "asking"));
    await world.fixture.app.ports.driver(build.sandboxDriver).stop(world.fixture.projectId as never);
    await world.fixture.until(buildId, () => inPart(buildId, "asking", 1));
    await (await guest(build))!.writeFile("signals/go", "");
    const { run } = await ended(buildId);
    expect(run).toMatchObject({ verdict: "passed", losses: 1, evidence: { command: ours } });
    expect(run.evidence?.added?.checks.map(({ result }) => result?.outcome)).toEqual(["passed"]);
    expect(await world.fixture.app.store.jobs.list({ ownerId: run.id })).toHaveLength(4);
  });

  it("uses our own verdict if the agent kills its sandbox each time", async () => {
    const buildId = await request(gated(tester(handIn(check("sleep 600")))));
    for (let losses = 0; losses <= 3; losses += 1) {
      const build = await world.fixture.until(buildId, () => inPart(buildId, "running", losses));
      await world.fixture.app.ports.driver(build.sandboxDriver).stop(world.fixture.projectId as never);
    }
    const { build, run } = await ended(buildId);
    expect(build.status).toBe("completed");
    expect(run).toMatchObject({ verdict: "passed", reason: null, evidence: { exitCode: 0, command: ours } });
    expect(run.evidence?.notes.join("\n")).toContain("could not be run: its sandbox died 4 times while it ran");
  });

  it("uses our own verdict if the plan's time limit runs out meanwhile", async () => {
    let late = 0;
    await world.fixture.close();
    await open({ clock: () => new Date(Date.now() + late) });
    const buildId = await request({
      ...gated(asksAndWaits({ checks: [] })),
      limits: { budget: { wallClock: "2h" } },
    });
    await world.fixture.until(buildId, () => inPart(buildId, "asking"));
    late = 3 * 3_600_000;
    const { build, run } = await ended(buildId);
    expect(run).toMatchObject({ verdict: "passed" });
    expect(run.evidence?.added?.lack).toBe("the plan's time limit was used up while it was at work");
    expect(build.status, "what comes after it is another gate").toBe("failed");
  });

  it("is cancelled with its build, and its result is used when the build continues", async () => {
    const buildId = await request(gated(asksAndWaits({ checks: [check("test -e new.txt")] })));
    await world.fixture.until(buildId, () => inPart(buildId, "asking"));
    await requestCancel(world.fixture.app.ports, buildId, "changed my mind");
    const first = await ended(buildId);
    expect(first.run).toMatchObject({ verdict: "inconclusive", reason: "the build was cancelled" });
    await retryBuild(world.fixture.app.ports, buildId);
    await world.fixture.until(buildId, () => inPart(buildId, "asking"));
    await (await guest(first.build))!.writeFile("signals/go", "");
    const { build, run } = await ended(buildId);
    expect(build.status).toBe("completed");
    expect(run.evidence?.added).toMatchObject({ asked: true, checks: [{ result: { outcome: "passed" } }] });
  });

  it("uses our own verdict if the plan's tokens are used up", async () => {
    const buildId = await request({ ...gated(builtin), limits: { budget: { tokens: 100 } } });
    const { run } = await ended(buildId);
    expect(run).toMatchObject({ verdict: "passed" });
    expect(run.evidence?.added?.lack).toContain("it did not finish: the agent ended: over budget");
    expect(world.providers.requests, "no call is made that may not be").toEqual([]);
  });

  it("lets no job of the project write to the home of a gate's agent", async () => {
    if (!requires("bubblewrap")) return;
    const spy = "for home in ../../../homes/*/*; do test ! -w $home || exit 1; done; ls ../../../homes/* || true";
    const testing = { command: `echo 1..1; echo ok 1; ${spy}`, agent: "tester" };
    const critic = {
      runtime: "command",
      command: `cat > /dev/null; echo '{"findings":[]}' > "$WAVESMITH_RESULT_FILE"`,
    };
    const plan = gated(tester(handIn(check(spy))), {
      agents: { critic },
      gates: { testing, integration: { command: spy } },
    });
    const { build, run } = await ended(await request(plan));
    expect(run.evidence?.added?.checks[0]?.result).toMatchObject({ outcome: "passed" });
    expect(build.status).toBe("completed");
  });
});

it.runIf(requires("docker"))("a gate has its agent in a container, too", { timeout: 600_000 }, async () => {
  await world.fixture.close();
  await world.open({ sandbox: "docker", patienceMs: 400_000 });
  const checks = handIn(check("test -e new.txt"), check("sh own.sh"), check("test -e missing"));
  const ended = await build(gated(tester("run echo exit 0 > own.sh", checks)));
  expect(ended).toMatchObject({ status: "failed", verdicts: ["failed"], outcomes: [["passed", "not-run", "failed"]] });
});
