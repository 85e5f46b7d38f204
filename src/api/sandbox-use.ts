import { createMask } from "../coordinator/masking/masking.ts";
import type { Ports } from "../coordinator/port.ts";
import { sleepPreviewsOf } from "../coordinator/preview/sleep-preview.ts";
import { WavesmithError } from "../domain/errors.ts";
import { mainRef } from "../domain/refs/ref-names.ts";
import { sandboxBuildStatuses } from "../domain/status.ts";
import type { SandboxEndpoint } from "../sandbox/port.ts";
import { ensureSandbox } from "../sandbox-lifecycle/ensure-sandbox.ts";
import { restoreSnapshot } from "../sandbox-lifecycle/snapshots/restore-snapshot.ts";
import { takeSnapshot } from "../sandbox-lifecycle/snapshots/snapshots.ts";
import { removeSandbox, stopSandbox } from "../sandbox-lifecycle/stop-sandbox.ts";
import type { SandboxRow, SnapshotRow } from "../store/port.ts";

// Requests for a project's sandbox, which the API and the commands serve with open ports.

const longestMs = 600_000;
const longestOutput = 4 * 1024 * 1024;

export const sandboxJson = ({ id, projectId, driver, state, reason, createdAt, startedAt, stoppedAt }: SandboxRow) => ({
  id,
  projectId,
  driver,
  state,
  reason,
  createdAt,
  startedAt,
  stoppedAt,
});

const snapshotJson = (row: SnapshotRow) => {
  const { id, projectId, sandboxId, state, reason, format, sizeBytes, sha256, error, createdAt, expiresAt } = row;
  return { id, projectId, sandboxId, state, reason, format, sizeBytes, sha256, error, createdAt, expiresAt };
};

/** The latest sandbox of a project, also one that was removed. Fails with `not-found`. */
async function sandboxOf({ store }: Ports, projectId: string): Promise<SandboxRow> {
  const row = await store.sandboxes.find({ projectId }, { by: "createdAt", descending: true });
  if (row !== null) return row;
  throw new WavesmithError("not-found", `project ${projectId} has no sandbox yet`, {
    remedy: "its first build makes one",
  });
}

/**
 * Starts a sandbox with the settings of its project's last build. One that did not run shows main
 * as it is now, which a rollback may have moved meanwhile. Fails with `not-found` without a build.
 */
export async function startSandbox(ports: Ports, { projectId, driver }: SandboxRow): Promise<SandboxEndpoint> {
  const before = await ports.driver(driver).find(projectId);
  const build = await ports.store.builds.find({ projectId }, { by: "position", descending: true });
  if (build === null) throw new WavesmithError("not-found", `no build of ${projectId} is known`);
  const endpoint = await ensureSandbox(ports, { ...build, sandboxDriver: driver });
  const main = before === null ? await ports.workspace.resolve(projectId, mainRef) : null;
  if (main !== null) await ports.workspace.syncVolume(projectId, endpoint.guest, main);
  return endpoint;
}

async function refuseWhileBuilding({ store }: Ports, projectId: string): Promise<void> {
  const build = await store.builds.find({ projectId, status: sandboxBuildStatuses });
  if (build === null) return;
  throw new WavesmithError("conflict", `build ${build.id} is not over, and its agents work in this sandbox`, {
    remedy: `wavesmith cancel ${build.id}`,
  });
}

export async function startProjectSandbox(ports: Ports, projectId: string) {
  await startSandbox(ports, await sandboxOf(ports, projectId));
  return sandboxJson(await sandboxOf(ports, projectId));
}

/**
 * Stops the sandbox and its preview; keeps the volume. Fails with `conflict` while a build runs.
 */
export async function stopProjectSandbox(ports: Ports, projectId: string) {
  await refuseWhileBuilding(ports, projectId);
  await stopSandbox(ports, await sandboxOf(ports, projectId));
  await sleepPreviewsOf(ports, projectId, "its project's sandbox was stopped");
  return sandboxJson(await sandboxOf(ports, projectId));
}

/** Removes the sandbox, and its volume if asked. Fails with `conflict` while a build runs. */
export async function removeProjectSandbox(ports: Ports, sandboxId: string, volume: boolean): Promise<void> {
  const row = await ports.store.sandboxes.find({ id: sandboxId });
  if (row === null) throw new WavesmithError("not-found", `there is no sandbox ${sandboxId}`);
  await refuseWhileBuilding(ports, row.projectId);
  await removeSandbox(ports, row, { volume });
  await sleepPreviewsOf(ports, row.projectId, "its project's sandbox was removed");
}

/** Runs a short command in the joined tree. Our own keys are masked in its output. */
export async function execInSandbox(ports: Ports, projectId: string, command: { argv: string[]; timeoutMs: number }) {
  const { guest } = await startSandbox(ports, await sandboxOf(ports, projectId));
  const timeoutMs = Math.min(command.timeoutMs, longestMs);
  const ended = await guest.exec({
    argv: command.argv,
    cwd: "repo",
    env: {},
    writable: ["repo"],
    timeoutMs,
    maxBytes: longestOutput,
  });
  const mask = createMask(ports.secrets.own());
  return { ...ended, stdout: mask(ended.stdout), stderr: mask(ended.stderr) };
}

export const snapshotProject = async (ports: Ports, projectId: string) =>
  snapshotJson(await takeSnapshot(ports, await sandboxOf(ports, projectId), { reason: "asked" }));

/** Replaces the volume with a snapshot, by default the latest kept one. Fails with `not-found`. */
export async function restoreProject(ports: Ports, projectId: string, snapshotId: string | undefined) {
  const which = snapshotId === undefined ? { projectId, state: "kept" as const } : { projectId, id: snapshotId };
  const row = await ports.store.snapshots.find(which, { by: "createdAt", descending: true });
  if (row === null) {
    throw new WavesmithError(
      "not-found",
      snapshotId === undefined ? "no snapshot is kept" : `no snapshot ${snapshotId}`,
    );
  }
  await restoreSnapshot(ports, row, { onProgress: () => undefined });
  return snapshotJson(row);
}
