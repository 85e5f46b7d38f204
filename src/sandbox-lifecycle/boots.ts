import type { SandboxEndpoint } from "../sandbox/port.ts";
import type { SandboxRow } from "../store/port.ts";
import type { LifecyclePorts } from "./port.ts";
import { bootSubject, emitSandboxEvent, presentStates } from "./sandbox-events.ts";

/**
 * Records which boot of the sandbox runs, and reports its start and the end of the boot it
 * replaced.
 */
export async function recordBoot(
  ports: LifecyclePorts,
  row: SandboxRow,
  { bootId, wall }: Pick<SandboxEndpoint, "bootId" | "wall">,
): Promise<void> {
  await ports.store.transaction("sandbox-boot", async (transaction) => {
    const now = ports.clock.now();
    const before = await transaction.sandboxes.find({ id: row.id, bootId: row.bootId, state: presentStates });
    const running = { bootId, wall, state: "running", startedAt: now, usedAt: now, checkedAt: now } as const;
    const [started] = await transaction.sandboxes.update(
      { id: row.id, bootId: row.bootId, state: presentStates },
      { ...running, stoppedAt: null, reason: null },
    );
    if (before === null || started === undefined) return; // Another process has recorded it.
    // Read again, because a check in between may have reported its loss.
    if (before.state === "running" && before.bootId !== bootId) {
      const subject = bootSubject(before);
      await emitSandboxEvent(transaction, before, { name: "sandbox/stopped", subject, facts: { reason: "replaced" } });
    }
    await emitSandboxEvent(transaction, started, { name: "sandbox/started", subject: bootSubject(started), facts: {} });
  });
}

/**
 * Updates the row of a sandbox whose start was intended, after its starter crashed. The caller
 * holds its lock. Returns false when there is nothing to fix.
 */
export async function settleIntent(ports: LifecyclePorts, row: SandboxRow): Promise<boolean> {
  const present = await ports.store.sandboxes.find({ id: row.id, state: "wanted", checkedAt: row.checkedAt });
  if (present === null) return false;
  const found = await ports.driver(row.driver).find(row.projectId);
  if (found !== null) {
    // The process that started it crashed before recording it.
    await recordBoot(ports, present, found);
    return true;
  }
  const reason = present.reason ?? "not started: its process ended first";
  await ports.store.sandboxes.update({ id: row.id, state: "wanted" }, { state: "stopped", reason });
  return true;
}
