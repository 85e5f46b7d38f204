import { makesPlan, planTaskKey, withPlanTask } from "../../domain/brief.ts";
import { WavesmithError } from "../../domain/errors.ts";
import { networkOf } from "../../domain/network.ts";
import type { Plan } from "../../domain/plan.ts";
import { activeBuildStatuses, movingBuildStatuses } from "../../domain/status.ts";
import type { BuildRow, StoreTransaction, TaskRow, WaveRow } from "../../store/port.ts";
import { deadlineFrom } from "../build/deadline.ts";
import { advance } from "../next/advance.ts";
import type { Ports } from "../port.ts";
import { reopenTasks, reopenWave } from "../wave/reopen-wave.ts";
import { personsHead } from "../wave/wave-head.ts";
import { compareTasks, type PlanEdit, storeTasksOf } from "./edited-tasks.ts";

// `resume --plan EDITED` keeps completed tasks that did not change and runs the changed ones and
// their dependents. A completed task that the edited plan no longer has stays in the tree and is
// marked `removed`.

/**
 * Gives a build that does not run an edited plan and lets it go on. Returns what that means. Fails
 * with `conflict` while it runs.
 */
export async function editPlan(
  ports: Ports,
  buildId: string,
  given: Plan,
  by: string | null = null,
): Promise<PlanEdit> {
  const build = await ports.store.builds.get({ id: buildId });
  const wave = await ports.store.waves.find({ buildId }, { by: "number", descending: true });
  const head = wave === null ? null : await personsHead(ports, build, wave);
  return ports.store.transaction("edit-plan", async (transaction) => {
    await transaction.lockProject(build.projectId);
    const present = await transaction.lockBuild(buildId);
    await refuseWhileAtWork(transaction, present);
    const tasks = await transaction.tasks.list({ buildId }, { by: "position" });
    const edited = behindPlanTask(present, tasks, given);
    const edit = compareTasks(tasks, edited);
    await storeTasksOf(transaction, ports, present, { tasks, edited, edit });
    const [running] = await transaction.builds.update(
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
      },
    );
    await reopenTasks(transaction, buildId);
    if (wave !== null) {
      await approvePlan(transaction, ports, present, { wave, by });
      await settleOpenWave(transaction, ports, running!, { edit, before: present.plan }, head);
    }
    await advance(transaction, ports, buildId);
    return edit;
  });
}

/**
 * A plan that a planner made stays behind the task that made it; one that takes the place of what
 * it did not make, does not.
 */
function behindPlanTask({ brief }: BuildRow, tasks: readonly TaskRow[], edited: Plan): Plan {
  const planTask = tasks.find(({ key }) => makesPlan({ brief }, key));
  if (planTask?.status !== "completed") return edited;
  if (edited.tasks.some(({ key }) => key === planTask.key)) {
    throw new WavesmithError("plan-invalid", `tasks: ${planTask.key} is the id of the task that made the plan`, {
      remedy: "give the task another id",
    });
  }
  return withPlanTask(edited, planTask.definition);
}

/** Who edits the plan that waits for his word has given it. */
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
  const other = await transaction.builds.find({ projectId, status: activeBuildStatuses });
  if (other !== null && other.id !== buildId) {
    throw new WavesmithError("conflict", `build ${other.id} of the same project is not over`, {
      remedy: `wavesmith cancel ${other.id}`,
    });
  }
  if (!movingBuildStatuses.includes(build.status)) return;
  throw new WavesmithError("conflict", `build ${buildId} is ${build.status}: its plan cannot be edited now`, {
    remedy: `wavesmith cancel ${buildId}, then resume with the edited plan`,
  });
}

/**
 * A wave that was not passed goes on when the edit left its tasks alone; else it closes, and its
 * tasks run in the next.
 */
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
  // What is cancelled was not joined, but a plan that was made holds without that.
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
