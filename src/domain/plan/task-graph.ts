import { Graph } from "graphlib";
import { WavesmithError } from "../errors.ts";
import { getKnown, itemAt } from "../known.ts";

// The graph of a plan, stored in graphlib. We walk it iteratively, because the library's recursive
// algorithms overflow the stack on a chain of a few thousand tasks. A node is named by its task's
// position in the plan, because the library loses ids such as `constructor` and is fastest with
// short names.

/** The fields of a task that the graph reads. */
export interface GraphTask {
  readonly key: string;
  readonly dependsOn: readonly string[];
}

/**
 * The dependencies between the tasks of one plan. Lists are in the plan's order; an unknown key has
 * neither dependencies nor dependents.
 */
export interface TaskGraph {
  /** Every task, in the plan's order. */
  readonly keys: readonly string[];
  /** Returns the tasks that a task directly depends on. */
  dependencies(key: string): readonly string[];
  /** Returns the tasks that directly depend on this one. */
  dependents(key: string): readonly string[];
  /**
   * Returns every task that depends on one of `keys`, directly or not, without `keys` themselves.
   */
  allDependents(keys: Iterable<string>): string[];
  /**
   * Returns cycles, each as a path in which every task depends on the next and the last on the
   * first, starting with the task declared first. Disjoint cycles are all reported; of those that
   * share a task, at least one and as many as a person will read.
   */
  findCycles(): string[][];
  /**
   * Counts the tasks on the longest path from this one to the end of the plan, itself included.
   * Throws when the graph has a cycle.
   */
  remainingPath(key: string): number;
  /**
   * Returns the longest path through the plan, first task first; ties go to the tasks declared
   * first. Throws when the graph has a cycle.
   */
  criticalPath(): string[];
}

/**
 * Builds the graph of these tasks. Ignores dependencies on unknown keys and repeated keys: the
 * plan's checks report them.
 */
export function createTaskGraph(tasks: readonly GraphTask[]): TaskGraph {
  const positions = new Map<string, number>();
  for (const { key } of tasks) if (!positions.has(key)) positions.set(key, positions.size);
  const keys = [...positions.keys()];
  const graph = fillGraph(tasks, positions);
  const inPlanOrder = (nodes: string[] | undefined): string[] =>
    (nodes ?? [])
      .map(Number)
      .sort((left, right) => left - right)
      .map((position) => itemAt(keys, position));
  const links: Links = {
    keys,
    dependencies: memoize((key) => inPlanOrder(graph.predecessors(String(positions.get(key))))),
    dependents: memoize((key) => inPlanOrder(graph.successors(String(positions.get(key))))),
  };
  let paths: Map<string, number> | null = null;
  const remaining = (): Map<string, number> => {
    paths ??= measurePaths(links);
    return paths;
  };
  return {
    ...links,
    allDependents: (from) =>
      collectDependents(from, links).sort((left, right) => getKnown(positions, left) - getKnown(positions, right)),
    findCycles: () => findCycles(links).map((cycle) => beginAtFirst(cycle, positions)),
    remainingPath: (key) => remaining().get(key) ?? 0,
    criticalPath: () => tracePath(links, remaining()),
  };
}

type Links = Pick<TaskGraph, "keys" | "dependencies" | "dependents">;

function fillGraph(tasks: readonly GraphTask[], positions: ReadonlyMap<string, number>): Graph {
  const graph = new Graph({ directed: true });
  const names = new Map([...positions].map(([key, position]) => [key, String(position)]));
  for (const name of names.values()) graph.setNode(name);
  const filled = new Set<string>();
  for (const { key, dependsOn } of tasks) {
    if (filled.has(key)) continue;
    filled.add(key);
    for (const dependency of dependsOn) {
      const from = names.get(dependency);
      if (from !== undefined) graph.setEdge(from, getKnown(names, key));
    }
  }
  return graph;
}

function memoize(list: (key: string) => readonly string[]): (key: string) => readonly string[] {
  const cache = new Map<string, readonly string[]>();
  return (key) => {
    const keys = cache.get(key) ?? list(key);
    cache.set(key, keys);
    return keys;
  };
}

function collectDependents(from: Iterable<string>, links: Links): string[] {
  const startKeys = new Set(from);
  const dependents = new Set<string>();
  const open = [...startKeys];
  for (let key = open.pop(); key !== undefined; key = open.pop()) {
    for (const dependent of links.dependents(key)) {
      if (startKeys.has(dependent) || dependents.has(dependent)) continue;
      dependents.add(dependent);
      open.push(dependent);
    }
  }
  return [...dependents];
}

/**
 * Walks backwards from the last tasks (Kahn). A task it cannot reach is in a cycle or leads to one.
 */
function measurePaths(links: Links): Map<string, number> {
  const waiting = new Map(links.keys.map((key) => [key, links.dependents(key).length]));
  const lengths = new Map<string, number>();
  const open = links.keys.filter((key) => waiting.get(key) === 0);
  for (const key of open) lengths.set(key, 1);
  for (let key = open.pop(); key !== undefined; key = open.pop()) {
    for (const dependency of links.dependencies(key)) {
      lengths.set(dependency, Math.max(lengths.get(dependency) ?? 0, getKnown(lengths, key) + 1));
      const left = getKnown(waiting, dependency) - 1;
      waiting.set(dependency, left);
      if (left === 0) open.push(dependency);
    }
  }
  for (const [key, left] of waiting) {
    if (left > 0) throw new WavesmithError("plan-invalid", `The dependencies of task ${key} form a cycle.`);
  }
  return lengths;
}

function tracePath(links: Links, remaining: ReadonlyMap<string, number>): string[] {
  const longest = (keys: readonly string[]): string | undefined => {
    let best: string | undefined;
    for (const key of keys) if (best === undefined || getKnown(remaining, key) > getKnown(remaining, best)) best = key;
    return best;
  };
  const path: string[] = [];
  for (let key = longest(links.keys); key !== undefined; key = longest(links.dependents(key))) path.push(key);
  return path;
}

/** The most steps to report in cycles that share a task with an earlier one. */
const sharedCycleSteps = 1_000;

interface Visit {
  readonly key: string;
  next: number;
  /** How many tasks below this one on the path are in a reported cycle. */
  reportedBelow: number;
}

/**
 * Searches depth-first along dependencies: an edge back onto the path closes a cycle. A cycle lies
 * within one strongly connected component, so the first one found in each shares no task with
 * earlier ones and is always reported.
 */
function findCycles(links: Links): string[][] {
  const cycles: string[][] = [];
  const reported = new Set<string>();
  const depths = new Map<string, number>();
  const done = new Set<string>();
  const path: Visit[] = [];
  let budget = sharedCycleSteps;
  const enter = (key: string): void => {
    const below = path.at(-1);
    const reportedBelow = below === undefined ? 0 : below.reportedBelow + (reported.has(below.key) ? 1 : 0);
    depths.set(key, path.length);
    path.push({ key, next: 0, reportedBelow });
  };
  const close = (from: number): void => {
    const top = itemAt(path, -1);
    const shared = top.reportedBelow + (reported.has(top.key) ? 1 : 0) - itemAt(path, from).reportedBelow > 0;
    if (shared && budget < path.length - from) return;
    if (shared) budget -= path.length - from;
    const cycle = path.slice(from).map((visit) => visit.key);
    cycles.push(cycle);
    for (const key of cycle) reported.add(key);
    recount(path, from, reported);
  };
  for (const root of links.keys) {
    if (!done.has(root)) enter(root);
    for (let visit = path.at(-1); visit !== undefined; visit = path.at(-1)) {
      const dependency = links.dependencies(visit.key)[visit.next];
      visit.next += 1;
      if (dependency === undefined) {
        done.add(visit.key);
        depths.delete(visit.key);
        path.pop();
      } else if (depths.has(dependency)) close(getKnown(depths, dependency));
      else if (!done.has(dependency)) enter(dependency);
    }
  }
  return cycles;
}

function recount(path: Visit[], from: number, reported: ReadonlySet<string>): void {
  for (let depth = Math.max(from, 1); depth < path.length; depth += 1) {
    const below = itemAt(path, depth - 1);
    itemAt(path, depth).reportedBelow = below.reportedBelow + (reported.has(below.key) ? 1 : 0);
  }
}

function beginAtFirst(cycle: readonly string[], positions: ReadonlyMap<string, number>): string[] {
  let start = 0;
  cycle.forEach((key, index) => {
    if (getKnown(positions, key) < getKnown(positions, itemAt(cycle, start))) start = index;
  });
  return [...cycle.slice(start), ...cycle.slice(0, start)];
}
