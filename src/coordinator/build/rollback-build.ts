import { WavesmithError } from "../../domain/errors.ts";
import { activeBuildStatuses } from "../../domain/status.ts";
import type { BuildRow, StoreTransaction, Tables, WaveRow } from "../../store/port.ts";
import { emitFor } from "../build-events.ts";
import { mainRef } from "../names.ts";
import type { Ports } from "../port.ts";
import { clearPreviewOf, hidePreview, stopPreview } from "../preview/preview.ts";

// Rollback takes a rescue ref first, is refused when main has moved past this build, puts later
// tasks back to pending and the build to `waiting`. Wave numbers are never used again.

const reason = "the build was rolled back";
const notLive = ["completed", "failed", "cancelled", "waiting"];

/**
 * Takes main back to a restore point (0: where the build began). Doing it again changes nothing.
 */
export async function rollbackBuild(ports: Ports, buildId: string, waveNumber: number): Promise<void> {
  const build = await ports.store.builds.get({ id: buildId });
  const point = await ports.store.restorePoints.find({ buildId, waveNumber });
  if (point === null) throw noSuchPoint(buildId, waveNumber);
  const wave = waveNumber === 0 ? null : await ports.store.waves.get({ buildId, number: waveNumber });
  if (wave !== null && wave.status !== "passed") throw takenBackBefore(buildId, waveNumber);
  if (!notLive.includes(build.status)) {
    throw new WavesmithError(
      "conflict",
      `build ${buildId} is ${build.status}: it cannot be rolled back while it runs`,
      {
        remedy: `wavesmith cancel ${buildId}`,
      },
    );
  }
  await refuseBesideAnother(ports.store, build);
  await stopPreview(ports, buildId, reason);
  await moveMainBack(ports, build, point.sha);
  await ports.store.transaction("rollback-build", async (transaction) => {
    await transaction.lockProject(build.projectId);
    const present = await transaction.lockBuild(buildId);
    await refuseBesideAnother(transaction, build);
    await takeBack(transaction, ports, present, waveNumber, point.sha);
    // It may have been started since: after this commit none of a wave that was taken back is.
    await hidePreview(transaction, buildId, reason);
  });
  await clearPreviewOf(ports, buildId, reason);
}

/** Asked before main moves, and again under the lock under which another build would begin. */
async function refuseBesideAnother({ builds }: Pick<Tables, "builds">, build: BuildRow): Promise<void> {
  const other = await builds.find({ projectId: build.projectId, status: activeBuildStatuses });
  if (other !== null && other.id !== build.id) throw busyProject(build.id, other.id);
}

const noSuchPoint = (buildId: string, waveNumber: number): WavesmithError =>
  new WavesmithError("not-found", `build ${buildId} has no restore point ${waveNumber}`, {
    remedy: `wavesmith status ${buildId} lists its passed waves`,
  });

/** Its tasks are pending again: main with their work would be ahead of them. */
const takenBackBefore = (buildId: string, waveNumber: number): WavesmithError =>
  new WavesmithError(
    "conflict",
    `wave ${waveNumber} of build ${buildId} was taken back before: there is no way forward to it`,
    {
      remedy: `its tasks are done again: wavesmith resume ${buildId}`,
    },
  );

const busyProject = (buildId: string, other: string): WavesmithError =>
  new WavesmithError(
    "conflict",
    `build ${buildId} cannot be rolled back: build ${other} of the same project is not over`,
    {
      remedy: `wavesmith cancel ${other}`,
    },
  );

async function moveMainBack(ports: Ports, build: BuildRow, to: string): Promise<void> {
  const projectId = build.projectId;
  const main = await ports.workspace.resolve(projectId, mainRef);
  if (main === to) return;
  const points = await ports.store.restorePoints.list({ buildId: build.id });
  if (main === null || !points.some((point) => point.sha === main)) {
    throw new WavesmithError(
      "conflict",
      `main is at ${main?.slice(0, 12)}, past build ${build.id}: it is not taken back`,
      {
        remedy: `look at it: git -C ${ports.workspace.repositoryPath(projectId)} log main`,
      },
    );
  }
  await ports.workspace.moveRef(projectId, `refs/rescue/${build.id}/${main}`, main, null);
  if (!(await ports.workspace.moveRef(projectId, mainRef, to, main))) {
    throw new WavesmithError("conflict", "main moved while it was taken back", {
      retryable: true,
      remedy: "try again",
    });
  }
}

async function takeBack(
  transaction: StoreTransaction,
  ports: Ports,
  build: BuildRow,
  waveNumber: number,
  sha: string,
): Promise<void> {
  const waves = await transaction.waves.list({ buildId: build.id }, { by: "number" });
  const later = waves.filter((wave) => wave.number > waveNumber);
  if (build.status === "waiting" && build.headSha === sha && later.every((wave) => wave.status === "cancelled")) return;
  for (const wave of later) await closeWave(transaction, ports, wave, waveNumber);
  const epoch = build.epoch + 1;
  const reason = `rolled back to wave ${waveNumber}`;
  await transaction.builds.update({ id: build.id }, { status: "waiting", headSha: sha, epoch, reason, endedAt: null });
  await emitFor(transaction, build, "project/build.rolled-back", build.id, epoch, { waveNumber, sha });
}

async function closeWave(transaction: StoreTransaction, ports: Ports, wave: WaveRow, to: number): Promise<void> {
  const reason = `rolled back to wave ${to}`;
  await transaction.waves.update(
    { id: wave.id },
    { status: "cancelled", reason, deliveredAt: null, endedAt: wave.endedAt ?? ports.clock.now() },
  );
  for (const task of await transaction.tasks.list({ waveId: wave.id })) {
    if (task.status === "removed") continue;
    await transaction.tasks.update(
      { id: task.id },
      { status: "pending", epoch: task.epoch + 1, commitSha: null, retriesUsed: 0, losses: 0, reason, endedAt: null },
    );
  }
}
