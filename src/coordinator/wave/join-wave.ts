import type { BuildRow, StoreTransaction, TaskRow, WaveRow } from "../../store/port.ts";
import type { JoinResult } from "../../workspace/port.ts";
import { askGenerate } from "../attempt/head-attempt.ts";
import { emitFor } from "../build-events.ts";
import { maskOf } from "../job/job-results.ts";
import { waveRef } from "../names.ts";
import { advance } from "../next/advance.ts";
import type { Ports } from "../port.ts";
import { mergeBranches } from "./join-branches.ts";
import { leftoversOf, leftoversReason, sharesTree } from "./shared-tree.ts";

// W8. Joins go in plan order with fixed dates and identity: doing one again gives the same SHA. A
// task whose branch conflicts goes back to pending with the conflict in its context; a task is
// completed once its branch is joined.

/**
 * Joins the branches of a wave whose tasks have all settled. Says whether any shared a tree, which
 * is to be closed: also that of before the wave was reopened, which may have come between a first
 * try that joined and this one.
 */
export async function joinWave(ports: Ports, buildId: string, waveNumber: number): Promise<{ shared: boolean }> {
  const wave = await ports.store.waves.get({ buildId, number: waveNumber });
  await joinOnce(ports, buildId, wave);
  const attempts = await ports.store.attempts.pick({ waveId: wave.id, kind: "task" }, ["treePath"]);
  return { shared: attempts.some(sharesTree) };
}

async function joinOnce(ports: Ports, buildId: string, wave: WaveRow): Promise<void> {
  const waveId = wave.id;
  if (wave.status !== "joining" || wave.headSha !== null) return;
  const members = await ports.store.tasks.list({ waveId, status: "joining" }, { by: "position" });
  const build = await ports.store.builds.get({ id: buildId });
  const merged = await mergeBranches(ports, { build, wave, members });
  const left = await leftoversOf(ports, { build, wave }, merged);
  const cover = await maskOf(ports, build, null);
  // What is to fail must not be on the wave's branch, where a person's commits would come on top of
  // it.
  const head = left.unclaimed.length > 0 ? merged.head : await placeBranch(ports, wave, build, merged);
  const regenerate = [...new Set([...merged.regenerate, ...left.generated])].sort();
  const result = { ...merged, head, regenerate };
  await ports.store.transaction("join-wave", async (transaction) => {
    const build = await transaction.lockBuild(wave.buildId);
    const present = await transaction.waves.get({ id: waveId });
    if (present.status !== "joining" || present.headSha !== null || build.status !== "running") {
      if (build.status === "cancelling") await advance(transaction, ports, build.id);
      return;
    }
    if (left.unclaimed.length > 0) await failWave(transaction, ports, present, members, cover(leftoversReason(left)));
    else await settleJoin(transaction, ports, present, members, result);
    await advance(transaction, ports, build.id);
  });
}

/**
 * Puts the wave's branch on what was joined. What a person built on an earlier join of this wave
 * counts; anything else there is rescued.
 */
async function placeBranch(
  ports: Ports,
  wave: WaveRow,
  build: BuildRow,
  { head, joined }: JoinResult,
): Promise<string> {
  const { workspace } = ports;
  const projectId = build.projectId;
  const ref = waveRef(build.id, wave.number);
  const present = await workspace.resolve(projectId, ref);
  if (present !== null && joined.length > 0 && (await workspace.isAncestor(projectId, head, present))) return present;
  if (present !== null && !(await workspace.isAncestor(projectId, present, head)))
    await workspace.moveRef(projectId, `refs/rescue/${build.id}/${present}`, present, null);
  await workspace.moveRef(projectId, ref, head, present);
  return head;
}

async function settleJoin(
  transaction: StoreTransaction,
  ports: Ports,
  wave: WaveRow,
  members: readonly TaskRow[],
  result: JoinResult,
): Promise<void> {
  const conflicts = new Map(result.conflicts.map((conflict) => [conflict.taskKey, conflict]));
  const joined = members.filter((task) => !conflicts.has(task.key));
  const build = await transaction.builds.get({ id: wave.buildId });
  for (const task of members) {
    const conflict = conflicts.get(task.key);
    if (conflict === undefined) await completeTask(transaction, ports, { build, wave, task }, result.head);
    else await sendBack(transaction, wave, task, conflict);
  }
  if (joined.length === 0) {
    const reason = "none of its tasks could be joined";
    await transaction.waves.update({ id: wave.id }, { status: "failed", reason, endedAt: ports.clock.now() });
    return;
  }
  await transaction.waves.update({ id: wave.id }, { headSha: result.head });
  if (result.regenerate.length === 0) {
    await transaction.waves.update({ id: wave.id }, { status: "gating" });
    return;
  }
  await askGenerate(transaction, ports, { build, wave, baseSha: result.head }, result.regenerate);
}

/**
 * What was left in the tree its tasks shared may belong to any of them, and any may need it: so all
 * of them fail.
 */
async function failWave(
  transaction: StoreTransaction,
  ports: Ports,
  wave: WaveRow,
  members: readonly TaskRow[],
  reason: string,
): Promise<void> {
  const endedAt = ports.clock.now();
  await transaction.waves.update({ id: wave.id }, { status: "failed", reason, endedAt });
  const build = await transaction.builds.get({ id: wave.buildId });
  for (const task of members) {
    await transaction.tasks.update({ id: task.id }, { status: "failed", commitSha: null, reason, endedAt });
    await emitFor(transaction, build, "agent/task.failed", task.id, task.epoch, {
      waveNumber: wave.number,
      taskId: task.id,
      taskKey: task.key,
      outcome: "failed",
      reason,
    });
  }
}

async function completeTask(
  transaction: StoreTransaction,
  ports: Ports,
  { build, wave, task }: { build: BuildRow; wave: WaveRow; task: TaskRow },
  head: string,
): Promise<void> {
  await transaction.tasks.update(
    { id: task.id, status: "joining" },
    { status: "completed", endedAt: ports.clock.now() },
  );
  await emitFor(transaction, build, "agent/task.completed", task.id, task.epoch, {
    waveNumber: wave.number,
    taskId: task.id,
    taskKey: task.key,
    commit: task.commitSha ?? head,
  });
}

async function sendBack(
  transaction: StoreTransaction,
  wave: WaveRow,
  task: TaskRow,
  conflict: JoinResult["conflicts"][number],
): Promise<void> {
  const { paths, detail } = conflict;
  await transaction.tasks.update(
    { id: task.id },
    {
      status: "pending",
      epoch: task.epoch + 1,
      commitSha: null,
      conflicts: [...task.conflicts, { waveNumber: wave.number, paths, detail }],
      reason: `conflicted with wave ${wave.number} in ${paths.join(", ")}`,
    },
  );
}
