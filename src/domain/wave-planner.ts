import { createTaskGraph, type TaskGraph } from "./task-graph.ts";
import { type CompiledGlob, compiledMayOverlap, compileGlob } from "./write-globs.ts";

// W1. A task enters a wave only when every dependency is completed and joined into the base of that wave: callers of
//     `chooseWave` hand in such tasks alone; `planWaves` lets a task become ready when its dependencies stand in earlier waves.
// W2. A wave holds at most `tasksPerAgentPerWave` tasks of one agent and no two tasks whose effective writes can
//     overlap. Those with the longest remaining path go first, then those declared first: nothing else decides.

/** A task whose dependencies are all joined. */
export interface ReadyTask {
  readonly key: string;
  readonly agent: string;
  readonly position: number;
  /** Declared globs plus paths that conflicted before; null: nothing is known, never a reason to wait. */
  readonly effectiveWrites: readonly string[] | null;
}

export interface WaveChoice {
  readonly ready: readonly ReadyTask[];
  /** Tasks on the longest path from this one to the end of the plan. */
  readonly remainingPath: (key: string) => number;
  readonly tasksPerAgentPerWave: number;
}

/** The tasks of the next wave, in the plan's order; empty only when nothing is ready. Pure: the same input, the same wave. */
export function chooseWave(choice: WaveChoice): string[] {
  const globs = createGlobTable();
  const candidates = rank(choice.ready, choice.remainingPath).map((task) => toCandidate(task, globs));
  const supply = countByAgent(candidates);
  const places = pick(candidates, supply, choice.tasksPerAgentPerWave, createWriteLedger(globs));
  return inPlanOrder(places.map((place) => candidates[place]!));
}

/** What `planWaves` reads of a plan; a `Plan` is one. */
export interface PlannablePlan {
  readonly tasks: readonly {
    readonly key: string;
    readonly agent: string;
    readonly position: number;
    readonly dependsOn: readonly string[];
    readonly writes: readonly string[] | null;
  }[];
  readonly limits: { readonly tasksPerAgentPerWave: number };
}

export interface PlannedWave {
  /** From 1. */
  readonly number: number;
  readonly tasks: readonly string[];
}

/** The waves this plan runs when every task succeeds and nothing conflicts. Throws when its dependencies run in a circle. */
export function planWaves(plan: PlannablePlan, graph: TaskGraph = createTaskGraph(plan.tasks)): PlannedWave[] {
  const globs = createGlobTable();
  const ledger = createWriteLedger(globs);
  const tasks = plan.tasks.map((task) => toCandidate({ ...task, effectiveWrites: task.writes }, globs));
  const ranked = rank(tasks, graph.remainingPath);
  const ranks = new Map(ranked.map((task, index) => [task.key, index]));
  const missing = new Map(tasks.map((task) => [task.key, graph.dependencies(task.key).length]));
  // Ranks of the ready tasks, best last: what is taken leaves from the end, where it is cheap.
  const ready = ranked.flatMap((task, index) => (missing.get(task.key) === 0 ? [index] : [])).reverse();
  const supply = countByAgent(ready.map((index) => ranked[index]!));
  const waves: PlannedWave[] = [];
  while (ready.length > 0) {
    const candidates = { length: ready.length, at: (place: number) => ranked[ready[ready.length - 1 - place]!]! };
    const places = pick(candidates, supply, plan.limits.tasksPerAgentPerWave, ledger);
    const chosen = places.map((place) => candidates.at(place));
    for (const place of places.reverse()) ready.splice(ready.length - 1 - place, 1);
    for (const task of chosen) supply.set(task.agent, supply.get(task.agent)! - 1);
    waves.push({ number: waves.length + 1, tasks: inPlanOrder(chosen) });
    for (const dependent of chosen.flatMap((task) => graph.dependents(task.key))) {
      const left = missing.get(dependent)! - 1;
      missing.set(dependent, left);
      if (left > 0) continue;
      const task = ranked[ranks.get(dependent)!]!;
      insertDescending(ready, ranks.get(dependent)!);
      supply.set(task.agent, (supply.get(task.agent) ?? 0) + 1);
    }
  }
  return waves;
}

interface Candidate {
  readonly key: string;
  readonly agent: string;
  readonly position: number;
  /** Numbers of its globs in the table. */
  readonly writes: readonly number[];
}

function toCandidate(task: ReadyTask, globs: GlobTable): Candidate {
  const writes = (task.effectiveWrites ?? []).map((glob) => globs.numberOf(glob));
  return { key: task.key, agent: task.agent, position: task.position, writes };
}

function rank<T extends { key: string; position: number }>(
  tasks: readonly T[],
  remainingPath: (key: string) => number,
): T[] {
  return [...tasks].sort(
    (left, right) => remainingPath(right.key) - remainingPath(left.key) || left.position - right.position,
  );
}

const inPlanOrder = (tasks: readonly Candidate[]): string[] =>
  [...tasks].sort((left, right) => left.position - right.position).map((task) => task.key);

function countByAgent(tasks: readonly Candidate[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const task of tasks) counts.set(task.agent, (counts.get(task.agent) ?? 0) + 1);
  return counts;
}

/** Takes greedily from ranked candidates, of whom `supply` says how many each agent has; gives the places taken, ascending. */
function pick(
  candidates: { readonly length: number; at(place: number): Candidate | undefined },
  supply: ReadonlyMap<string, number>,
  tasksPerAgent: number,
  ledger: WriteLedger,
): number[] {
  ledger.clear();
  const taken: number[] = [];
  const counts = new Map<string, number>();
  // Ends when no agent can take more, long before the end of a long list.
  let room = 0;
  for (const waiting of supply.values()) room += Math.min(waiting, tasksPerAgent);
  for (let place = 0; place < candidates.length && taken.length < room; place += 1) {
    const task = candidates.at(place)!;
    const count = counts.get(task.agent) ?? 0;
    if (count >= tasksPerAgent || ledger.overlaps(task.writes)) continue;
    counts.set(task.agent, count + 1);
    ledger.add(task.writes);
    taken.push(place);
  }
  return taken;
}

/** Each different glob once, read and numbered. */
interface GlobTable {
  numberOf(glob: string): number;
  compiled(number: number): CompiledGlob;
}

function createGlobTable(): GlobTable {
  const numbers = new Map<string, number>();
  const compiled: CompiledGlob[] = [];
  return {
    numberOf(glob) {
      const known = numbers.get(glob);
      if (known !== undefined) return known;
      numbers.set(glob, compiled.length);
      return compiled.push(compileGlob(glob)) - 1;
    },
    compiled: (number) => compiled[number]!,
  };
}

/** What the tasks chosen for a wave write. It remembers per glob how far it was compared, so that a shared file costs little. */
interface WriteLedger {
  clear(): void;
  add(writes: readonly number[]): void;
  overlaps(writes: readonly number[]): boolean;
}

function createWriteLedger(globs: GlobTable): WriteLedger {
  const written: number[] = [];
  const blocked = new Set<number>();
  const comparedTo = new Map<number, number>();
  const isBlocked = (glob: number): boolean => {
    for (let index = comparedTo.get(glob) ?? 0; index < written.length; index += 1) {
      if (!compiledMayOverlap(globs.compiled(glob), globs.compiled(written[index]!))) continue;
      blocked.add(glob);
      return true;
    }
    comparedTo.set(glob, written.length);
    return false;
  };
  return {
    clear() {
      written.length = 0;
      blocked.clear();
      comparedTo.clear();
    },
    add: (writes) => {
      written.push(...writes);
    },
    overlaps: (writes) => writes.some((glob) => blocked.has(glob)) || writes.some(isBlocked),
  };
}

/** Binary insertion into a list sorted from the largest down. */
function insertDescending(list: number[], value: number): void {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle]! > value) low = middle + 1;
    else high = middle;
  }
  list.splice(low, 0, value);
}
