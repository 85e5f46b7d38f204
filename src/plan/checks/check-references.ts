import { getKnown, itemAt } from "../../domain/known.ts";
import { createTaskGraph, type TaskGraph } from "../../domain/plan/task-graph.ts";
import type { FaultSink } from "../faults/fault-sink.ts";
import { asList, asRecord, asText, type LooseTask } from "../faults/loose.ts";
import { didYouMean } from "../faults/suggest.ts";

/** Each suggestion compares a name with all ids, and nobody reads more suggestions than this. */
const maxSuggestions = 20;

/**
 * Checks ids and references to them: dependencies, cycles, `from` of gates. Returns the graph of
 * the tasks that have an id.
 */
export function checkReferences(
  plan: unknown,
  tasks: readonly LooseTask[],
  sink: FaultSink,
  warnings: string[],
): TaskGraph {
  const byId = indexIds(tasks, sink);
  const suggest = createSuggester(byId);
  for (const task of tasks) checkDependencies(task, byId, suggest, sink, warnings);
  const graph = createTaskGraph(
    tasks.flatMap(({ id, fields }) => (id === null ? [] : [{ key: id, dependsOn: dependenciesOf(fields) }])),
  );
  for (const cycle of graph.findCycles()) {
    if (cycle.length > 1) reportCycle(cycle, getKnown(byId, itemAt(cycle, 0)), sink);
  }
  checkGates(plan, byId, sink);
  return graph;
}

const dependenciesOf = (fields: LooseTask["fields"]): string[] =>
  asList(fields.dependsOn).filter((item): item is string => typeof item === "string");

type TasksById = ReadonlyMap<string, LooseTask>;

function indexIds(tasks: readonly LooseTask[], sink: FaultSink): TasksById {
  const byId = new Map<string, LooseTask>();
  for (const task of tasks) {
    const { id, index } = task;
    if (id === null) continue;
    const first = byId.get(id);
    if (first === undefined) byId.set(id, task);
    else {
      const message = `The id ${id} is already used by tasks[${first.index}]: give each task its own id.`;
      sink.add("duplicate-id", ["tasks", index, "id"], message);
    }
  }
  return byId;
}

function createSuggester(byId: TasksById): (id: string) => string {
  let suggestionCount = 0;
  return (id) => {
    suggestionCount += 1;
    return suggestionCount > maxSuggestions ? "" : didYouMean(id, byId.keys());
  };
}

function checkDependencies(
  task: LooseTask,
  byId: TasksById,
  suggest: (id: string) => string,
  sink: FaultSink,
  warnings: string[],
): void {
  const seen = new Set<string>();
  asList(task.fields.dependsOn).forEach((dependency, place) => {
    if (typeof dependency !== "string") return;
    const path = ["tasks", task.index, "dependsOn", place];
    if (seen.has(dependency)) warnings.push(`Task ${task.id ?? task.index} names the dependency ${dependency} twice.`);
    seen.add(dependency);
    if (dependency === task.id) {
      sink.add("self-dependency", path, `Task ${dependency} depends on itself: remove this dependency.`);
    } else if (!byId.has(dependency)) {
      const message = `There is no task ${dependency}${suggest(dependency) || ": correct the id or add the task."}`;
      sink.add("dangling-dependency", path, message);
    }
  });
}

function reportCycle(cycle: readonly string[], first: LooseTask, sink: FaultSink): void {
  const place = asList(first.fields.dependsOn).indexOf(cycle[1]);
  const circle = [...cycle, cycle[0]].join(" -> ");
  const message = `These tasks depend on each other in a cycle: ${circle}. Remove one of these dependencies.`;
  sink.add("cycle", ["tasks", first.index, "dependsOn", place], message);
}

function checkGates(plan: unknown, byId: TasksById, sink: FaultSink): void {
  const gates = asRecord(asRecord(plan).gates);
  for (const gate of ["testing", "integration"]) {
    const from = asText(asRecord(gates[gate]).from);
    if (from === null || byId.has(from)) continue;
    const hint = didYouMean(from, byId.keys()) || ": name the task the gate waits for.";
    sink.add("unknown-task", ["gates", gate, "from"], `There is no task ${from}${hint}`);
  }
}
