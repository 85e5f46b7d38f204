import type { SandboxRow } from "../store/port.ts";
import type { LifecyclePorts } from "./port.ts";
import { finishRemoval, finishStop } from "./sandbox-ends.ts";
import { presentStates } from "./sandbox-events.ts";
import { withSandboxAlone, withVolumeAlone } from "./sandbox-locks.ts";

/**
 * Stops a project's sandbox and keeps its volume; returns when every process of it is gone. Waits
 * for a snapshot in progress. Safe to call twice.
 */
export async function stopSandbox(
  ports: LifecyclePorts,
  sandbox: SandboxRow,
  reason = "stopped on request",
): Promise<void> {
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
  ports: LifecyclePorts,
  sandbox: SandboxRow,
  { volume, reason = "removed on request" }: { volume: boolean; reason?: string },
): Promise<void> {
  await withAll(ports, sandbox.projectId, async () => {
    const row = await ports.store.sandboxes.get({ id: sandbox.id });
    await finishRemoval(ports, row, { volume, reason });
  });
}

async function withAll(ports: LifecyclePorts, projectId: string, work: () => Promise<void>): Promise<void> {
  await withVolumeAlone(ports, projectId, () => withSandboxAlone(ports, projectId, work));
}
