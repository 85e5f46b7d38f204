import type { SandboxRow } from "../store/port.ts";
import type { LifecyclePorts } from "./port.ts";
import { bootSubject, emitSandboxEvent } from "./sandbox-events.ts";

/** Returns why a sandbox is gone, as far as its driver knows. */
export async function whyGone(ports: LifecyclePorts, row: SandboxRow): Promise<string> {
  const info = (await ports.driver(row.driver).list()).find(({ projectId }) => projectId === row.projectId);
  if (info === undefined || info.state === "removed") return "removed";
  if (info.state === "running") return info.sandboxId === row.id ? "started again by somebody else" : "replaced";
  return info.outOfMemory ? "out of memory" : "ended";
}

/**
 * Records and reports that a boot of a sandbox ended by itself. Returns false when another process
 * was quicker.
 */
export async function noteLoss(ports: LifecyclePorts, row: SandboxRow, reason: string): Promise<boolean> {
  return ports.store.transaction("sandbox-lost", async (transaction) => {
    const [lost] = await transaction.sandboxes.update(
      { id: row.id, bootId: row.bootId, state: "running" },
      { state: "lost", reason, stoppedAt: ports.clock.now() },
    );
    if (lost === undefined) return false;
    await emitSandboxEvent(transaction, lost, { name: "sandbox/lost", subject: bootSubject(lost), facts: { reason } });
    return true;
  });
}
