import { isDeepStrictEqual } from "node:util";
import { getKnown } from "../../domain/known.ts";
import type { Plan, PlanTask } from "../../domain/plan/plan.ts";
import { createTaskGraph } from "../../domain/plan/task-graph.ts";
import type { BuildRow, StoreTransaction, TaskRow } from "../../store/port.ts";
import type { Ports } from "../port.ts";

// Applies a new plan, from a person or a planner, to the tasks of a build.

/** The effects of an edited plan on a build. */
export interface PlanEdit {
  readonly added: string[];
  /** Changed tasks and everything that depends on them: they run again. */
  readonly again: string[];
  readonly removed: string[];
  readonly kept: string[];
}

/** Compares an edited plan with the tasks of a build; pure. */
export function compareTasks(tasks: readonly Pick<TaskRow, "key" | "definition" | "status">[], edited: Plan): PlanEdit {
  const before = new Map(tasks.filter((task) => task.status !== "removed").map((task) => [task.key, task]));
  const changed = edited.tasks.filter((task) => {
    const old = before.get(task.key);
    return old !== undefined && !sameTask(old.definition, task);
  });
  const added = edited.tasks.filter((task) => !before.has(task.key)).map((task) => task.key);
  const again = new Set(changed.map((task) => task.key));
  const graph = createTaskGraph(edited.tasks);
  for (const key of graph.allDependents([...again, ...added])) if (before.has(key)) again.add(key);
  const names = new Set(edited.tasks.map((task) => task.key));
  return {
    added,
    again: [...again],
    removed: [...before.keys()].filter((key) => !names.has(key)),
    kept: edited.tasks.map((task) => task.key).filter((key) => before.has(key) && !again.has(key)),
  };
}

/** Whether two tasks are the same, regardless of position and title. */
function sameTask(a: PlanTask, b: PlanTask): boolean {
  const essence = ({ position: _position, title: _title, ...rest }: PlanTask) => rest;
  return isDeepStrictEqual(essence(a), essence(b));
}

/** Stores the tasks of an edited plan as the build's tasks. */
export async function storeTasksOf(
  transaction: StoreTransaction,
  ports: Ports,
  build: BuildRow,
  { tasks, edited, edit }: { tasks: readonly TaskRow[]; edited: Plan; edit: PlanEdit },
): Promise<void> {
  const rows = new Map(tasks.map((task) => [task.key, task]));
  const again = new Set(edit.again);
  const ids = new Map<string, string>();
  for (const definition of edited.tasks) {
    const row = rows.get(definition.key);
    const set = { position: definition.position, agent: definition.agent, definition };
    ids.set(definition.key, row?.id ?? ports.ids("task"));
    if (row === undefined) {
      await transaction.tasks.insert({
        id: getKnown(ids, definition.key),
        buildId: build.id,
        key: definition.key,
        status: "pending",
        ...set,
      });
    } else if (again.has(row.key) || row.status === "removed") {
      const fresh = {
        status: "pending",
        epoch: row.epoch + 1,
        commitSha: null,
        retriesUsed: 0,
        losses: 0,
        endedAt: null,
      } as const;
      await transaction.tasks.update({ id: row.id }, { ...set, ...fresh, reason: "the plan was edited" });
    } else {
      await transaction.tasks.update({ id: row.id }, set);
    }
  }
  const removed = edit.removed.map((key) => getKnown(rows, key).id);
  await transaction.tasks.update({ id: removed }, { status: "removed", reason: "the edited plan no longer has it" });
  await transaction.dependencies.remove({ taskId: [...rows.values()].map((row) => row.id) });
  await transaction.dependencies.insertMany(
    edited.tasks.flatMap((task) =>
      task.dependsOn.map((key) => ({ taskId: getKnown(ids, task.key), dependsOnId: getKnown(ids, key) })),
    ),
  );
}
