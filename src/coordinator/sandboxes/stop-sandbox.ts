import type { SandboxRow, StoreTransaction } from "../../store/port.ts";
import type { Ports } from "../port.ts";
import { bootSubject, presentStates, tellSandbox, withSandboxAlone, withVolumeAlone } from "./sandbox-events.ts";

/**
 * Stops a project's sandbox and keeps its volume; returns when every process of it is gone. Waits
 * for a snapshot in progress. Safe to call twice.
 */
export async function stopSandbox(ports: Ports, sandbox: SandboxRow, reason = "asked"): Promise<void> {
  await withAll(ports, sandbox.projectId, async () => {
    const row = await ports.store.sandboxes.find({ id: sandbox.id, state: presentStates });
    if (row === null) return;
    await ports.store.sandboxes.update({ id: row.id, state: ["wanted", "running"] }, { state: "stopped", reason });
    await finishStop(ports, row, reason);
  });
}

/**
 * Removes a project's sandbox, and its volume with `volume`. The repository outside stays. Safe to
 * call twice.
 */
export async function removeSandbox(
  ports: Ports,
  sandbox: SandboxRow,
  { volume, reason = "asked" }: { volume: boolean; reason?: string },
): Promise<void> {
  await withAll(ports, sandbox.projectId, async () => {
    const row = await ports.store.sandboxes.get({ id: sandbox.id });
    await finishRemoval(ports, row, { volume, reason });
  });
}

async function withAll(ports: Ports, projectId: string, work: () => Promise<void>): Promise<void> {
  await withVolumeAlone(ports, projectId, () => withSandboxAlone(ports, projectId, work));
}

/**
 * Stops the compute of a sandbox, given the row as it was before it lost `running`, and emits the
 * event. The caller holds its lock.
 */
export async function finishStop(ports: Ports, before: SandboxRow, reason: string): Promise<void> {
  await ports.driver(before.driver).stop(before.projectId);
  await ports.store.transaction("sandbox-stop", async (transaction) => {
    const { id, bootId } = before;
    const [stopped] = await transaction.sandboxes.update(
      { id, bootId, state: "stopped", stoppedAt: null },
      { stoppedAt: ports.clock.now() },
    );
    // Otherwise it was stopped already.
    if (stopped !== undefined) await tellStop(transaction, stopped, reason);
  });
}

/** Removes the sandbox, then updates its row. The caller holds its lock. */
export async function finishRemoval(
  ports: Ports,
  row: SandboxRow,
  { volume, reason }: { volume: boolean; reason: string },
): Promise<void> {
  await ports.driver(row.driver).remove(row.projectId, { volume });
  await ports.store.transaction("sandbox-remove", async (transaction) => {
    const removed = { state: "removed", reason, removedAt: ports.clock.now() } as const;
    const [changed] = await transaction.sandboxes.update({ id: row.id, state: presentStates }, removed);
    if (changed !== undefined && row.state === "running") await tellStop(transaction, changed, reason);
  });
}

async function tellStop(transaction: StoreTransaction, row: SandboxRow, reason: string): Promise<void> {
  if (row.bootId === null) return; // It never ran.
  await tellSandbox(transaction, row, { name: "sandbox/stopped", subject: bootSubject(row), facts: { reason } });
}
