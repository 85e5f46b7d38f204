import { WavesmithError } from "../../domain/errors.ts";
import { sandboxBuildStatuses } from "../../domain/status.ts";
import type { BuildRow, WaveRow } from "../../store/port.ts";
import { emitEnd, emitFor } from "../build-events.ts";
import { previewIsDue } from "../gate/gate-due.ts";
import { mainRef, restoreRef, waveRef } from "../names.ts";
import { advance, promoteNext } from "../next/advance.ts";
import type { Ports } from "../port.ts";
import { ensureSandbox } from "../sandboxes/sandboxes.ts";

// W3. A wave's row saying `passed` with a SHA is the truth; what happens here projects it and may
// be repeated.

interface Passed {
  readonly wave: WaveRow;
  readonly build: BuildRow;
  readonly sha: string;
}

async function loadPassed(ports: Ports, buildId: string, waveNumber: number): Promise<Passed | null> {
  const wave = await ports.store.waves.get({ buildId, number: waveNumber });
  if (wave.status !== "passed" || wave.deliveredAt !== null || wave.headSha === null) return null;
  return { wave, build: await ports.store.builds.get({ id: wave.buildId }), sha: wave.headSha };
}

/** Fast-forwards main to the passed wave and puts the restore point on it. */
export async function moveMain(ports: Ports, buildId: string, waveNumber: number): Promise<void> {
  const passed = await loadPassed(ports, buildId, waveNumber);
  if (passed === null) return;
  const { wave, build, sha } = passed;
  const projectId = build.projectId;
  const main = await ports.workspace.resolve(projectId, mainRef);
  const forward = main === null || (await ports.workspace.isAncestor(projectId, main, sha));
  const done = main !== null && (await ports.workspace.isAncestor(projectId, sha, main));
  if (!forward && !done) throw mainMoved(ports, passed, main!);
  if (!done && !(await ports.workspace.moveRef(projectId, mainRef, sha, main))) throw mainMoved(ports, passed, main!);
  const tag = restoreRef(build.id, wave.number);
  await ports.workspace.moveRef(projectId, tag, sha, await ports.workspace.resolve(projectId, tag));
}

function mainMoved(ports: Ports, { wave, build, sha }: Passed, main: string): WavesmithError {
  const repository = ports.workspace.repositoryPath(build.projectId);
  return new WavesmithError(
    "conflict",
    `main of ${repository} was moved to ${main.slice(0, 12)} by somebody else, so wave ${wave.number} (${sha.slice(0, 12)}) cannot be put on it`,
    { remedy: `merge main into ${waveRef(build.id, wave.number)} there, then: wavesmith retry ${build.id}` },
  );
}

/** Brings the joined tree on the volume to the passed wave. */
export async function refreshJoinedTree(ports: Ports, buildId: string, waveNumber: number): Promise<void> {
  const passed = await loadPassed(ports, buildId, waveNumber);
  if (passed === null) return;
  const { guest } = await ensureSandbox(ports, passed.build);
  await ports.workspace.syncVolume(passed.build.projectId, guest, passed.sha);
}

/** Records the delivery, asks for the preview and for what follows. */
export async function finishDelivery(ports: Ports, buildId: string, waveNumber: number): Promise<void> {
  await ports.store.transaction("deliver-wave", async (transaction) => {
    const build = await transaction.lockBuild(buildId);
    const [wave] = await transaction.waves.update(
      { buildId, number: waveNumber, status: "passed", deliveredAt: null },
      { deliveredAt: ports.clock.now() },
    );
    if (wave === undefined) return;
    await transaction.restorePoints.insertIfAbsent({ buildId, waveNumber: wave.number, sha: wave.headSha! });
    const tasks = await transaction.tasks.list({ buildId }, { by: "position" });
    if (previewIsDue(build, tasks) && build.status === "running") {
      await emitFor(transaction, build, "agent/preview.deploy", wave.id, wave.epoch, {
        waveNumber: wave.number,
        sha: wave.headSha!,
      });
    }
    await advance(transaction, ports, buildId);
  });
}

/**
 * Ends a build whose delivery cannot be done; its wave stays passed, and `retry` delivers it.
 * Changes nothing when somebody has delivered the wave meanwhile: the build may have work of the
 * next one going on.
 */
export async function failDelivery(ports: Ports, buildId: string, waveNumber: number, reason: string): Promise<void> {
  await ports.store.transaction("fail-delivery", async (transaction) => {
    const build = await transaction.lockBuild(buildId);
    const wave = await transaction.waves.get({ buildId, number: waveNumber });
    if (wave.status !== "passed" || wave.deliveredAt !== null) return;
    const status = build.status === "cancelling" ? "cancelled" : "failed";
    const [failed] = await transaction.builds.update(
      { id: buildId, status: sandboxBuildStatuses },
      { status, reason, endedAt: ports.clock.now() },
    );
    if (failed === undefined) return;
    await emitEnd(transaction, build, status, reason);
    await promoteNext(transaction, ports, build.projectId);
  });
}
