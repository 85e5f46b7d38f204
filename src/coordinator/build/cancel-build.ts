import type { BuildRow, StoreTransaction } from "../../store/port.ts";
import { emitFor } from "../build-events.ts";
import { abandonGate } from "../gate/gate-run.ts";
import { advance } from "../next/advance.ts";
import type { Ports } from "../port.ts";

// W13. Cancel is a row going running → cancelling that fences every verb but keeping work,
// confirming stops and delivering a wave already `passed`; `cancelled` follows the last of these.

/** Asks for the end of a build. False when it has ended already. */
export async function requestCancel(ports: Ports, buildId: string, reason: string): Promise<boolean> {
  return ports.store.transaction("request-cancel", async (transaction) => {
    const build = await transaction.lockBuild(buildId);
    if (build.status === "cancelling") return true;
    if (!["queued", "running", "waiting"].includes(build.status)) return false;
    if (build.status === "queued") {
      await cancelQueued(transaction, ports, build, reason);
      return true;
    }
    await transaction.builds.update({ id: buildId }, { status: "cancelling", reason });
    await settleUnstarted(transaction, ports, buildId);
    await emitFor(transaction, build, "project/build.cancel-requested", build.id, build.epoch, { reason });
    await advance(transaction, ports, buildId);
    return true;
  });
}

/**
 * Takes an event that asks for the end of a build. One of our own is the echo of a request that
 * stands in the build's row already, and may come late, when the build runs again.
 */
export async function takeCancelRequest(
  ports: Ports,
  eventId: string,
  { buildId, reason }: { buildId: string; reason?: string | undefined },
): Promise<void> {
  if ((await ports.store.outbox.find({ eventId, buildId })) !== null) return;
  await requestCancel(ports, buildId, reason ?? "cancelled by an event");
}

async function cancelQueued(
  transaction: StoreTransaction,
  ports: Ports,
  build: BuildRow,
  reason: string,
): Promise<void> {
  const now = ports.clock.now();
  await transaction.builds.update({ id: build.id }, { status: "cancelled", reason, endedAt: now });
  await transaction.tasks.update({ buildId: build.id }, { status: "cancelled", endedAt: now });
  await emitFor(transaction, build, "project/build.cancelled", build.id, build.epoch, {});
}

/**
 * What was asked for and never started is over at once; its fence is raised, so that a late start
 * finds it closed.
 */
async function settleUnstarted(transaction: StoreTransaction, ports: Ports, buildId: string): Promise<void> {
  const settled = await transaction.attempts.update(
    { buildId, status: "requested" },
    { status: "settled", outcome: "cancelled", reason: "cancelled before it started", endedAt: ports.clock.now() },
  );
  const taskIds = settled.flatMap((attempt) => attempt.taskId ?? []);
  await transaction.tasks.update({ id: taskIds }, { status: "cancelled" });
  for (const run of await transaction.gateRuns.list({ buildId, status: "requested" })) {
    await abandonGate(transaction, ports, run.id);
  }
}
