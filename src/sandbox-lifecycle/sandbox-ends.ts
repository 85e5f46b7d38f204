import type { SandboxRow, StoreTransaction } from "../store/port.ts";
import type { LifecyclePorts } from "./port.ts";
import { bootSubject, emitSandboxEvent, presentStates } from "./sandbox-events.ts";

/**
 * Stops the compute of a sandbox, given the row as it was before it lost `running`, and emits the
 * event. The caller holds its lock.
 */
export async function finishStop(ports: LifecyclePorts, before: SandboxRow, reason: string): Promise<void> {
  await ports.driver(before.driver).stop(before.projectId);
  await ports.store.transaction("sandbox-stop", async (transaction) => {
    const { id, bootId } = before;
    const [stopped] = await transaction.sandboxes.update(
      { id, bootId, state: "stopped", stoppedAt: null },
      { stoppedAt: ports.clock.now() },
    );
    // Otherwise it was stopped already.
    if (stopped !== undefined) await emitStop(transaction, stopped, reason);
  });
}

/** Removes the sandbox, then updates its row. The caller holds its lock. */
export async function finishRemoval(
  ports: LifecyclePorts,
  row: SandboxRow,
  { volume, reason }: { volume: boolean; reason: string },
): Promise<void> {
  await ports.driver(row.driver).remove(row.projectId, { volume });
  await ports.store.transaction("sandbox-remove", async (transaction) => {
    const removed = { state: "removed", reason, removedAt: ports.clock.now() } as const;
    const [changed] = await transaction.sandboxes.update({ id: row.id, state: presentStates }, removed);
    if (changed !== undefined && row.state === "running") await emitStop(transaction, changed, reason);
  });
}

async function emitStop(transaction: StoreTransaction, row: SandboxRow, reason: string): Promise<void> {
  if (row.bootId === null) return; // It never ran.
  await emitSandboxEvent(transaction, row, { name: "sandbox/stopped", subject: bootSubject(row), facts: { reason } });
}
