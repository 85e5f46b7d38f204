import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { globsMayOverlap } from "../../src/domain/paths/write-globs.ts";
import { createTaskGraph } from "../../src/domain/plan/task-graph.ts";
import {
  chooseWave,
  isAlone,
  type PlannablePlan,
  planWaves,
  type ReadyTask,
} from "../../src/domain/plan/wave-planner.ts";

const seed = Number(process.env.WAVESMITH_TEST_SEED ?? Date.now() % 2 ** 31);

type Task = PlannablePlan["tasks"][number];

function planOf(tasks: readonly Omit<Task, "position">[], tasksPerAgentPerWave = 3): PlannablePlan {
  return {
    tasks: tasks.map((task, position) => ({ ...task, position })),
    limits: { tasksPerAgentPerWave },
    isolation: "worktree",
  };
}

const simple = (key: string, agent: string, dependsOn: string[] = [], writes: string[] | null = null) => ({
  key,
  agent,
  dependsOn,
  writes,
});

const wavesOf = (plan: PlannablePlan): string[][] => planWaves(plan).map((wave) => [...wave.tasks]);

describe("choosing a wave", () => {
  const ready = (key: string, position: number, effectiveWrites: string[] | null = null): ReadyTask => ({
    key,
    agent: "backend",
    position,
    effectiveWrites,
    alone: false,
  });
  const paths = (lengths: Record<string, number>) => (key: string) => lengths[key] ?? 1;

  it("prefers the longest remaining path, then the task declared first", () => {
    const tasks = [ready("d", 3), ready("c", 2), ready("b", 1), ready("a", 0), ready("e", 4)];
    const choice = { ready: tasks, remainingPath: paths({ e: 5 }), tasksPerAgentPerWave: 3 };
    expect(chooseWave(choice)).toEqual(["a", "b", "e"]);
    expect(chooseWave({ ...choice, ready: tasks.toReversed() })).toEqual(["a", "b", "e"]);
  });

  it("keeps tasks apart if their effective writes can overlap, and fills their places with others", () => {
    const tasks = [
      ready("a", 0, ["src/**"]),
      ready("b", 1, ["src/index.ts"]),
      ready("c", 2, ["docs/*"]),
      ready("d", 3),
    ];
    expect(chooseWave({ ready: tasks, remainingPath: () => 1, tasksPerAgentPerWave: 2 })).toEqual(["a", "c"]);
  });

  it("puts tasks with unknown or no writes into the same wave", () => {
    const tasks = [ready("a", 0, ["**"]), ready("b", 1, null), ready("c", 2, [])];
    expect(chooseWave({ ready: tasks, remainingPath: () => 1, tasksPerAgentPerWave: 3 })).toEqual(["a", "b", "c"]);
  });

  it("leaves a task that must be alone in its own wave, whether it is first or later", () => {
    const alone = (key: string, position: number): ReadyTask => ({ ...ready(key, position), alone: true });
    const choice = { remainingPath: () => 1, tasksPerAgentPerWave: 3 };
    expect(chooseWave({ ...choice, ready: [alone("a", 0), ready("b", 1), ready("c", 2)] })).toEqual(["a"]);
    expect(chooseWave({ ...choice, ready: [ready("a", 0), alone("b", 1), ready("c", 2, ["x"])] })).toEqual(["a", "c"]);
    expect(chooseWave({ ...choice, ready: [alone("b", 1), alone("c", 2)] })).toEqual(["b"]);
  });

  it("returns nothing only if nothing is ready", () => {
    expect(chooseWave({ ready: [], remainingPath: () => 1, tasksPerAgentPerWave: 3 })).toEqual([]);
  });
});

describe("planning waves", () => {
  it("splits a diamond into its layers and caps each agent", () => {
    const plan = planOf([
      simple("schema", "database"),
      ...["a", "b", "c", "d"].map((key) => simple(key, "backend", ["schema"])),
      simple("pages", "frontend", ["schema"]),
      simple("release", "infrastructure", ["a", "b", "c", "d", "pages"]),
    ]);
    expect(planWaves(plan)).toEqual([
      { number: 1, tasks: ["schema"] },
      { number: 2, tasks: ["a", "b", "c", "pages"] },
      { number: 3, tasks: ["d"] },
      { number: 4, tasks: ["release"] },
    ]);
  });

  it("meets the lower bound on chains and on independent tasks", () => {
    const chain = Array.from({ length: 9 }, (_, index) => simple(`t${index}`, "a", index ? [`t${index - 1}`] : []));
    expect(planWaves(planOf(chain))).toHaveLength(9);
    const free = Array.from({ length: 20 }, (_, index) => simple(`t${index}`, index < 13 ? "a" : "b"));
    expect(planWaves(planOf(free))).toHaveLength(5);
    expect(planWaves(planOf(free, 1))).toHaveLength(13);
  });

  it("takes roles and ids that are names of JavaScript's own properties", () => {
    const keys = ["constructor", "tostring", "valueof"];
    const waves = wavesOf(planOf(keys.map((key, index) => simple(key, "constructor", keys.slice(0, index)))));
    expect(waves).toEqual(keys.map((key) => [key]));
  });

  const agents = ["frontend", "backend", "database"];
  const globs = ["src/**", "src/a/*.ts", "docs/*", "package.json", "src/b/[x].ts", "{docs,tests}/**"];
  const tasks = fc
    .array(
      fc.record({
        agent: fc.constantFrom(...agents),
        dependsOn: fc.array(fc.nat(1_000), { maxLength: 3 }),
        writes: fc.oneof(fc.constant(null), fc.subarray(globs, { maxLength: 2 })),
      }),
      { minLength: 1, maxLength: 60 },
    )
    .map((list) =>
      list.map((entry, index) => ({
        ...entry,
        key: `t${index}`,
        dependsOn: index === 0 ? [] : [...new Set(entry.dependsOn.map((other) => `t${other % index}`))],
      })),
    );

  it(`keeps W1 and W2 on random graphs and gives the same waves again (seed ${seed})`, () => {
    fc.assert(
      fc.property(tasks, fc.integer({ min: 1, max: 4 }), (list, cap) => {
        const plan = planOf(list, cap);
        const waves = wavesOf(plan);
        const byKey = new Map(plan.tasks.map((task) => [task.key, task]));
        expect(waves.flat().sort()).toEqual([...byKey.keys()].sort());
        const waveOf = new Map(waves.flatMap((wave, index) => wave.map((key) => [key, index] as const)));
        for (const wave of waves) {
          expectLegal(
            wave.map((key) => byKey.get(key)!),
            cap,
          );
          for (const key of wave) {
            for (const before of byKey.get(key)!.dependsOn) expect(waveOf.get(before)).toBeLessThan(waveOf.get(key)!);
          }
        }
        expect(wavesOf(plan)).toEqual(waves);
      }),
      { seed, numRuns: 200 },
    );
  });

  it(`chooses, wave by wave, what a simulation with chooseWave would (seed ${seed})`, () => {
    fc.assert(
      fc.property(tasks, fc.integer({ min: 1, max: 4 }), (list, cap) => {
        const plan = planOf(list, cap);
        expect(wavesOf(plan)).toEqual(simulate(plan));
      }),
      { seed, numRuns: 200 },
    );
  });

  it(`never puts a task without declared writes beside another in a shared tree (seed ${seed})`, () => {
    fc.assert(
      fc.property(tasks, fc.integer({ min: 1, max: 4 }), (list, cap) => {
        const plan: PlannablePlan = { ...planOf(list, cap), isolation: "shared" };
        const undeclared = new Set(plan.tasks.filter((task) => task.writes === null).map((task) => task.key));
        const waves = wavesOf(plan);
        expect(waves.flat().sort()).toEqual(plan.tasks.map((task) => task.key).sort());
        for (const wave of waves) if (wave.some((key) => undeclared.has(key))) expect(wave).toHaveLength(1);
        expect(waves).toEqual(simulate(plan));
      }),
      { seed, numRuns: 200 },
    );
  });

  it(`stays near the lower bound on random graphs without overlaps (seed ${seed})`, () => {
    const ratios: number[] = [];
    fc.assert(
      fc.property(tasks, fc.integer({ min: 1, max: 3 }), (list, cap) => {
        const plan = planOf(
          list.map((task) => ({ ...task, writes: null })),
          cap,
        );
        const count = planWaves(plan).length;
        const bound = lowerBound(plan);
        expect(count).toBeGreaterThanOrEqual(bound);
        ratios.push(count / bound);
      }),
      { seed, numRuns: 300 },
    );
    const mean = ratios.reduce((sum, ratio) => sum + ratio, 0) / ratios.length;
    console.log(
      `waves / lower bound on random graphs: mean ${mean.toFixed(3)}, worst ${Math.max(...ratios).toFixed(2)}`,
    );
    expect(mean).toBeLessThan(1.2);
  });
});

function expectLegal(wave: readonly Task[], cap: number): void {
  for (const agent of new Set(wave.map((task) => task.agent))) {
    expect(wave.filter((task) => task.agent === agent).length).toBeLessThanOrEqual(cap);
  }
  wave.forEach((task, index) => {
    for (const other of wave.slice(index + 1)) {
      const overlaps = (task.writes ?? []).some((one) => (other.writes ?? []).some((two) => globsMayOverlap(one, two)));
      expect(overlaps).toBe(false);
    }
  });
}

function simulate(plan: PlannablePlan): string[][] {
  const graph = createTaskGraph(plan.tasks);
  const done = new Set<string>();
  const waves: string[][] = [];
  while (done.size < plan.tasks.length) {
    const ready = plan.tasks
      .filter((task) => !done.has(task.key) && task.dependsOn.every((key) => done.has(key)))
      .map((task) => ({ ...task, effectiveWrites: task.writes, alone: isAlone(plan.isolation, task.writes) }));
    const wave = chooseWave({ ready, remainingPath: graph.remainingPath, ...plan.limits });
    expect(wave.length).toBeGreaterThan(0);
    for (const key of wave) done.add(key);
    waves.push(wave);
  }
  return waves;
}

/**
 * No schedule can have fewer waves than the longest path, or than an agent's tasks over its cap.
 */
function lowerBound(plan: PlannablePlan): number {
  const counts = new Map<string, number>();
  for (const task of plan.tasks) counts.set(task.agent, (counts.get(task.agent) ?? 0) + 1);
  const loads = [...counts.values()].map((count) => Math.ceil(count / plan.limits.tasksPerAgentPerWave));
  return Math.max(createTaskGraph(plan.tasks).criticalPath().length, ...loads);
}
