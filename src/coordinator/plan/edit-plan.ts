import { WavesmithError } from "../../domain/errors.ts";
import { itemAt } from "../../domain/known.ts";
import { makesPlan, planTaskKey } from "../../domain/plan/brief.ts";
import { isMergeTask, withFirstTask } from "../../domain/plan/merge-task.ts";
import type { Plan } from "../../domain/plan/plan.ts";
import { networkOf } from "../../domain/sandbox/network.ts";
import { movingBuildStatuses } from "../../domain/status.ts";
import type { BuildRow, StoreTransaction, TaskRow, WaveRow } from "../../store/port.ts";
import { activeBuildOf } from "../../store/queries/builds.ts";
import { tasksOfBuild } from "../../store/queries/tasks.ts";
import { latestWaveOf } from "../../store/queries/waves.ts";
import { deadlineFrom } from "../build/deadline.ts";
import { refuseDelivery } from "../forge/may-deliver.ts";
import { advance } from "../next/advance.ts";
import type { Ports } from "../port.ts";
import { reopenTasks, reopenWave } from "../wave/reopening.ts";
import { personsHead } from "../wave/wave-head.ts";
import { compareTasks, type PlanEdit, storeTasksOf } from "./edited-tasks.ts";

// `resume --plan EDITED` keeps completed tasks that did not change and reruns changed tasks and
// their dependents. The work of a completed task that the edited plan lacks stays in the tree; the
// task is marked `removed`.

/**
 * Replaces the plan of a build that is not running and continues the build. `interactive` says
 * whether a person answers its agents' questions from now on. Returns the effects on its tasks.
 * Fails with `conflict` while the build runs.
 */
export async function editPlan(
  ports: Ports,
  buildId: string,
  given: Plan,
  { by = null, interactive }: { by?: string | null; interactive?: boolean | undefined } = {},
): Promise<PlanEdit> {
  const build = await ports.store.builds.get({ id: buildId });
  refuseDelivery(given, build.tenantId);
  const wave = await latestWaveOf(ports.store, buildId);
  const head = wave === null ? null : await personsHead(ports, build, wave);
  return ports.store.transaction("edit-plan", async (transaction) => {
    await transaction.lockProject(build.projectId);
    const present = await transaction.lockBuild(buildId);
    await refuseWhileAtWork(transaction, present);
    const tasks = await tasksOfBuild(transaction, buildId);
    const edited = behindFirstTask(present, tasks, { ...given, source: sourceOf(present, given) });
    const edit = compareTasks(tasks, edited);
    await storeTasksOf(transaction, ports, present, { tasks, edited, edit });
    const updated = await transaction.builds.update(
      { id: buildId },
      {
        plan: edited,
        planVersion: present.planVersion + 1,
        network: networkOf(edited).mode,
        status: "running",
        reason: null,
        endedAt: null,
        epoch: present.epoch + 1,
        deadlineAt: deadlineFrom(edited, ports.clock.now()),
        ...(interactive === undefined ? {} : { interactive }),
      },
    );
    await reopenTasks(transaction, buildId);
    if (wave !== null) {
      await approvePlan(transaction, ports, present, { wave, by });
      await settleOpenWave(transaction, ports, itemAt(updated, 0), { edit, before: present.plan }, head);
    }
    await advance(transaction, ports, buildId);
    return edit;
  });
}

/** The repository that a command found stays the source of a plan that names none. */
const sourceOf = ({ plan }: BuildRow, { source }: Plan): Plan["source"] =>
  plan.source.kind === "repository" && source.kind === "empty" ? plan.source : source;

/**
 * Puts the edited plan behind the task that is not part of a person's plan: the planner's if it has
 * completed, or the one that resolves conflicts with the source, without which no tree is whole.
 */
function behindFirstTask({ brief }: BuildRow, tasks: readonly TaskRow[], edited: Plan): Plan {
  const planTask = tasks.find(({ key, status }) => makesPlan({ brief }, key) && status === "completed");
  const ours = (planTask ?? tasks.find(({ definition }) => isMergeTask(definition)))?.definition;
  if (ours === undefined) return edited;
  if (!edited.tasks.some(({ key }) => key === ours.key)) return withFirstTask(edited, ours);
  throw new WavesmithError("plan-invalid", `tasks: ${ours.key} is the id of a task of Wavesmith's own in this build`, {
    remedy: "give the task another id",
  });
}

/** Approves the waiting plan, because a person who edits it has approved it. */
async function approvePlan(
  transaction: StoreTransaction,
  ports: Ports,
  build: BuildRow,
  { wave, by }: { wave: WaveRow; by: string | null },
): Promise<void> {
  const made = await transaction.tasks.find({ buildId: build.id, waveId: wave.id, key: planTaskKey });
  if (build.brief === null || made === null || wave.headSha === null) return;
  const { id: waveId, headSha: sha } = wave;
  const approval = { id: ports.ids("approval"), buildId: build.id, waveId, sha, by, createdAt: ports.clock.now() };
  await transaction.approvals.insert({ ...approval, decision: "approved" });
  await transaction.waves.update({ id: waveId }, { approvedSha: sha, rejectedSha: null });
}

async function refuseWhileAtWork(transaction: StoreTransaction, build: BuildRow): Promise<void> {
  const { id: buildId, projectId } = build;
  const other = await activeBuildOf(transaction, projectId);
  if (other !== null && other.id !== buildId) {
    throw new WavesmithError("conflict", `build ${other.id} of the same project has not ended`, {
      remedy: `wavesmith cancel ${other.id}`,
    });
  }
  if (!movingBuildStatuses.includes(build.status)) return;
  throw new WavesmithError("conflict", `build ${buildId} is ${build.status}: its plan cannot be edited now`, {
    remedy: `wavesmith cancel ${buildId}, then resume with the edited plan`,
  });
}

/** Continues an open wave if the edit left its tasks unchanged; otherwise closes it. */
async function settleOpenWave(
  transaction: StoreTransaction,
  ports: Ports,
  build: BuildRow,
  { edit, before }: { edit: PlanEdit; before: Plan },
  head: string | null,
): Promise<void> {
  const wave = await latestWaveOf(transaction, build.id);
  if (wave === null || wave.status === "passed" || wave.status === "failed") return;
  const members = await transaction.tasks.list({ waveId: wave.id });
  const touched = new Set([...edit.again, ...edit.removed]);
  // The isolation decides which tasks may share a wave (W2).
  const regrouped = before.isolation !== build.plan.isolation && wave.headSha === null;
  // A cancelled wave was not joined, but a drafted plan is valid without a join.
  const isOver = wave.status === "cancelled" && !members.some((task) => makesPlan(build, task.key));
  if (!regrouped && !members.some((task) => touched.has(task.key)) && !isOver) {
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
