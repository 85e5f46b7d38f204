import { createMask } from "../coordinator/masking/masking.ts";
import type { Ports } from "../coordinator/port.ts";
import { sleepPreviewsOf } from "../coordinator/preview/sleep-preview.ts";
import { WavesmithError } from "../domain/errors.ts";
import type { ProjectId } from "../domain/ids.ts";
import { mainRef } from "../domain/refs/build-refs.ts";
import type { SandboxEndpoint } from "../sandbox/port.ts";
import { ensureSandbox } from "../sandbox-lifecycle/ensure-sandbox.ts";
import { refuseWhileBuilding } from "../sandbox-lifecycle/sandbox-in-use.ts";
import { removeSandbox, stopSandbox } from "../sandbox-lifecycle/stop-sandbox.ts";
import type { SandboxRow, SnapshotRow } from "../store/port.ts";

// Requests for a project's sandbox, which the API and the commands serve with open ports.

const longestMs = 600_000;
const longestOutput = 4 * 1024 * 1024;

/** A sandbox as JSON. */
export const sandboxJson = ({ createdAt, startedAt, stoppedAt, ...row }: SandboxRow) => {
  const { id, projectId, driver, state, reason } = row;
  const times = { startedAt: startedAt?.toISOString() ?? null, stoppedAt: stoppedAt?.toISOString() ?? null };
  return { ...{ id, projectId, driver, state, reason, createdAt: createdAt.toISOString() }, ...times };
};

/** A snapshot as JSON; `project` is the name of its project. */
export const snapshotJson = (row: SnapshotRow, project: string) => {
  const { id, projectId, sandboxId, state, reason, format, sizeBytes, sha256, error } = row;
  const [createdAt, expiresAt] = [row.createdAt.toISOString(), row.expiresAt.toISOString()];
  return { id, project, projectId, sandboxId, state, reason, format, sizeBytes, sha256, error, createdAt, expiresAt };
};

/** Finds the latest sandbox of a project, even a removed one. Fails with `not-found`. */
export async function latestSandbox({ store }: Ports, projectId: string): Promise<SandboxRow> {
  const row = await store.sandboxes.find({ projectId }, { by: "createdAt", descending: true });
  if (row !== null) return row;
  throw new WavesmithError("not-found", `project ${projectId} has no sandbox yet`, {
    remedy: "its first build makes one",
  });
}

/**
 * Starts a sandbox with the settings of its project's last build. If it was not running, it shows
 * main as it is now, because a rollback may have moved it. Fails with `not-found` without a build.
 */
export async function startSandbox(
  ports: Ports,
  { projectId, driver }: Pick<SandboxRow, "projectId" | "driver">,
): Promise<SandboxEndpoint> {
  const before = await ports.driver(driver).find(projectId);
  const build = await ports.store.builds.find({ projectId }, { by: "position", descending: true });
  if (build === null) throw new WavesmithError("not-found", `no build of ${projectId} is known`);
  const endpoint = await ensureSandbox(ports, { ...build, sandboxDriver: driver });
  const main = before === null ? await ports.workspace.resolve(projectId, mainRef) : null;
  if (main !== null) await ports.workspace.syncVolume(projectId, endpoint.guest, main);
  return endpoint;
}

/**
 * Makes the sandbox of a project, or starts the one it has, with the settings of its last build.
 * Fails with `not-found` without a build.
 */
export async function openSandbox(ports: Ports, projectId: ProjectId): Promise<SandboxRow> {
  const build = await ports.store.builds.find({ projectId }, { by: "position", descending: true });
  if (build === null)
    throw new WavesmithError("not-found", `project ${projectId} has no build yet`, {
      remedy: "its first build decides the sandbox's driver and network, and makes it",
    });
  await startSandbox(ports, { projectId, driver: build.sandboxDriver });
  return latestSandbox(ports, projectId);
}

/**
 * Stops the sandbox and its preview; keeps the volume. Fails with `conflict` while a build runs.
 */
export async function stopUnusedSandbox(ports: Ports, row: SandboxRow): Promise<void> {
  await refuseWhileBuilding(ports.store, row.projectId);
  await stopSandbox(ports, row);
  await sleepPreviewsOf(ports, row.projectId, "its project's sandbox was stopped");
}

/** Removes the sandbox, and its volume if asked. Fails with `conflict` while a build runs. */
export async function removeUnusedSandbox(ports: Ports, row: SandboxRow, options: { volume: boolean }): Promise<void> {
  await refuseWhileBuilding(ports.store, row.projectId);
  await removeSandbox(ports, row, options);
  await sleepPreviewsOf(ports, row.projectId, "its project's sandbox was removed");
}

/** Runs a short command in the joined tree. Our own keys are masked in its output. */
export async function execInSandbox(ports: Ports, row: SandboxRow, command: { argv: string[]; timeoutMs: number }) {
  const { guest } = await startSandbox(ports, row);
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

/**
 * Finds the snapshot of a project to restore, by default the latest kept one. Fails with
 * `not-found`.
 */
export async function chooseSnapshot(
  { store }: Pick<Ports, "store">,
  { id: projectId, name }: { readonly id: string; readonly name: string },
  snapshotId: string | undefined,
): Promise<SnapshotRow> {
  const which = snapshotId === undefined ? { projectId, state: "kept" as const } : { projectId, id: snapshotId };
  const row = await store.snapshots.find(which, { by: "createdAt", descending: true });
  if (row !== null) return row;
  const what = snapshotId === undefined ? `no snapshot of ${name} is kept` : `${name} has no snapshot ${snapshotId}`;
  throw new WavesmithError("not-found", what, { remedy: "see wavesmith sandbox snapshot --list" });
}
