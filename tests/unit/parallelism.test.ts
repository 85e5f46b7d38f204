import { describe, expect, it } from "vitest";
import { attemptComputes, parallelismOf } from "../../src/coordinator/next/parallelism.ts";
import { type BuildFact, nextMove } from "../../src/domain/next-move.ts";
import { parsePlanValue } from "../../src/plan/parse-plan.ts";

const gibibyte = 1024 ** 3;
const planOf = (limits: object = {}) =>
  parsePlanValue(
    {
      name: "p",
      limits,
      agents: {
        default: { runtime: "command", command: "true" },
        backend: { runtime: "acp", command: "agent", model: "anthropic:m" },
        frontend: { runtime: "builtin", model: "anthropic:m" },
      },
      tasks: [{ id: "a", run: "true" }],
    },
    { baseDir: null, env: { ANTHROPIC_API_KEY: "x" } },
  ).plan!;

describe("how many attempts run at once", () => {
  it("is four times the processors for attempts that wait, and the processors for those that compute", () => {
    expect(parallelismOf(planOf(), { processors: 4, memoryBytes: 64 * gibibyte })).toEqual({
      maxParallelTasks: 16,
      maxComputing: 4,
    });
  });

  it("is bounded by memory, and never below the processors", () => {
    const within = (gibibytes: number) =>
      parallelismOf(planOf(), { processors: 4, memoryBytes: gibibytes * gibibyte }).maxParallelTasks;
    expect(within(4)).toBe(8);
    expect(within(1)).toBe(4);
  });

  it("is what the plan says for both kinds, whatever the machine has", () => {
    const plan = planOf({ maxParallelTasks: 7 });
    expect(parallelismOf(plan, { processors: 2, memoryBytes: gibibyte })).toEqual({
      maxParallelTasks: 7,
      maxComputing: 7,
    });
  });

  it("counts scripts and commands as computing, but not agents that talk to a model", () => {
    const computes = (role: string, run: string | null = null) => attemptComputes(planOf(), role, run);
    expect([computes("backend"), computes("frontend")]).toEqual([false, false]);
    expect([computes("backend", "make"), computes("default"), computes("fixer")]).toEqual([true, true, true]);
  });
});

describe("dispatching", () => {
  const task = (key: string, computes: boolean, live = false) => ({
    ...{ key, computes, live, position: 0, agent: "a", dependsOn: [], inWave: true },
    status: live ? ("running" as const) : ("assigned" as const),
  });
  const move = (tasks: ReturnType<typeof task>[]) =>
    nextMove({
      status: "running",
      onTaskFailure: "stop",
      deadlinePassed: false,
      maxParallelTasks: 4,
      maxComputing: 2,
      tasks,
      wave: { status: "running" },
      liveAttempts: tasks.filter(({ live }) => live).length,
      liveComputing: tasks.filter(({ live, computes }) => live && computes).length,
      dispatchOrder: (keys: readonly string[]) => keys,
    } as unknown as BuildFact);

  it("lets waiting agents go past scripts that have no free processor", () => {
    const scripts = ["a", "b", "c"].map((key) => task(key, true));
    const agents = ["x", "y", "z"].map((key) => task(key, false));
    expect(move([...scripts, ...agents])).toEqual({ kind: "dispatch", tasks: ["a", "b", "x", "y"] });
  });

  it("waits while everything left computes and the processors are taken", () => {
    const busy = ["a", "b"].map((key) => task(key, true, true));
    expect(move([...busy, task("c", true)])).toEqual({ kind: "wait", for: "attempts" });
    expect(move([...busy, task("x", false)])).toEqual({ kind: "dispatch", tasks: ["x"] });
  });
});
