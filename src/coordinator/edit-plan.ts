import { isDeepStrictEqual } from "node:util";
import { WavesmithError } from "../domain/errors.ts";
import { networkOf } from "../domain/network.ts";
import type { Plan, PlanTask } from "../domain/plan.ts";
import { createTaskGraph } from "../domain/task-graph.ts";
import type { BuildRow, StoreTransaction, TaskRow } from "../store/port.ts";
import { advance } from "./advance.ts";
import type { Ports } from "./port.ts";
import { deadlineFrom, personsHead, reopenTasks, reopenWave } from "./retry-build.ts";

// `resume --plan EDITED` keeps completed tasks that did not change and runs the changed ones and their dependents. A
// completed task that the edited plan no longer has stays in the tree and is marked `removed`.

/** What an edited plan means for a build. */
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

/** Where a task stands in the file and how it is called do not make it another task. */
function sameTask(a: PlanTask, b: PlanTask): boolean {
  const essence = ({ position: _position, title: _title, ...rest }: PlanTask) => rest;
  return isDeepStrictEqual(essence(a), essence(b));
}

/** Gives a build that does not run an edited plan and lets it go on. Returns what that means. Fails with `conflict` while it runs. */
export async function editPlan(ports: Ports, buildId: string, edited: Plan): Promise<PlanEdit> {
  const build = await ports.store.builds.get({ id: buildId });
  const wave = await ports.store.waves.find({ buildId }, { by: "number", descending: true });
  const head = wave === null ? null : await personsHead(ports, build, wave);
  return ports.store.transaction("edit-plan", async (transaction) => {
    await transaction.lockProject(build.projectId);
    const present = await transaction.lockBuild(buildId);
    await refuseWhileAtWork(transaction, present);
    const tasks = await transaction.tasks.list({ buildId }, { by: "position" });
    const edit = compareTasks(tasks, edited);
    await storeEdit(transaction, ports, present, tasks, edited, edit);
    const [running] = await transaction.builds.update(
      { id: buildId },
      {
        plan: edited,
        network: networkOf(edited).mode,
        status: "running",
        reason: null,
        endedAt: null,
        epoch: present.epoch + 1,
        deadlineAt: deadlineFrom(edited, ports.clock.now()),
      },
    );
    await reopenTasks(transaction, buildId);
    if (wave !== null) await settleOpenWave(transaction, ports, running!, { edit, before: present.plan }, head);
    await advance(transaction, ports, buildId);
    return edit;
  });
}

async function refuseWhileAtWork(transaction: StoreTransaction, build: BuildRow): Promise<void> {
  const { id: buildId, projectId } = build;
  const other = await transaction.builds.find({ projectId, status: ["running", "waiting", "cancelling"] });
  if (other !== null && other.id !== buildId) {
    throw new WavesmithError("conflict", `build ${other.id} of the same project is not over`, {
      remedy: `wavesmith cancel ${other.id}`,
    });
  }
  if (build.status !== "running" && build.status !== "cancelling") return;
  throw new WavesmithError("conflict", `build ${buildId} is ${build.status}: its plan cannot be edited now`, {
    remedy: `wavesmith cancel ${buildId}, then resume with the edited plan`,
  });
}

async function storeEdit(
  transaction: StoreTransaction,
  ports: Ports,
  build: BuildRow,
  tasks: readonly TaskRow[],
  edited: Plan,
  edit: PlanEdit,
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
        id: ids.get(definition.key)!,
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
  const removed = edit.removed.map((key) => rows.get(key)!.id);
  await transaction.tasks.update({ id: removed }, { status: "removed", reason: "the edited plan no longer has it" });
  await transaction.dependencies.remove({ taskId: [...rows.values()].map((row) => row.id) });
  await transaction.dependencies.insertMany(
    edited.tasks.flatMap((task) =>
      task.dependsOn.map((key) => ({ taskId: ids.get(task.key)!, dependsOnId: ids.get(key)! })),
    ),
  );
}

/** A wave that was not passed goes on when the edit left its tasks alone; else it closes, and its tasks run in the next. */
async function settleOpenWave(
  transaction: StoreTransaction,
  ports: Ports,
  build: BuildRow,
  { edit, before }: { edit: PlanEdit; before: Plan },
  head: string | null,
): Promise<void> {
  const wave = await transaction.waves.find({ buildId: build.id }, { by: "number", descending: true });
  if (wave === null || wave.status === "passed" || wave.status === "failed") return;
  const members = await transaction.tasks.list({ waveId: wave.id });
  const touched = new Set([...edit.again, ...edit.removed]);
  // Who may share a wave follows from it (W2).
  const regrouped = before.isolation !== build.plan.isolation && wave.headSha === null;
  if (!regrouped && !members.some((task) => touched.has(task.key)) && wave.status !== "cancelled") {
    await reopenWave(transaction, ports, build, wave, head);
    return;
  }
  const reason = "the plan was edited";
  await transaction.waves.update(
    { id: wave.id },
    { status: "failed", reason, endedAt: wave.endedAt ?? ports.clock.now() },
  );
  for (const task of members) {
    if (task.status === "removed" || task.status === "pending") continue;
    await transaction.tasks.update(
      { id: task.id },
      { status: "pending", epoch: task.epoch + 1, commitSha: null, reason, endedAt: null },
    );
  }
}
