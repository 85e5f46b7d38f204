import { WavesmithError } from "../../domain/errors.ts";
import { mainRef } from "../../domain/refs/build-refs.ts";
import type { BeforeRollback } from "../../domain/rollback.ts";
import { activeBuildStatuses } from "../../domain/status.ts";
import type { BuildRow, StoreTransaction, Tables, WaveRow } from "../../store/port.ts";
import { eventsOf } from "../build-events.ts";
import type { Ports } from "../port.ts";
import { clearPreviewOf, hidePreview, stopPreview } from "../preview/preview.ts";
import { showMain } from "./shown-main.ts";

// A rollback first saves main under a rescue ref, then sets later tasks back to pending and the
// build to `waiting`. It is refused if main has moved past this build. Wave numbers are never
// reused.

const reason = "the build was rolled back";
const notLive = ["completed", "failed", "cancelled", "waiting"];

/** Moves main back to a restore point; 0 is where the build began. Repeating it changes nothing. */
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
    // A preview may have started meanwhile; after this commit, rolled-back waves show none.
    await hidePreview(transaction, buildId, reason);
  });
  await clearPreviewOf(ports, buildId, reason);
  await showMain(ports, build, point.sha);
}

/** Fails if another build runs. Checked before main moves, and again under the project's lock. */
async function refuseBesideAnother({ builds }: Pick<Tables, "builds">, build: BuildRow): Promise<void> {
  const other = await builds.find({ projectId: build.projectId, status: activeBuildStatuses });
  if (other !== null && other.id !== build.id) throw busyProject(build.id, other.id);
}

const noSuchPoint = (buildId: string, waveNumber: number): WavesmithError =>
  new WavesmithError("not-found", `build ${buildId} has no restore point ${waveNumber}`, {
    remedy: `wavesmith status ${buildId} lists its passed waves`,
  });

/** The error for a wave that an earlier rollback undid, because its tasks are pending again. */
const takenBackBefore = (buildId: string, waveNumber: number): WavesmithError =>
  new WavesmithError(
    "conflict",
    `wave ${waveNumber} of build ${buildId} was already rolled back: its tasks are pending again`,
    {
      remedy: `run its tasks again: wavesmith resume ${buildId}`,
    },
  );

const busyProject = (buildId: string, other: string): WavesmithError =>
  new WavesmithError(
    "conflict",
    `build ${buildId} cannot be rolled back: build ${other} of the same project has not ended`,
    {
      remedy: `wavesmith cancel ${other}`,
    },
  );

async function moveMainBack(ports: Ports, build: BuildRow, to: string): Promise<void> {
  const projectId = build.projectId;
  const main = await ports.workspace.resolve(projectId, mainRef);
  if (main === to) return;
  // Main has yet to reach a base that took in a source: nothing of the build is on it.
  if (main !== null && (await ports.workspace.isAncestor(projectId, main, to))) return;
  const points = await ports.store.restorePoints.list({ buildId: build.id });
  if (main === null || !points.some((point) => point.sha === main)) {
    throw new WavesmithError(
      "conflict",
      `main is at ${main?.slice(0, 12)}, past build ${build.id}: it cannot be rolled back`,
      {
        remedy: `look at it: git -C ${ports.workspace.repositoryPath(projectId)} log main`,
      },
    );
  }
  await ports.workspace.moveRef(projectId, `refs/rescue/${build.id}/${main}`, main, null);
  if (!(await ports.workspace.moveRef(projectId, mainRef, to, main))) {
    throw new WavesmithError("conflict", "main moved during the rollback", {
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
  const epoch = build.epoch + 1;
  const before = await stateOf(transaction, build, later);
  const delivered = waves.findLast((wave) => wave.status === "passed" && wave.deliveredAt !== null);
  const fromSha = delivered?.headSha ?? null;
  await transaction.rollbacks.insertIfAbsent({ buildId: build.id, epoch, fromSha, toSha: sha, before });
  for (const wave of later) await closeWave(transaction, ports, wave, waveNumber);
  const reason = `rolled back to wave ${waveNumber}`;
  await transaction.builds.update({ id: build.id }, { status: "waiting", headSha: sha, epoch, reason, endedAt: null });
  await eventsOf(transaction, { ...build, epoch }).rolledBack(waveNumber, sha);
}

/** The state that the rollback is about to change, so that it can be undone. */
async function stateOf(
  transaction: StoreTransaction,
  { status, reason, headSha, endedAt }: BuildRow,
  waves: readonly WaveRow[],
): Promise<BeforeRollback> {
  const tasks = await transaction.tasks.list({ waveId: waves.map((wave) => wave.id) });
  const iso = (time: Date | null): string | null => time?.toISOString() ?? null;
  return {
    build: { status, reason, headSha, endedAt: iso(endedAt) },
    waves: waves.map((wave) => ({
      id: wave.id,
      status: wave.status,
      reason: wave.reason,
      deliveredAt: iso(wave.deliveredAt),
      endedAt: iso(wave.endedAt),
    })),
    tasks: tasks.map((task) => ({
      id: task.id,
      status: task.status,
      commitSha: task.commitSha,
      retriesUsed: task.retriesUsed,
      losses: task.losses,
      reason: task.reason,
      endedAt: iso(task.endedAt),
    })),
  };
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
