import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createTaskGraph, type GraphTask } from "../../src/domain/plan/task-graph.ts";

const seed = Number(process.env.WAVESMITH_TEST_SEED ?? Date.now() % 2 ** 31);
const task = (key: string, ...dependsOn: string[]): GraphTask => ({ key, dependsOn });

const diamond = [task("schema"), task("api", "schema"), task("pages", "schema"), task("release", "pages", "api")];

describe("a task graph", () => {
  it("lists dependencies and dependents in the plan's order", () => {
    const graph = createTaskGraph(diamond);
    expect(graph.keys).toEqual(["schema", "api", "pages", "release"]);
    expect(graph.dependencies("release")).toEqual(["api", "pages"]);
    expect(graph.dependents("schema")).toEqual(["api", "pages"]);
    expect(graph.dependents("nobody")).toEqual([]);
  });

  it("finds everything that waits for a task, however indirectly", () => {
    const graph = createTaskGraph([...diamond, task("alone")]);
    expect(graph.allDependents(["schema"])).toEqual(["api", "pages", "release"]);
    expect(graph.allDependents(["pages", "alone"])).toEqual(["release"]);
  });

  it("measures the longest path to the end, and the critical path", () => {
    const graph = createTaskGraph([...diamond, task("docs"), task("announce", "release")]);
    expect(graph.remainingPath("schema")).toBe(4);
    expect(graph.remainingPath("docs")).toBe(1);
    expect(graph.criticalPath()).toEqual(["schema", "api", "release", "announce"]);
    expect(createTaskGraph([]).criticalPath()).toEqual([]);
  });

  it("supports tasks whose ids are names of JavaScript's own properties", () => {
    const keys = ["constructor", "__proto__", "tostring", "hasOwnProperty", "0", "1"];
    const graph = createTaskGraph(keys.map((key, index) => task(key, ...keys.slice(Math.max(0, index - 1), index))));
    expect(graph.keys).toEqual(keys);
    expect(graph.criticalPath()).toEqual(keys);
    expect(graph.dependents("constructor")).toEqual(["__proto__"]);
  });

  it("lists whole cycles, each from the task declared first, including those that share a task", () => {
    const graph = createTaskGraph([
      task("a", "b"),
      task("b", "a", "c"),
      task("c", "d"),
      task("d", "c"),
      task("e", "e"),
      task("f", "a"),
    ]);
    expect(graph.findCycles()).toEqual([["a", "b"], ["c", "d"], ["e"]]);
    const flower = createTaskGraph([task("hub", "x", "y"), task("x", "hub"), task("y", "hub")]);
    expect(flower.findCycles()).toEqual([
      ["hub", "x"],
      ["hub", "y"],
    ]);
    expect(() => graph.remainingPath("a")).toThrow("cycle");
  });

  it("ignores unknown dependencies and repeated ids", () => {
    const graph = createTaskGraph([task("a", "nobody"), task("b", "a"), task("a", "b")]);
    expect(graph.keys).toEqual(["a", "b"]);
    expect(graph.findCycles()).toEqual([]);
  });

  it("walks a chain and a cycle of 100,000 tasks without overflowing the stack", () => {
    const length = 100_000;
    const chain = Array.from({ length }, (_, index) => task(`t${index}`, ...(index === 0 ? [] : [`t${index - 1}`])));
    const graph = createTaskGraph(chain);
    expect(graph.findCycles()).toEqual([]);
    expect(graph.remainingPath("t0")).toBe(length);
    expect(graph.criticalPath()).toHaveLength(length);
    expect(graph.allDependents(["t0"])).toHaveLength(length - 1);
    const circle = createTaskGraph([task("t0", `t${length - 1}`), ...chain.slice(1)]);
    expect(circle.findCycles()[0]).toHaveLength(length);
  });

  it("bounds its report of a graph that consists only of cycles", () => {
    const size = 120;
    const all = Array.from({ length: size }, (_, index) => `t${index}`);
    const cycles = createTaskGraph(all.map((key) => task(key, ...all.filter((other) => other !== key)))).findCycles();
    expect(cycles.length).toBeGreaterThan(0);
    expect(cycles.flat().length).toBeLessThan(2_000);
  });

  it(`finds a true cycle exactly where an order is impossible (seed ${seed})`, () => {
    const graphs = fc.array(fc.array(fc.nat(11), { maxLength: 3 }), { minLength: 1, maxLength: 12 });
    fc.assert(
      fc.property(graphs, (lists) => {
        const tasks = lists.map((list, index) => task(`t${index}`, ...list.map((other) => `t${other % lists.length}`)));
        const graph = createTaskGraph(tasks);
        const cycles = graph.findCycles();
        for (const cycle of cycles) {
          expect(new Set(cycle).size).toBe(cycle.length);
          cycle.forEach((key, index) => {
            expect(graph.dependencies(key)).toContain(cycle[(index + 1) % cycle.length]);
          });
        }
        // Every task that reaches itself is in a component with at least one reported cycle.
        const inCircle = graph.keys.filter((key) => reachable(graph, key).has(key));
        const told = new Set(cycles.flat());
        for (const key of inCircle) {
          const component = inCircle.filter((other) => other === key || together(graph, key, other));
          expect(component.some((member) => told.has(member))).toBe(true);
        }
        expect(cycles.length > 0).toBe(inCircle.length > 0);
      }),
      { seed, numRuns: 400 },
    );
  });
});

type Graph = ReturnType<typeof createTaskGraph>;

function reachable(graph: Graph, from: string): Set<string> {
  const found = new Set<string>();
  const open = [...graph.dependencies(from)];
  for (let key = open.pop(); key !== undefined; key = open.pop()) {
    if (found.has(key)) continue;
    found.add(key);
    open.push(...graph.dependencies(key));
  }
  return found;
}

const together = (graph: Graph, left: string, right: string): boolean =>
  reachable(graph, left).has(right) && reachable(graph, right).has(left);
