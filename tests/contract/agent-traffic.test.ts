import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { isDeepStrictEqual } from "node:util";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { findPinned } from "../../src/sandbox/tools/table.ts";
import { endOf, hostFixture } from "../support/agent-host.ts";
import {
  type FakeAnswer,
  type FakeCall,
  type FakeProviders,
  type FakeRequest,
  startFakeProviders,
} from "../support/fake-providers.ts";
import {
  callsOf,
  codexProgram,
  models,
  type RealAgent,
  realAgents,
  scriptedModel,
  startOf,
} from "../support/real-agents.ts";
import { requires } from "../support/require.ts";

// Real agents' requests for the same work, as captured. WAVESMITH_CAPTURE=1 captures those of a
// newer version.

const { folder, requestOf, start } = hostFixture("");
const captures = process.env.WAVESMITH_CAPTURE === "1" && requires("agents");
// Agents repeat a failed call by themselves, for minutes.
const idleMs = captures ? 600_000 : 120_000;
const support = fileURLToPath(new URL("../support", import.meta.url));

interface Scenario {
  readonly name: string;
  readonly model: (agent: RealAgent) => (request: FakeRequest) => FakeAnswer;
  readonly end: string;
  /** When the agent is told to try something else; Gemini CLI reports no results. */
  readonly told?: "always" | "where results are seen";
  /** Events that are reported once. */
  readonly shows?: (agent: RealAgent) => readonly object[];
  /** Events that may be reported; default: all. */
  readonly agents?: readonly RealAgent[];
}

const counts = (agent: RealAgent, commands: readonly string[]) => commands.map(callsOf(agent).run);
const times = (count: number, command: string): string[] => Array.from({ length: count }, () => command);
/** Runs these commands, and then always answers this. */
const thenAlways =
  (commands: readonly string[], answer: FakeAnswer) =>
  (agent: RealAgent): ((request: FakeRequest) => FakeAnswer) => {
    const work = scriptedModel(counts(agent, commands));
    return (request) => {
      const answered = work(request);
      return answered.text === "done" ? answer : answered;
    };
  };

const newFile = (agent: RealAgent): FakeCall => {
  const patch = "*** Begin Patch\n*** Add File: new.txt\n+one\n*** End Patch";
  return agent === "codex"
    ? codexProgram(`text(await tools.apply_patch(${JSON.stringify(patch)}));`)
    : callsOf(agent).write("new.txt", "one\n");
};

const scenarios: readonly Scenario[] = [
  {
    name: "six different commands in a row",
    model: (agent) =>
      scriptedModel(
        counts(
          agent,
          [1, 2, 3, 4, 5, 6].map((n) => `echo step ${n}`),
        ),
      ),
    end: "finished",
  },
  {
    name: "six times the same command with a new result",
    model: (agent) => scriptedModel(counts(agent, times(6, "echo x >> log; wc -l < log"))),
    end: "finished",
  },
  {
    name: "the same call four times, and another one after the nudge",
    model: (agent) => scriptedModel(counts(agent, [...times(4, "echo same"), "echo other"])),
    end: "finished",
    told: "where results are seen",
  },
  {
    name: "the same for ever",
    model: (agent) => scriptedModel(counts(agent, times(40, "echo same"))),
    end: "stalled",
    told: "always",
  },
  {
    // Its result says only that the user refused.
    name: "a refused request before the end of the turn",
    model: (agent) =>
      scriptedModel([callsOf(agent).run("echo one"), callsOf(agent).write("/etc/outside-of-the-tree", "no")]),
    end: "finished",
    told: "always",
    agents: ["claude", "opencode"],
  },
  {
    // Claude Code asks about the file, which it names as the command's location.
    name: "a command that reads a file outside of its tree",
    model: (agent) => scriptedModel([callsOf(agent).run("tail -n 1 /dev/null && echo one")]),
    end: "finished",
    agents: ["claude", "opencode"],
  },
  {
    name: "a new file, and a command that fails",
    model: (agent) => scriptedModel([newFile(agent), callsOf(agent).run("echo one && false")]),
    end: "finished",
    shows: (agent) => [
      { kind: "diff", path: "new.txt", added: 1, removed: 0 },
      // Gemini CLI does not say.
      ...(agent === "gemini" ? [] : [{ kind: "tool", title: "echo one && false", status: "failed" }]),
    ],
  },
  {
    // Its title is the unchanged command, so the input adds nothing.
    name: "a command of two lines",
    model: (agent) => scriptedModel([callsOf(agent).run("echo one\necho two")]),
    end: "finished",
    shows: () => [{ kind: "tool", title: "echo one\necho two", input: undefined, status: "pending" }],
    agents: ["codex"],
  },
  {
    name: "a todo list",
    model: (agent) =>
      scriptedModel([
        { name: "todowrite", input: { todos: [{ content: "look", status: "pending", priority: "medium" }] } },
        callsOf(agent).run("echo one"),
      ]),
    end: "finished",
    shows: () => [{ kind: "plan", entries: [{ text: "look", status: "pending" }] }],
    agents: ["opencode"],
  },
  { name: "a provider that fails half way", model: thenAlways(["echo one"], { status: 500 }), end: "model-error" },
];

const isLike = (event: object, shown: object): boolean =>
  Object.entries(shown).every(([key, value]) => isDeepStrictEqual((event as Record<string, unknown>)[key], value));

describe.each(realAgents)("%s", { timeout: captures ? 900_000 : 240_000 }, (agent) => {
  const { version } = findPinned(agent)!;
  let providers: FakeProviders;
  let model: (request: FakeRequest) => FakeAnswer = () => ({ text: "done" });
  beforeEach(async () => {
    model = () => ({ text: "done" });
    providers = await startFakeProviders((request) => model(request));
  });
  afterEach(() => providers.close());

  const own = scenarios.filter(({ agents }) => agents === undefined || agents.includes(agent));
  const fileOf = ({ name }: Scenario): string =>
    join(support, "agent-traffic", `${agent}-${version}-${name.replace(/\W+/g, "-")}.jsonl`);

  const host = (command: string) =>
    start(requestOf("do as your model says", { command, model: models[agent], idleMs, graceMs: 20_000 }), {
      WAVESMITH_MODEL_URL: providers.url,
      WAVESMITH_MODEL_TOKEN: "wst_test",
      TMPDIR: folder(),
    }).ended;

  it.runIf(captures).each(own)("is captured: $name", async (scenario) => {
    const file = fileOf(scenario);
    mkdirSync(join(support, "agent-traffic"), { recursive: true });
    rmSync(file, { force: true });
    model = scenario.model(agent);
    const run = join(folder(), "agent.sh");
    writeFileSync(run, startOf(agent));
    const ended = await host(
      `exec '${process.execPath}' '${support}/capture-agent.mjs' '${file}' '${folder()}' 'sh ${run}'`,
    );
    expect(endOf(ended), ended.noise).toMatchObject({ end: scenario.end });
  });

  it.each(own)("$name", async (scenario) => {
    const file = fileOf(scenario);
    expect(existsSync(file), `WAVESMITH_CAPTURE=1 captures ${file}`).toBe(true);
    // The proxy's report on its last call.
    if (scenario.end === "model-error") model = () => ({ status: 500 });
    await fetch(`${providers.url}/v1/messages`, { method: "POST", body: JSON.stringify({ tools: [{}], model: "m" }) });
    const ended = await host(`exec '${process.execPath}' '${support}/replay-agent.mjs' '${file}' '${folder()}'`);
    expect(endOf(ended), ended.noise).toMatchObject({ end: scenario.end });
    const notices = ended.events.filter((event) => event.kind === "notice");
    const isTold = scenario.told === "always" || (scenario.told !== undefined && agent !== "gemini");
    expect(notices).toHaveLength(isTold ? 1 : 0);
    for (const shown of scenario.shows?.(agent) ?? [])
      expect(ended.events.filter((event) => isLike(event, shown))).toHaveLength(1);
    const commands = ended.events.flatMap((event) =>
      event.kind === "tool" && event.status === "pending" ? [`${event.title}: ${event.input ?? ""}`] : [],
    );
    expect(commands.join("\n")).toContain(/echo [\w ]+/.exec(readFileSync(file, "utf8"))?.[0]);
  });
});
