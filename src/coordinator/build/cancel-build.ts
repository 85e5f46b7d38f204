import { startedAttemptStatuses } from "../../domain/status.ts";
import type { AttemptRow, BuildRow, GateRunRow, StoreTransaction } from "../../store/port.ts";
import { emitFor } from "../build-events.ts";
import { closeGate } from "../gate/finish-gate.ts";
import { cancelled } from "../gate/gate-verdict.ts";
import { abandonGate } from "../gate/start-gate.ts";
import { overBudget } from "../job/job-results.ts";
import { liveFills } from "../job/setup-cache.ts";
import { advance } from "../next/advance.ts";
import type { Ports } from "../port.ts";
import { stopPreview } from "../preview/preview.ts";
import { ensureSandbox } from "../sandboxes/sandboxes.ts";

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

/**
 * Ends the jobs of a cancelled build inside its sandbox; resolves once nothing of them is left.
 * Their ends are then told by the watcher, so that work is kept before the attempts settle. Safe to
 * call again.
 */
export async function stopBuildJobs(ports: Ports, buildId: string): Promise<void> {
  const build = await ports.store.builds.get({ id: buildId });
  await stopPreview(ports, buildId, "the build was cancelled");
  if (build.status === "cancelling") await endJobs(ports, build);
  await closeAbandonedGates(ports, buildId);
}

/**
 * A gate's run that was asked for again was abandoned before it started; what its earlier jobs left
 * is closed by nobody else.
 */
async function closeAbandonedGates(ports: Ports, buildId: string): Promise<void> {
  const wave = await ports.store.waves.find({ buildId }, { by: "number", descending: true });
  if (wave === null) return;
  const runs = await ports.store.gateRuns.list({ waveId: wave.id, status: "finished", verdict: "inconclusive" });
  for (const { id, fence, reason } of runs) {
    if (fence > 0 && reason === cancelled.reason) await closeGate(ports, { gateRunId: id, fence });
  }
}

async function endJobs(ports: Ports, build: BuildRow): Promise<void> {
  const { id: buildId } = build;
  const attempts = await ports.store.attempts.list({ buildId, status: startedAttemptStatuses });
  const gates = await ports.store.gateRuns.list({ buildId, status: "running" });
  const keys = await liveKeys(ports, buildId, attempts, gates);
  if (keys.length > 0) await cancelJobs(ports, build, keys, build.reason ?? "cancelled");
  await settleNeverStarted(ports, build, attempts);
  await ports.store.transaction("after-stop", async (transaction) => {
    await transaction.lockBuild(buildId);
    for (const run of gates) {
      const job = await transaction.jobs.find({ key: run.jobKey! });
      if (job === null || job.status === "intended") await abandonGate(transaction, ports, run.id);
    }
    await advance(transaction, ports, buildId);
  });
}

async function liveKeys(
  ports: Ports,
  buildId: string,
  attempts: readonly AttemptRow[],
  gates: readonly GateRunRow[],
): Promise<string[]> {
  const fills = await liveFills(ports, buildId);
  return [
    ...attempts.map((attempt) => attempt.jobKey),
    ...gates.flatMap((run) => run.jobKey ?? []),
    ...fills.map(({ key }) => key),
  ];
}

async function cancelJobs(ports: Ports, build: BuildRow, keys: readonly string[], reason: string): Promise<void> {
  const { guest } = await ensureSandbox(ports, build);
  await Promise.all(
    keys.map(async (key) => {
      await guest.cancelJob(key, { reason, graceMs: 3000 });
      await ports.store.jobs.update({ key, status: "intended" }, { status: "running" });
    }),
  );
  ports.wakeWatcher();
}

/**
 * Attempts that were being started and whose job was never recorded: their keys can never start
 * now.
 */
async function settleNeverStarted(ports: Ports, build: BuildRow, attempts: readonly AttemptRow[]): Promise<void> {
  for (const attempt of attempts) {
    if ((await ports.store.jobs.find({ key: attempt.jobKey })) !== null) continue;
    await ports.store.transaction("settle-unstarted", async (transaction) => {
      await transaction.lockBuild(build.id);
      const [settled] = await transaction.attempts.update(
        { id: attempt.id, fence: attempt.fence, status: startedAttemptStatuses },
        { status: "settled", outcome: "cancelled", reason: "cancelled before it started", endedAt: ports.clock.now() },
      );
      if (settled?.taskId != null) await transaction.tasks.update({ id: settled.taskId }, { status: "cancelled" });
    });
  }
}

/**
 * Ends what runs of a build that has used up its wall-clock budget: attempts settle as over-budget,
 * gates without a verdict.
 */
export async function stopOverBudget(ports: Ports, buildId: string): Promise<void> {
  const build = await ports.store.builds.get({ id: buildId });
  if (build.status !== "running" || build.deadlineAt === null || build.deadlineAt > ports.clock.now()) return;
  const attempts = await ports.store.attempts.list({ buildId, status: "running" });
  const gates = await ports.store.gateRuns.list({ buildId, status: "running" });
  const keys = await liveKeys(ports, buildId, attempts, gates);
  if (keys.length > 0) await cancelJobs(ports, build, keys, overBudget);
  await ports.store.transaction("over-budget", async (transaction) => {
    await transaction.lockBuild(buildId);
    await advance(transaction, ports, buildId);
  });
}
