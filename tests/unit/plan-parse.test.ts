import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { planSchema } from "../../src/domain/plan/plan.ts";
import { parseDuration } from "../../src/plan/durations.ts";
import { loadPlanFile } from "../../src/plan/load-plan.ts";
import { parsePlan, parsePlanValue } from "../../src/plan/parse-plan.ts";
import { planText } from "../../src/plan/write-plan.ts";
import { contractExample } from "../support/contract-plan.ts";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "wavesmith-plan-"));
  for (const name of ["docs", "prompts", "seed"]) mkdirSync(join(folder, name));
  writeFileSync(join(folder, "docs/house-rules.md"), "Be kind.\n");
  writeFileSync(join(folder, "prompts/api.md"), "Build the API.\n");
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const parse = (text: string) => parsePlan(text, { baseDir: folder, env: { STRIPE_TEST_KEY: "sk" } });

describe("a plan without faults", () => {
  it("gets every default filled in", () => {
    const { plan, faults, warnings } = parse("name: small\ntasks: [{ id: a, run: make }]");
    expect({ faults, warnings }).toEqual({ faults: [], warnings: [] });
    expect(planSchema.parse(plan)).toEqual(plan);
    expect(plan).toEqual({
      name: "small",
      description: null,
      limits: {
        tasksPerAgentPerWave: 3,
        maxParallelTasks: null,
        budget: { usd: null, tokens: null, wallClockMs: null },
      },
      isolation: "worktree",
      onTaskFailure: "stop",
      approval: "none",
      agents: {},
      context: [],
      env: {},
      secrets: [],
      services: {},
      setup: null,
      generated: [],
      source: { kind: "empty" },
      tasks: [
        {
          key: "a",
          position: 0,
          title: "a",
          agent: "default",
          dependsOn: [],
          instructions: null,
          run: "make",
          writes: null,
          acceptance: [],
          changes: "optional",
          mayChangeTests: false,
          model: null,
          env: {},
          timeoutMs: 1_200_000,
          retries: 1,
        },
      ],
      gates: {
        testing: { command: null, timeoutMs: 600_000, from: null, when: "each", minTests: null },
        critic: { block: "high" },
        integration: { command: null, timeoutMs: 600_000, from: null, when: "each" },
        maxFixRounds: 2,
      },
      preview: null,
      network: "allowlist",
      networkAsked: false,
      deliver: { forge: "local", repo: null, base: null },
      notify: [],
    });
  });

  it("takes everything the contract shows, from YAML, from JSON and as a value", async () => {
    const { plan, faults, graph } = parse(contractExample);
    expect(faults).toEqual([]);
    expect(planSchema.parse(plan)).toEqual(plan);
    expect(graph?.criticalPath()).toEqual(["schema", "api-tests"]);
    expect(plan).toMatchObject({
      limits: { maxParallelTasks: 4, budget: { usd: 5, tokens: 2_000_000, wallClockMs: 7_200_000 } },
      context: [
        { label: "docs/house-rules.md", text: "Be kind.\n" },
        { label: "note 2", text: "Use UTC everywhere." },
      ],
      services: { db: { command: "postgres -p $PORT_DB", ready: "pg_isready -p $PORT_DB" } },
      source: { kind: "path", path: join(folder, "seed") },
      gates: { testing: { command: "npm test", minTests: 1, from: "api-tests" } },
      preview: { healthPath: "/" },
      network: "allowlist",
      networkAsked: true,
    });
    expect(plan?.tasks[0]).toMatchObject({
      changes: "required",
      acceptance: [{ text: "migrates an empty database", check: "npm run migrate" }],
      timeoutMs: 1_200_000,
    });
    const value = JSON.parse(JSON.stringify((await import("yaml")).parse(contractExample, { merge: true })));
    writeFileSync(join(folder, "plan.json"), JSON.stringify(value));
    const env = { STRIPE_TEST_KEY: "sk" };
    expect((await loadPlanFile(join(folder, "plan.json"), { env })).plan).toEqual(plan);
    expect(parsePlanValue(value, { baseDir: folder, env }).plan).toEqual(plan);
  });

  it("reads instructions from files, and acceptance in each of its forms", () => {
    const { plan } = parse(`name: p
agents: { default: { runtime: command, command: ./agent } }
tasks:
  - id: api
    agent: backend
    instructions: { file: prompts/api.md }
    acceptance: [{ text: answers }, { check: npm test }, { text: is fast, check: npm run bench }]
    changes: optional
`);
    expect(plan?.tasks[0]).toMatchObject({
      instructions: "Build the API.\n",
      changes: "optional",
      acceptance: [
        { text: "answers", check: null },
        { text: "npm test", check: "npm test" },
        { text: "is fast", check: "npm run bench" },
      ],
    });
  });

  it("reads the images of instructions, and refuses anything but an image of the project", () => {
    const withImages = (instructions: string) =>
      parse(`name: p
agents: { default: { runtime: command, command: ./agent } }
tasks: [{ id: api, agent: backend, instructions: ${instructions} }]
`);
    const { plan } = withImages("{ file: prompts/api.md, images: [docs/page.png] }");
    expect(plan?.tasks[0]).toMatchObject({ instructions: "Build the API.\n", images: ["docs/page.png"] });
    const written = withImages("{ text: Build it, images: [a.JPG] }").plan!;
    expect(written.tasks[0]).toMatchObject({ instructions: "Build it", images: ["a.JPG"] });
    expect(parse(planText(written)).plan?.tasks).toEqual(written.tasks);
    for (const image of ["../a.png", "/a.png", "a.svg"]) {
      expect(withImages(`{ text: Build it, images: [${image}] }`).faults).toMatchObject([
        { path: "tasks[0].instructions.images[0]", message: expect.stringContaining("within the project") },
      ]);
    }
  });

  it("resolves anchors and merges, and ignores x- keys everywhere", () => {
    const tasks = Array.from({ length: 300 }, (_, index) => `  - { <<: *base, id: t${index}, writes: *writes }`);
    const { plan, faults } = parse(`name: p
x-base: &base { agent: backend, run: make, timeout: 5m, x-note: 1 }
x-writes: &writes ["src/**"]
tasks:
${tasks.join("\n")}
gates: { x-why: because, testing: false }
`);
    expect(faults).toEqual([]);
    expect(plan?.tasks).toHaveLength(300);
    expect(plan?.tasks[299]).toMatchObject({ agent: "backend", timeoutMs: 300_000, writes: ["src/**"] });
    expect(plan?.gates.testing).toBe(false);
  });

  it("switches gates off one by one", () => {
    const { plan } = parse(
      "name: p\ntasks: [{ id: a, run: x }]\ngates: { testing: false, critic: false, integration: false, maxFixRounds: 0 }",
    );
    expect(plan?.gates).toEqual({ testing: false, critic: false, integration: false, maxFixRounds: 0 });
  });

  it("expects at least one test from a configured testing gate", () => {
    const gate = (text: string) =>
      parse(`name: p\ntasks: [{ id: a, run: x }]\ngates: { testing: ${text} }`).plan?.gates;
    expect(gate("{}")).toMatchObject({ testing: { minTests: 1 } });
    expect(gate("{ minTests: 0 }")).toMatchObject({ testing: { minTests: 0 } });
  });

  it("takes ids and roles that are names of JavaScript's own properties", () => {
    const { plan, faults } = parse(`name: p
agents: { constructor: { runtime: command, command: x } }
tasks:
  - { id: constructor, agent: constructor, instructions: go }
  - { id: valueof, run: x, dependsOn: [constructor], env: { constructor: 1, toString: true } }
`);
    expect(faults).toEqual([]);
    expect(Object.hasOwn(plan?.agents ?? {}, "constructor")).toBe(true);
    expect(plan?.tasks[1]?.env).toEqual({ constructor: "1", toString: "true" });
    const undeclared = parse("name: p\ntasks: [{ id: a, agent: constructor, instructions: go }]");
    expect(undeclared.faults.map((fault) => fault.code)).toEqual(["undeclared-role"]);
  });

  it("warns about a duplicate dependency and keeps one", () => {
    const { plan, warnings } = parse("name: p\ntasks: [{ id: a, run: x }, { id: b, run: x, dependsOn: [a, a] }]");
    expect(plan?.tasks[1]?.dependsOn).toEqual(["a"]);
    expect(warnings).toEqual(["Task b names the dependency a twice."]);
  });

  it("makes a local repository's path absolute and leaves URLs alone", () => {
    const source = (git: string) =>
      parse(`name: p\ntasks: [{ id: a, run: x }]\nsource: { git: "${git}", ref: v1 }`).plan?.source;
    expect(source("./repo.git")).toEqual({ kind: "git", url: join(folder, "repo.git"), ref: "v1" });
    expect(source("https://example.com/x.git")).toMatchObject({ url: "https://example.com/x.git" });
    expect(source("git@example.com:x.git")).toMatchObject({ url: "git@example.com:x.git" });
  });
});

describe("durations", () => {
  it.each([
    ["90s", 90_000],
    ["20m", 1_200_000],
    ["1h30m", 5_400_000],
    ["500ms", 500],
    ["1h2m3s4ms", 3_723_004],
    ["", null],
    ["20", null],
    ["1.5h", null],
    ["-5m", null],
    ["5m1h", null],
  ])("%j is %s ms", (text, ms) => {
    expect(parseDuration(text)).toBe(ms);
  });
});
