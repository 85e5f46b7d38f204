import { getKnown, itemAt } from "../known.ts";
import { type CompiledGlob, compiledMayOverlap, compileGlob } from "../paths/write-globs.ts";
import type { Plan } from "./plan.ts";
import { createTaskGraph, type TaskGraph } from "./task-graph.ts";

// W1. A task enters a wave only when every dependency is completed and joined into the wave's base:
// callers of `chooseWave` pass only such tasks; `planWaves` makes a task ready when its
// dependencies are in earlier waves.
// W2. A wave holds at most `tasksPerAgentPerWave` tasks of one agent and no two tasks whose
// effective writes can overlap. When the tasks of a wave share one tree, a task without declared
// writes is alone in its wave, because we could not tell whose changes are whose. Tasks with the
// longest remaining path go first, then those declared first; nothing else decides.

/** A task whose dependencies are all joined. */
export interface ReadyTask {
  readonly key: string;
  readonly agent: string;
  readonly position: number;
  /** Declared globs plus paths that conflicted before; null: unknown, never a reason to wait. */
  readonly effectiveWrites: readonly string[] | null;
  /** Whether it must be the only task of its wave. */
  readonly alone: boolean;
}

/** Whether a task must be alone in its wave: it shares a tree and does not declare its writes. */
export const isAlone = (isolation: Plan["isolation"], declaredWrites: readonly string[] | null): boolean =>
  isolation === "shared" && declaredWrites === null;

export interface WaveChoice {
  readonly ready: readonly ReadyTask[];
  /** Counts the tasks on the longest path from this one to the end of the plan. */
  readonly remainingPath: (key: string) => number;
  readonly tasksPerAgentPerWave: number;
}

/**
 * Returns the tasks of the next wave, in the plan's order; empty only when nothing is ready. Pure.
 */
export function chooseWave(choice: WaveChoice): string[] {
  const lineup = createLineup(choice.ready, choice.remainingPath);
  const queue = createQueue(
    lineup,
    lineup.tasks.map((_, rank) => rank),
  );
  return inPlanOrder(queue.takeWave(choice.tasksPerAgentPerWave));
}

/** The parts of a `Plan` that `planWaves` reads. */
export interface PlannablePlan {
  readonly tasks: readonly {
    readonly key: string;
    readonly agent: string;
    readonly position: number;
    readonly dependsOn: readonly string[];
    readonly writes: readonly string[] | null;
  }[];
  readonly limits: { readonly tasksPerAgentPerWave: number };
  readonly isolation: Plan["isolation"];
}

export interface PlannedWave {
  /** From 1. */
  readonly number: number;
  readonly tasks: readonly string[];
}

/**
 * Returns the waves that this plan runs if every task succeeds without conflicts. Throws when its
 * dependencies form a cycle.
 */
export function planWaves(plan: PlannablePlan, graph: TaskGraph = createTaskGraph(plan.tasks)): PlannedWave[] {
  const tasks = plan.tasks.map((task) => ({
    ...task,
    effectiveWrites: task.writes,
    alone: isAlone(plan.isolation, task.writes),
  }));
  const lineup = createLineup(tasks, graph.remainingPath);
  const ranks = new Map(lineup.tasks.map((task, rank) => [task.key, rank]));
  const missing = lineup.tasks.map((task) => graph.dependencies(task.key).length);
  const queue = createQueue(
    lineup,
    missing.flatMap((count, rank) => (count === 0 ? [rank] : [])),
  );
  const waves: PlannedWave[] = [];
  for (;;) {
    const chosen = queue.takeWave(plan.limits.tasksPerAgentPerWave);
    if (chosen.length === 0) return waves;
    waves.push({ number: waves.length + 1, tasks: inPlanOrder(chosen) });
    for (const { key } of chosen) {
      for (const dependent of graph.dependents(key)) {
        const rank = getKnown(ranks, dependent);
        missing[rank] = itemAt(missing, rank) - 1;
        if (missing[rank] === 0) queue.add(rank);
      }
    }
  }
}

/**
 * A task with its agent and globs as numbers, because planning compares the same tasks many times.
 */
interface Candidate {
  readonly key: string;
  readonly position: number;
  readonly agent: number;
  readonly writes: readonly number[];
  readonly alone: boolean;
}

/** Candidates by priority; a candidate's index is its rank. */
interface Lineup {
  readonly tasks: readonly Candidate[];
  readonly agentCount: number;
  readonly ledger: WriteLedger;
}

function createLineup(tasks: readonly ReadyTask[], remainingPath: (key: string) => number): Lineup {
  const globs = createGlobTable();
  const agents = new Map<string, number>();
  const measured = tasks.map((task) => ({ task, path: remainingPath(task.key) }));
  measured.sort((left, right) => right.path - left.path || left.task.position - right.task.position);
  const candidates = measured.map(({ task: { key, position, agent, effectiveWrites, alone } }) => {
    if (!agents.has(agent)) agents.set(agent, agents.size);
    return {
      key,
      position,
      agent: getKnown(agents, agent),
      writes: (effectiveWrites ?? []).map(globs.numberOf),
      alone,
    };
  });
  return { tasks: candidates, agentCount: agents.size, ledger: createWriteLedger(globs) };
}

const inPlanOrder = (tasks: readonly Candidate[]): string[] =>
  [...tasks].sort((left, right) => left.position - right.position).map((task) => task.key);

/** The ready tasks of a lineup. */
interface Queue {
  add(rank: number): void;
  /** Removes and returns the tasks of the next wave; empty only when the queue is empty. */
  takeWave(tasksPerAgent: number): Candidate[];
}

function createQueue({ tasks, agentCount, ledger }: Lineup, ranks: readonly number[]): Queue {
  // Best last, because removing from the end of a list is cheap.
  const ready = [...ranks].reverse();
  const supply = new Array<number>(agentCount).fill(0);
  for (const rank of ready) supply[itemAt(tasks, rank).agent]! += 1;
  return {
    add(rank) {
      insertDescending(ready, rank);
      supply[itemAt(tasks, rank).agent]! += 1;
    },
    takeWave(tasksPerAgent) {
      // Stops when no agent can take more, long before the end of a long list.
      let room = 0;
      for (const waiting of supply) room += Math.min(waiting, tasksPerAgent);
      const counts = new Array<number>(agentCount).fill(0);
      const taken: Candidate[] = [];
      ledger.clear();
      for (let place = ready.length - 1; place >= 0 && taken.length < room; place -= 1) {
        const task = itemAt(tasks, itemAt(ready, place));
        if (task.alone && taken.length > 0) continue;
        if (itemAt(counts, task.agent) >= tasksPerAgent || ledger.overlaps(task.writes)) continue;
        counts[task.agent]! += 1;
        supply[task.agent]! -= 1;
        ledger.add(task.writes);
        taken.push(task);
        ready.splice(place, 1);
        if (task.alone) break;
      }
      return taken;
    },
  };
}

/** Each distinct glob, read once and numbered. */
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
    compiled: (number) => itemAt(compiled, number),
  };
}

/**
 * The writes of the tasks chosen for a wave. Remembers per glob how far it was compared, so that a
 * shared file costs little.
 */
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
      if (!compiledMayOverlap(globs.compiled(glob), globs.compiled(itemAt(written, index)))) continue;
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

/** Inserts into a list sorted in descending order, by binary search. */
function insertDescending(list: number[], value: number): void {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (itemAt(list, middle) > value) low = middle + 1;
    else high = middle;
  }
  list.splice(low, 0, value);
}
