import type { BuildRow, StoreTransaction } from "../../../store/port.ts";
import { eventsOf } from "../../build-events.ts";
import { abandonGate } from "../../gate/gate-run.ts";
import { advance } from "../../next/advance.ts";
import { findNote, insertNote } from "../../outside/origin-note.ts";
import type { Ports } from "../../port.ts";

// W13. A cancel sets the row to `cancelling`, which stops every operation except keeping work,
// confirming stops and delivering a wave that has already passed. After the last of these comes
// `cancelled`.

/**
 * Requests a build's cancellation. Returns false if it has already ended, or has started and was to
 * be cancelled only `unlessStarted`. A repetition with the same `origin` requests nothing again
 * (OG1).
 */
export async function requestCancel(
  ports: Ports,
  buildId: string,
  reason: string,
  { unlessStarted = false, origin }: { unlessStarted?: boolean; origin?: string } = {},
): Promise<boolean> {
  return ports.store.transaction("request-cancel", async (transaction) => {
    const build = await transaction.lockBuild(buildId);
    if ((await findNote(transaction, origin)) !== null) return true;
    if (unlessStarted && build.status !== "queued") return false;
    if (!["queued", "running", "waiting", "cancelling"].includes(build.status)) return false;
    await insertNote(transaction, ports, build, {
      ...{ origin, event: "project/build.cancel-requested", answer: reason },
    });
    if (build.status === "cancelling") return true;
    if (build.status === "queued") {
      await cancelQueued(transaction, ports, build, reason);
      return true;
    }
    await transaction.builds.update({ id: buildId }, { status: "cancelling", reason });
    await settleUnstarted(transaction, ports, buildId);
    await eventsOf(transaction, build).cancel(reason);
    await advance(transaction, ports, buildId);
    return true;
  });
}

/**
 * Handles an event that requests a cancel. An event of our own repeats a request that is already in
 * the build's row, and may arrive when the build is running again.
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
  await eventsOf(transaction, build).buildEnded("cancelled", reason);
}

/** Settles attempts that never started, and raises their fence so that a late start is refused. */
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
