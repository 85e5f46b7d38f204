import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  type AgentPlace,
  type BuildEnd,
  callsMade,
  isRunning,
  openAgentPlace,
  type ProvenAgent,
  type ProvenDriver,
  planSpecOf,
  provenAgents,
  provenDrivers,
  stepsOf,
  wordsOf,
} from "../support/agent-place.ts";
import type { Command } from "../support/command.ts";
import { type FakeAnswer, type FakeRequest, offersTools } from "../support/fake-providers.ts";
import { withProof, writeProof } from "../support/proof-table.ts";
import { requires } from "../support/require.ts";

// Every agent in whole builds of the real command, against models on loopback: how it copes with
// long work, faults of its model, being stopped and killed, questions, budgets and recordings.
// WAVESMITH_PROOF=all runs everything under each driver (or the part that -t selects) and writes
// each result to tests/support/agent-proof.json, from which the tables of docs/agents.md are made;
// otherwise a sample runs.

const isWhole = process.env.WAVESMITH_PROOF === "all";
const drivers = isWhole ? provenDrivers : (["local"] as const);
const replays = isWhole ? 10 : 2;
const isReady = (driver: ProvenDriver): boolean =>
  requires("terminal", "agents", driver === "docker" ? driver : "bubblewrap");

interface World extends AgentPlace {
  readonly agent: ProvenAgent;
}

/** Builds a plan with these tasks and waits for its end. */
const build = (world: AgentPlace, tasks: readonly object[], rest: object = {}): Promise<BuildEnd> =>
  world.endOf(world.command.start("build", world.plan([...tasks] as never, { ...rest }), "--json"));

const buildIn = (text: string): string => /"buildId":"([^"]+)"/.exec(text)![1]!;

/** Resolves once the command has printed the id of its build. */
async function idOf(command: Command): Promise<string> {
  await command.said('"buildId"');
  return buildIn(command.text());
}

const attemptsOf = async ({ store }: AgentPlace) =>
  (await store.attempts.list({}, { by: "createdAt" })).slice(-1).map(({ number, outcome }) => [number, outcome]);

async function sixCommands(world: World): Promise<string> {
  const { run } = wordsOf(world.agent);
  world.model = stepsOf([1, 2, 3, 4, 5, 6].map((step) => run(`echo step ${step} >> steps.txt`)));
  const ended = await build(world, [{ id: "six" }]);
  expect(ended).toMatchObject({ code: 0, status: "completed" });
  expect(ended.file("steps.txt")).toBe([1, 2, 3, 4, 5, 6].map((step) => `step ${step}\n`).join(""));
  const { text } = await world.command.run("logs");
  for (const step of [1, 2, 3, 4, 5, 6]) expect(text).toContain(`echo step ${step} >> steps.txt`);
  return "finished";
}

async function failingProvider(world: World): Promise<string> {
  const work = stepsOf([wordsOf(world.agent).run("echo half > half.txt")]);
  world.model = (request) => (callsMade(request) > 0 ? { status: 500 } : work(request));
  const ended = await build(world, [{ id: "half" }]);
  expect(ended).toMatchObject({ code: 1, status: "failed" });
  const [attempt] = (await world.store.attempts.list({}, { by: "createdAt" })).slice(-1);
  expect(attempt).toMatchObject({ outcome: "failed", reason: expect.stringContaining("model error") });
  return "model error";
}

async function cutAnswer(world: World): Promise<string> {
  const { run } = wordsOf(world.agent);
  const work = stepsOf([run("echo one >> cut.txt"), run("echo two >> cut.txt")]);
  let cuts = 0;
  world.model = (request) => {
    if (!offersTools(request) || callsMade(request) !== 1 || cuts > 0) return work(request);
    cuts += 1;
    return { text: "Now I will", atLimit: true, inputTokens: 100, outputTokens: 20 };
  };
  const ended = await build(world, [{ id: "cut" }]);
  expect(ended).toMatchObject({ code: 0, status: "completed" });
  expect([cuts, ended.file("cut.txt")]).toEqual([1, "one\ntwo\n"]);
  const { text } = await world.command.run("logs");
  return text.includes("told it to continue") ? "continued by us" : "continued by itself";
}

async function cancelled(world: World): Promise<string> {
  const marker = `marker-${process.pid}-${world.providers.requests.length}`;
  // Claude Code refuses a long `sleep`, and Gemini CLI removes `sh -c`.
  world.model = stepsOf([wordsOf(world.agent).run(`tail -f /dev/null ${marker}`)]);
  const command = world.command.start("build", world.plan([{ id: "cancel" }]), "--json");
  await expect.poll(() => isRunning(marker), { timeout: 120_000 }).toBe(true);
  command.child.kill("SIGINT");
  expect(await world.endOf(command)).toMatchObject({ code: 3, status: "cancelled" });
  expect(isRunning(marker)).toBe(false);
  return "cancelled, nothing left running";
}

async function killed(world: World): Promise<string> {
  const { run } = wordsOf(world.agent);
  const work = stepsOf([run("echo one >> killed.txt"), run("echo two >> killed.txt")]);
  let kills = 0;
  const first = { command: null as Command | null };
  world.model = async (request) => {
    if (offersTools(request) && callsMade(request) === 1 && kills === 0) {
      kills += 1;
      first.command!.child.kill("SIGKILL");
      await first.command!.ended;
    }
    return work(request);
  };
  first.command = world.command.start("build", world.plan([{ id: "killed" }]), "--json");
  const buildId = await idOf(first.command);
  await first.command.ended;
  const ended = await world.endOf(world.command.start("resume", buildId, "--json"));
  expect(ended, ended.text).toMatchObject({ code: 0, status: "completed" });
  expect([kills, ended.file("killed.txt")]).toEqual([1, "one\ntwo\n"]);
  expect(await attemptsOf(world)).toEqual([[1, "succeeded"]]);
  return "went on in the same attempt";
}

/**
 * Codex does not ask, because the sandbox confines it; Gemini CLI and our agent know by themselves
 * where their tree ends.
 */
const asks: Readonly<Record<ProvenAgent, boolean>> = {
  ...{ builtin: false, claude: true, codex: false, gemini: false, opencode: true },
};

async function question(world: World): Promise<string> {
  const { run, write } = wordsOf(world.agent);
  const asked = "/workspace/cache/asked.txt";
  world.model = stepsOf([write(asked, "yes"), run(`cp ${asked} asked.txt || echo denied > asked.txt`)]);
  const command = world.command.startOnTerminal("build", world.plan([{ id: "ask" }]));
  const seen = { questions: 0, isOver: false };
  void command.ended.then(() => {
    seen.isOver = true;
  });
  const look = async () => {
    seen.questions = (await world.store.questions.list({ answer: null, closedAt: null })).length;
    return seen.questions > 0 || seen.isOver;
  };
  await expect.poll(look, { timeout: 120_000 }).toBe(true);
  expect(seen.questions, command.text()).toBe(asks[world.agent] ? 1 : 0);
  if (seen.questions > 0) {
    const { id } = await world.store.builds.get({ status: "running" });
    const answered = await world.command.run("answer", id, "--allow");
    expect(answered.code, answered.text).toBe(0);
  }
  expect(await command.ended, command.text()).toBe(0);
  const { text } = await world.command.run("diff");
  if (asks[world.agent]) expect(text).toContain("+yes");
  return asks[world.agent] ? "asked, was allowed, went on" : "asks nobody";
}

/**
 * Between one and two calls at their worst case: opencode's takes 48,000, Claude Code's 126,000.
 */
const tokensForOne = 80_000;

async function smallBudget(world: World): Promise<string> {
  const names = ["one", "two", "three", "four", "five"];
  let inFlight = 0;
  let most = 0;
  world.model = async (request: FakeRequest): Promise<FakeAnswer> => {
    const name = names.find((one) => JSON.stringify(request.body).includes(`model says: ${one}`))!;
    if (!offersTools(request)) return stepsOf([])(request);
    inFlight += 1;
    most = Math.max(most, inFlight);
    // Takes as long as a model takes at least, so that simultaneous calls would be seen.
    await new Promise((resolve) => setTimeout(resolve, 300));
    inFlight -= 1;
    return stepsOf([wordsOf(world.agent).run(`echo ${name} > ${name}.txt`)])(request);
  };
  const limits = { maxParallelTasks: 5, tasksPerAgentPerWave: 5, budget: { tokens: tokensForOne } };
  const ended = await build(
    world,
    names.map((id) => ({ id })),
    { limits },
  );
  expect(ended, ended.text).toMatchObject({ code: 0, status: "completed" });
  for (const name of names) expect(ended.file(`${name}.txt`)).toBe(`${name}\n`);
  const spending = await world.store.buildSpending.get({ buildId: buildIn(ended.text) });
  expect(spending).toMatchObject({ reservedTokens: 0 });
  expect(spending.spentTokens).toBeLessThanOrEqual(tokensForOne);
  expect(most).toBe(1);
  return "all five finished, one call at a time";
}

async function recorded(world: World): Promise<string> {
  const folder = join(world.command.folder, "cassette");
  const { run } = wordsOf(world.agent);
  // Takes any time it likes, which shuffles the order of the calls. Gemini CLI refuses `$(…)`.
  const wait = "od -An -N1 -tu1 /dev/urandom | xargs -I{} sleep 0.{}";
  const answer = (request: FakeRequest): FakeAnswer => {
    const name = JSON.stringify(request.body).includes("model says: left") ? "left" : "right";
    const step = (count: number) => run(`${wait}; echo ${name} ${count} >> ${name}.txt`);
    return stepsOf([step(1), step(2), step(3)])(request);
  };
  const plan = () => world.plan([{ id: "left" }, { id: "right" }]);
  const once = async (mode: "record" | "replay", project: string) => {
    const command = world.command.with({ WAVESMITH_CASSETTE: `${mode}:${folder}` });
    const ended = await world.endOf(command.start("--project", project, "build", plan(), "--json"));
    expect(ended, ended.text).toMatchObject({ code: 0, status: "completed" });
    for (const name of ["left", "right"]) expect(ended.file(`${name}.txt`)).toBe(`${name} 1\n${name} 2\n${name} 3\n`);
    await world.removeSandbox(project);
  };
  world.model = answer;
  await once("record", "tape");
  const { length } = world.providers.requests;
  world.model = () => ({ status: 500, message: "nobody should ask" });
  for (let count = 1; count <= replays; count += 1) await once("replay", `tape-${count}`);
  expect(world.providers.requests.length).toBe(length);
  rmSync(folder, { recursive: true });
  return `replayed ${replays} times`;
}

const scenarios: Readonly<Record<string, (world: World) => Promise<string>>> = {
  "six different commands in a row": sixCommands,
  "a provider that fails for good half way": failingProvider,
  "an answer cut at its limit": cutAnswer,
  "cancelled in the middle of a command": cancelled,
  "killed with kill -9 in the middle of a call, then resumed": killed,
  "a question to a person, about a file outside of its tree": question,
  "a budget with room for one of five": smallBudget,
  "recorded, and replayed": recorded,
};
const names = Object.keys(scenarios);
const sample = [
  ["builtin", ["an answer cut at its limit", "recorded, and replayed"]],
  ["codex", ["killed with kill -9 in the middle of a call, then resumed", "a budget with room for one of five"]],
] as const;
const chosen: readonly (readonly [ProvenAgent, readonly string[]])[] = isWhole
  ? provenAgents.map((agent) => [agent, names] as const)
  : sample;

it("has its results in docs/agents.md as they were measured", () => {
  const page = readFileSync(new URL("../../docs/agents.md", import.meta.url), "utf8");
  expect(withProof(page)).toBe(page);
});

it.each(provenAgents)("tries %s with the model that the README names for it", (agent) => {
  const readme = readFileSync(new URL("../../README.md", import.meta.url), "utf8");
  const spec = Object.entries(planSpecOf(agent)).map(([key, value]) =>
    key === "runtime" ? `runtime: ${value}` : `${key}: "${value}"`,
  );
  expect(readme).toContain(`# plan.yaml: agents: { default: { ${spec.join(", ")} } }`);
});

for (const driver of drivers) describe.runIf(isReady(driver))(`under ${driver}`, () => proveUnder(driver));

function proveUnder(driver: ProvenDriver): void {
  describe.each(chosen)("%s", { timeout: isWhole ? 1_800_000 : 600_000 }, (agent, own) => {
    let world: World;
    beforeAll(async () => {
      world = Object.assign(await openAgentPlace(agent, driver), { agent });
    });
    afterAll(() => world.close(), 300_000);

    it.each(own)("%s", async (scenario) => {
      const keep = (result: string): void => {
        if (isWhole) writeProof({ driver, scenario, agent, result }, names);
      };
      const result = await scenarios[scenario]!(world).catch(async (error: unknown) => {
        keep("**failed**");
        // Whatever still runs would hold up the next test.
        for (const { id } of await world.store.builds.list({ status: "running" }))
          await world.command.run("cancel", id);
        throw error;
      });
      keep(result);
    });
  });
}
