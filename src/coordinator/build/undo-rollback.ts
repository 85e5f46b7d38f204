import { WavesmithError } from "../../domain/errors.ts";
import { mainRef } from "../../domain/refs/build-refs.ts";
import type { BuildRow, RollbackRow, StoreTransaction } from "../../store/port.ts";
import { latestWaveOf } from "../../store/queries/waves.ts";
import { eventsOf } from "../build-events.ts";
import { promoteNext } from "../next/advance.ts";
import type { Ports } from "../port.ts";
import { clearPreviewOf, hidePreview } from "../preview/preview.ts";
import { showMain } from "./shown-main.ts";

// A rollback can be undone only until the build continues: after that, its later waves would no
// longer descend from main. Main moves under the build's lock, so that no `resume` starts from the
// tree between. A process that dies before the commit leaves main where the next attempt expects
// it.

const reason = "its rollback was undone";

/**
 * Undoes a build's last rollback: main, its waves and its tasks are as they were. Fails with
 * `conflict` when the build has continued since, or when somebody moved main.
 */
export async function undoRollback(ports: Ports, buildId: string): Promise<void> {
  const build = await ports.store.builds.get({ id: buildId });
  await ports.store.transaction("undo-rollback", async (transaction) => {
    await transaction.lockProject(build.projectId);
    const present = await transaction.lockBuild(buildId);
    const rollback = await lastRollback(transaction, present);
    await moveMainForward(ports, present, rollback);
    await restore(transaction, present, rollback);
    await hidePreview(transaction, buildId, reason);
    await promoteNext(transaction, ports, build.projectId);
  });
  await clearPreviewOf(ports, buildId, reason);
  const { headSha } = await ports.store.builds.get({ id: buildId });
  if (headSha !== null) await showMain(ports, build, headSha);
}

async function lastRollback(transaction: StoreTransaction, build: BuildRow): Promise<RollbackRow> {
  const { id, epoch, status } = build;
  const rollback = await transaction.rollbacks.find({ buildId: id, epoch });
  const wave = await latestWaveOf(transaction, id);
  if (rollback !== null && status === "waiting" && wave?.status !== "waiting") return rollback;
  const last = rollback ?? (await transaction.rollbacks.find({ buildId: id }, { by: "epoch", descending: true }));
  if (last === null) {
    throw new WavesmithError("conflict", `build ${id} was not rolled back: there is nothing to undo`, {
      remedy: `wavesmith status ${id}`,
    });
  }
  throw new WavesmithError("conflict", `build ${id} is ${status}: it is no longer where its rollback left it`, {
    remedy: `what main had is kept: git log refs/rescue/${id}/${last.fromSha ?? last.toSha}`,
  });
}

async function moveMainForward(ports: Ports, build: BuildRow, { fromSha, toSha }: RollbackRow): Promise<void> {
  const { projectId, id } = build;
  const main = await ports.workspace.resolve(projectId, mainRef);
  if (fromSha === null || main === fromSha) return;
  const isBack = main === toSha && (await ports.workspace.moveRef(projectId, mainRef, fromSha, toSha));
  if (isBack) return;
  const repository = ports.workspace.repositoryPath(projectId);
  const at = main?.slice(0, 12) ?? "nothing";
  throw new WavesmithError("conflict", `main is at ${at}: somebody moved it after the rollback of build ${id}`, {
    remedy: `look at it: git -C ${repository} log main; what it had: git log refs/rescue/${id}/${fromSha}`,
  });
}

async function restore(transaction: StoreTransaction, build: BuildRow, { before }: RollbackRow): Promise<void> {
  const epoch = build.epoch + 1;
  const time = (iso: string | null): Date | null => (iso === null ? null : new Date(iso));
  for (const { id, deliveredAt, endedAt, ...wave } of before.waves) {
    await transaction.waves.update({ id }, { ...wave, deliveredAt: time(deliveredAt), endedAt: time(endedAt) });
  }
  for (const { id, endedAt, ...task } of before.tasks) {
    const { epoch: taskEpoch } = await transaction.tasks.get({ id });
    await transaction.tasks.update({ id }, { ...task, epoch: taskEpoch + 1, endedAt: time(endedAt) });
  }
  const { endedAt, ...rest } = before.build;
  await transaction.builds.update({ id: build.id }, { ...rest, epoch, endedAt: time(endedAt) });
  await eventsOf(transaction, { ...build, epoch }).rollbackUndone(before.build.headSha);
}
