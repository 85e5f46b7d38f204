import type { Readable } from "node:stream";
import { WavesmithError } from "../../domain/errors.ts";
import { present } from "../../domain/known.ts";
import type { SandboxRow, SnapshotRow, StoreTransaction } from "../../store/port.ts";
import type { LifecyclePorts } from "../port.ts";
import { bootSubject, emitSandboxEvent, presentStates } from "../sandbox-events.ts";
import { refuseWhileBuilding } from "../sandbox-in-use.ts";
import { withSandboxAlone, withVolumeAlone } from "../sandbox-locks.ts";
import { countBytes } from "./counted-stream.ts";

export interface RestoreOptions {
  /** Gets the number of bytes read so far, first for the check, then for unpacking. */
  readonly onProgress?: (what: "checking" | "unpacking", bytes: number) => void;
}

/**
 * Replaces the project's volume with a kept snapshot. The sandbox stops, and its next use starts
 * it. Fails with `conflict` while a build or a job is running, and with `archive` when the checksum
 * differs; a failure changes nothing.
 */
export async function restoreSnapshot(
  ports: LifecyclePorts,
  snapshot: SnapshotRow,
  options: RestoreOptions = {},
): Promise<void> {
  if (snapshot.state !== "kept" || snapshot.sha256 === null) throw notKept(snapshot);
  const { projectId } = snapshot;
  await refuseWhileBuilding(ports.store, projectId);
  const checked = countBytes(await open(ports, snapshot), (bytes) => options.onProgress?.("checking", bytes));
  for await (const _ of checked); // Fails at the end when the checksum differs.
  await withVolumeAlone(ports, projectId, () =>
    withSandboxAlone(ports, projectId, () => restoreAlone(ports, snapshot, options)),
  );
}

const notKept = ({ id, state }: SnapshotRow): WavesmithError =>
  new WavesmithError("not-found", `snapshot ${id} is ${state} and cannot be restored`, {
    remedy: "use one that is kept: wavesmith sandbox snapshot --list",
  });

const open = (ports: LifecyclePorts, { id, format, sha256 }: SnapshotRow): Promise<Readable> =>
  ports.snapshots.get(id, format, present(sha256, "its checksum"));

async function restoreAlone(
  ports: LifecyclePorts,
  snapshot: SnapshotRow,
  { onProgress }: RestoreOptions,
): Promise<void> {
  const row = await takeRunningState(ports, snapshot);
  try {
    await refuseAtWork(ports, row);
    const archive = countBytes(await open(ports, snapshot), (bytes) => onProgress?.("unpacking", bytes));
    // Its next start has today's limits.
    const how = { format: snapshot.format, maxBytes: ports.sandboxPolicy.limits.diskBytes };
    await ports.driver(row.driver).restore(snapshot.projectId, archive, how);
  } catch (error) {
    await restoreState(ports, row);
    throw error;
  }
  await recordRestore(ports, snapshot, row);
}

/** Returns the project's current or last sandbox; from now on no row calls it running (SL1). */
async function takeRunningState(ports: LifecyclePorts, snapshot: SnapshotRow): Promise<SandboxRow> {
  return ports.store.transaction("sandbox-restore", async (transaction) => {
    await transaction.lockProject(snapshot.projectId);
    await refuseWhileBuilding(transaction, snapshot.projectId);
    const present = await transaction.sandboxes.find({ projectId: snapshot.projectId, state: presentStates });
    if (present === null) return transaction.sandboxes.get({ id: snapshot.sandboxId });
    if (present.state === "running")
      await transaction.sandboxes.update({ id: present.id }, { state: "stopped", reason: "restored" });
    return present;
  });
}

async function refuseAtWork(ports: LifecyclePorts, row: SandboxRow): Promise<void> {
  const endpoint = await ports.driver(row.driver).find(row.projectId);
  const activeJobs = endpoint === null ? 0 : (await endpoint.guest.health()).activeJobs;
  if (activeJobs === 0) return;
  throw new WavesmithError(
    "conflict",
    `${activeJobs} jobs are running in sandbox ${row.id}: a preview, a shell or a command`,
    {
      remedy: `end them, or stop the sandbox: wavesmith sandbox stop ${row.projectId}`,
    },
  );
}

/** Corrects the row. */
async function restoreState(ports: LifecyclePorts, row: SandboxRow): Promise<void> {
  if (row.state !== "running") return;
  const { id, bootId, reason } = row;
  const found = await ports.driver(row.driver).find(row.projectId);
  if (found?.bootId === bootId) {
    await ports.store.sandboxes.update({ id, bootId, state: "stopped" }, { state: "running", reason });
    return;
  }
  await ports.store.transaction("sandbox-stop", (transaction) => confirmStop(transaction, ports, row));
}

async function confirmStop(transaction: StoreTransaction, ports: LifecyclePorts, row: SandboxRow): Promise<void> {
  const { id, bootId } = row;
  const now = ports.clock.now();
  const [stopped] = await transaction.sandboxes.update(
    { id, bootId, state: "stopped", stoppedAt: null },
    { stoppedAt: now },
  );
  if (stopped === undefined) return;
  const facts = { reason: "restored" };
  await emitSandboxEvent(transaction, stopped, { name: "sandbox/stopped", subject: bootSubject(stopped), facts });
}

async function recordRestore(ports: LifecyclePorts, { id: snapshotId }: SnapshotRow, row: SandboxRow): Promise<void> {
  await ports.store.transaction("sandbox-restored", async (transaction) => {
    if (row.state === "running") await confirmStop(transaction, ports, row);
    // The same snapshot may be restored repeatedly.
    const subject = `${row.id}/${snapshotId}/${ports.clock.now().getTime()}`;
    await emitSandboxEvent(transaction, row, { name: "sandbox/restored", subject, facts: { snapshotId } });
  });
}
