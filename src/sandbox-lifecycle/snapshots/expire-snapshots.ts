import { messageOf } from "../../domain/errors.ts";
import type { LifecyclePorts } from "../port.ts";
import { failSnapshot, writingLock } from "./snapshots.ts";

/**
 * Removes expired snapshots, fails those whose writer crashed, and removes bytes that their row
 * does not count on. Leaves bytes without a row. Safe to run twice at once.
 */
export async function expireSnapshots(ports: LifecyclePorts): Promise<{ expired: string[]; failed: string[] }> {
  const failed = await failAbandoned(ports);
  const expired: string[] = [];
  const now = ports.clock.now();
  for (const { id, expiresAt } of await ports.store.snapshots.list({ state: "kept" }, { by: "expiresAt" })) {
    if (expiresAt > now) break;
    const [removed] = await ports.store.snapshots.update({ id, state: "kept" }, { state: "removed" });
    if (removed !== undefined) expired.push(id);
  }
  await clearAway(ports);
  return { expired, failed };
}

async function failAbandoned(ports: LifecyclePorts): Promise<string[]> {
  const failed: string[] = [];
  for (const { id } of await ports.store.snapshots.list({ state: "writing" })) {
    const fail = () => failSnapshot(ports, id, "its process ended before it was complete").then(() => true);
    if (await ports.store.alone(writingLock(id), fail, { wait: false })) failed.push(id);
  }
  return failed;
}

/** Also removes what a process left that crashed between the row and the bytes. */
async function clearAway(ports: LifecyclePorts): Promise<void> {
  const there = await ports.snapshots.list();
  if (there.length === 0) return;
  const ids = there.map(({ snapshotId }) => snapshotId);
  const over = await ports.store.snapshots.list({ id: ids, state: ["failed", "removed"] });
  for (const { id } of over)
    await ports.snapshots
      .remove(id)
      .catch((error: unknown) => ports.log.warn(`snapshot ${id} could not be removed: ${messageOf(error)}`));
}
