import { WavesmithError } from "../../domain/errors.ts";
import { present } from "../../domain/known.ts";
import { mainRef, restoreRef, waveRef } from "../../domain/refs/build-refs.ts";
import { sandboxBuildStatuses } from "../../domain/status.ts";
import { ensureSandbox } from "../../sandbox-lifecycle/ensure-sandbox.ts";
import type { BuildRow, WaveRow } from "../../store/port.ts";
import { tasksOfBuild } from "../../store/queries/tasks.ts";
import { eventsOf } from "../build-events.ts";
import { recordPullRequest } from "../forge/pull-request.ts";
import { previewIsDue } from "../gate/gate-due.ts";
import { advance, promoteNext } from "../next/advance.ts";
import type { Ports } from "../port.ts";

// W3. The wave's row, `passed` with a SHA, is the source of truth. Delivery projects it and can be
// repeated.

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

/** Fast-forwards main to the passed wave and tags its restore point. */
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
    `main of ${repository} was moved to ${main.slice(0, 12)} by someone else, so wave ${wave.number} (${sha.slice(0, 12)}) cannot be delivered to it`,
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

/** Records the delivery, and requests the preview and the next move. */
export async function finishDelivery(ports: Ports, buildId: string, waveNumber: number): Promise<void> {
  await ports.store.transaction("deliver-wave", async (transaction) => {
    const build = await transaction.lockBuild(buildId);
    const [wave] = await transaction.waves.update(
      { buildId, number: waveNumber, status: "passed", deliveredAt: null },
      { deliveredAt: ports.clock.now() },
    );
    if (wave === undefined) return;
    await transaction.restorePoints.insertIfAbsent({
      buildId,
      waveNumber: wave.number,
      sha: present(wave.headSha, "wave.headSha"),
    });
    const tasks = await tasksOfBuild(transaction, buildId);
    if (previewIsDue(build, tasks) && build.status === "running") {
      const preview = { waveNumber: wave.number, sha: present(wave.headSha, "wave.headSha") };
      await eventsOf(transaction, build).deployPreview(preview, wave.id, wave.epoch);
    }
    await recordPullRequest({ transaction, clock: ports.clock }, build, wave);
    await advance(transaction, ports, buildId);
  });
}

/**
 * Fails a build whose delivery failed; its wave stays passed, and `retry` delivers it. Does nothing
 * if another process has delivered the wave, because the next wave may be running.
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
    await eventsOf(transaction, build).buildEnded(status, reason);
    await promoteNext(transaction, ports, build.projectId);
  });
}
