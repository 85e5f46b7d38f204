import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { bundle } from "../../src/sandbox/guest/guest-program.ts";
import { endOf, hostFixture } from "../support/agent-host.ts";
import {
  type FakeAnswer,
  type FakeProviders,
  type FakeRequest,
  offersTools,
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

// Agents as people use them, from the registry, against a model on loopback: how each uses the
// protocol and its configuration, and what it does when its model fails.

const { folder, requestOf, start } = hostFixture("");
const inTree = (path: string): string => join(folder(), "tree", path);

/** The answers to each agent's requests to write outside its tree, and then inside it. */
const asks: Readonly<Record<RealAgent, readonly boolean[]>> = {
  claude: [false, true],
  // It does not ask, because its own confinement does not work inside a sandbox.
  codex: [],
  // It knows where its tree ends.
  gemini: [true],
  opencode: [false, true],
};

/** A PNG of one red dot. */
const redDot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";

const broken = [400, "no such thing", "model-error"] as const;
const faults: Readonly<Record<RealAgent, readonly (readonly [number, string, string])[]>> = {
  // It would retry for minutes.
  claude: [broken, [401, "invalid x-api-key", "not-signed-in"]],
  // It ends its turn as if nothing were wrong.
  codex: [broken, [402, "wavesmith: over budget: 9 of 9 tokens", "over-budget"]],
  gemini: [broken],
  opencode: [broken, [401, "invalid x-api-key", "not-signed-in"]],
};

describe.runIf(requires("agents")).each(realAgents)("%s", { timeout: 240_000 }, (name: RealAgent) => {
  let model: (request: FakeRequest) => FakeAnswer = () => ({ text: "done" });
  let providers: FakeProviders;
  beforeEach(async () => {
    providers = await startFakeProviders((request) => model(request));
  });
  afterEach(() => providers.close());

  const host = (more: Parameters<typeof requestOf>[1] = {}) =>
    start(
      requestOf("do as your model says", {
        ...{ command: startOf(name), model: models[name], idleMs: 120_000, graceMs: 20_000, ...more },
      }),
      { WAVESMITH_MODEL_URL: providers.url, WAVESMITH_MODEL_TOKEN: "wst_test", TMPDIR: folder() },
    );

  it("writes into its tree alone, with our token and a model of the plan's choice", async () => {
    const outside = join(folder(), "outside.txt");
    const { write } = callsOf(name);
    const steps = [write(outside, "no"), write(inTree("made.txt"), "by a model")];
    // The sandbox stops what Codex would do, see below.
    model = scriptedModel(name === "codex" ? steps.slice(1) : steps);
    const ended = await host().ended;
    expect(endOf(ended), ended.noise).toMatchObject({ end: "finished" });
    expect(ended.events.flatMap((event) => (event.kind === "permission" ? [event.allowed] : []))).toEqual(asks[name]);
    expect([existsSync(outside), readFileSync(inTree("made.txt"), "utf8")]).toEqual([false, "by a model"]);
    expect(ended.said).toContain("done");
    const calls = providers.requests.filter(offersTools);
    const named = calls.map(({ body, path }) => body.model ?? /models\/([^:]+)/.exec(path)?.[1]);
    expect(new Set(named)).toEqual(new Set([models[name].split(":")[1]]));
    expect(JSON.stringify(calls.map(({ headers }) => headers))).toContain("wst_test");
  });

  it("ends as cancelled in the middle of a command, and leaves no process", async () => {
    model = scriptedModel([callsOf(name).run("echo $$ > pid; tail -f /dev/null")]);
    const { child, ended } = host();
    while (!existsSync(inTree("pid"))) await new Promise((resolve) => setTimeout(resolve, 50));
    child.kill("SIGTERM");
    expect(endOf(await ended)).toMatchObject({ end: "cancelled" });
    expect(existsSync(`/proc/${readFileSync(inTree("pid"), "utf8").trim()}`)).toBe(false);
  });

  it.each(faults[name])("reports its model's error %i", async (status, message, end) => {
    model = () => ({ status, message });
    expect(endOf(await host().ended)).toMatchObject({ end });
  });

  // For Gemini CLI we open a new session, see "opens a new session" of the agent host; the others
  // do the same as Codex, only more slowly.
  it.runIf(name === "codex")("continues its session in the next attempt", async () => {
    model = scriptedModel([callsOf(name).run("echo remember-this")]);
    await host().ended;
    const earlier = providers.requests.length;
    const ended = await host().ended;
    expect(ended.events).toContainEqual(expect.objectContaining({ kind: "session", resumed: true }));
    // Codex asks for a title besides its turn, at any time.
    const bodies = providers.requests.slice(earlier).map(({ body }) => JSON.stringify(body));
    expect(bodies.filter((body) => body.includes("remember-this"))).not.toEqual([]);
  });

  // opencode would go on in the folder where its session began, and the others follow ours.
  it.runIf(name === "opencode")("works in the next attempt's tree, though the earlier one is gone", async () => {
    model = scriptedModel([callsOf(name).run("echo one > made.txt")]);
    expect(endOf(await host().ended)).toMatchObject({ end: "finished" });
    rmSync(join(folder(), "tree"), { recursive: true });
    const cwd = join(folder(), "second");
    mkdirSync(cwd);
    model = scriptedModel([callsOf(name).run("echo two > made.txt")]);
    expect(endOf(await host({ cwd }).ended)).toMatchObject({ end: "finished" });
    expect(readFileSync(join(cwd, "made.txt"), "utf8")).toBe("two\n");
  });

  // The others remember it.
  it.runIf(name === "gemini")("knows its task after it was interrupted", async () => {
    const { run } = callsOf(name);
    let told = "";
    model = (request) => {
      if (!offersTools(request)) return { text: "a title" };
      const text = JSON.stringify(request.body);
      if (!text.includes("you repeat yourself")) return { tools: [run("echo same")] };
      told = text;
      return { text: "done" };
    };
    const ended = await host().ended;
    expect(endOf(ended), ended.noise).toMatchObject({ end: "finished" });
    expect(told).toContain("do as your model says");
  });

  it("submits a result with the tool that it is given", async () => {
    const schema = { type: "object", properties: { findings: { type: "array" } }, required: ["findings"] };
    const input = { findings: [] };
    const call = {
      claude: { name: "mcp__wavesmith__submit_result", input },
      codex: codexProgram("text(await tools.mcp__wavesmith__submit_result({ findings: [] }));"),
      gemini: { name: "mcp_wavesmith_submit_result", input },
      opencode: { name: "wavesmith_submit_result", input },
    };
    model = scriptedModel([call[name]]);
    const file = join(folder(), "result.json");
    const ended = await host({ result: { schema, file } }).ended;
    expect(endOf(ended), ended.noise).toMatchObject({ end: "finished" });
    expect(JSON.parse(readFileSync(file, "utf8"))).toEqual({ findings: [] });
  });

  it("has the MCP servers and skills of its role, and the images of its instructions", async () => {
    const server = join(folder(), "docs.mjs");
    writeFileSync(server, await bundle(fileURLToPath(new URL("../support/mcp-server.ts", import.meta.url))));
    mkdirSync(inTree("skills/review"), { recursive: true });
    writeFileSync(inTree("skills/review/SKILL.md"), "---\nname: review\ndescription: for reviews\n---\n");
    writeFileSync(inTree("dot.png"), Buffer.from(redDot, "base64"));
    const input = { word: "answer" };
    const call = {
      claude: { name: "mcp__docs__lookup", input },
      codex: codexProgram(`text(JSON.stringify(await tools.mcp__docs__lookup(${JSON.stringify(input)})));`),
      gemini: { name: "mcp_docs_lookup", input },
      opencode: { name: "docs_lookup", input },
    };
    model = scriptedModel([call[name]]);
    const mcp = [{ name: "docs", command: `exec '${process.execPath}' '${server}'` }];
    const ended = await host({ mcp, skills: ["skills/review"], images: ["dot.png"] }).ended;
    expect(endOf(ended), ended.noise).toMatchObject({ end: "finished" });
    const shown = JSON.stringify(providers.requests.filter(offersTools).at(-1)?.body);
    for (const part of ["answer means forty-two", "review: for reviews", redDot]) expect(shown).toContain(part);
  });
});
