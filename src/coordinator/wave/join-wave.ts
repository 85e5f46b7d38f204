import { waveRef } from "../../domain/refs/build-refs.ts";
import type { BuildRow, StoreTransaction, TaskRow, WaveRow } from "../../store/port.ts";
import type { JoinResult } from "../../workspace/port.ts";
import { askGenerate } from "../attempt/head-attempt.ts";
import { eventsOf } from "../build-events.ts";
import { maskOf } from "../job/job-results.ts";
import { advance } from "../next/advance.ts";
import type { Ports } from "../port.ts";
import { mergeBranches } from "./merge-branches.ts";
import { leftoversOf, leftoversReason, sharesTree } from "./shared-tree.ts";

// W8. Branches are joined in plan order with fixed dates and identity, so a repeated join gives the
// same SHA. A task whose branch conflicts goes back to pending with the conflict in its context; a
// task is completed once its branch is joined.

/**
 * Joins the branches of a wave whose tasks have all settled. Returns whether any of them shared a
 * tree, which must then be closed, including the tree from before the wave was reopened.
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
  const mask = await maskOf(ports, build, null);
  // A wave that fails must not move its branch, because a person might commit on top of it.
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
    if (left.unclaimed.length > 0) await failWave(transaction, ports, present, members, mask(leftoversReason(left)));
    else await settleJoin(transaction, ports, present, members, result);
    await advance(transaction, ports, build.id);
  });
}

/**
 * Points the wave's branch to the joined head. A person's commits on an earlier join of this wave
 * count; any other commit there is saved under a rescue ref.
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

/** Fails all tasks of a wave, because leftovers in a shared tree may belong to any of them. */
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
    await eventsOf(transaction, build).taskFailed(task, wave, { outcome: "failed", reason });
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
  await eventsOf(transaction, build).taskCompleted(task, wave, task.commitSha ?? head);
}

async function sendBack(
  transaction: StoreTransaction,
  wave: WaveRow,
  task: TaskRow,
  conflict: JoinResult["conflicts"][number],
): Promise<void> {
  const { paths, detail, otherKeys } = conflict;
  const others = otherKeys.length === 0 ? "" : ` (${otherKeys.join(", ")})`;
  await transaction.tasks.update(
    { id: task.id },
    {
      status: "pending",
      epoch: task.epoch + 1,
      commitSha: null,
      conflicts: [...task.conflicts, { waveNumber: wave.number, paths, detail, otherKeys }],
      reason: `conflicted with wave ${wave.number}${others} in ${paths.join(", ")}`,
    },
  );
}
