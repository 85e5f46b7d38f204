import { startedAttemptStatuses } from "../../../domain/status.ts";
import type { AttemptRow, BuildRow } from "../../../store/port.ts";
import { latestWaveOf } from "../../../store/queries/waves.ts";
import { closeGate } from "../../gate/close-gate.ts";
import { cancelled } from "../../gate/gate-outcome.ts";
import { abandonGate } from "../../gate/gate-run.ts";
import { advance } from "../../next/advance.ts";
import type { Ports } from "../../port.ts";
import { stopPreview } from "../../preview/preview.ts";
import { cancelJobs, liveKeys } from "./build-jobs.ts";

/**
 * Ends a cancelled build's jobs in its sandbox; resolves once nothing of them is left. The watcher
 * then reports their ends, so that work is kept before the attempts settle. Safe to call twice.
 */
export async function stopBuildJobs(ports: Ports, buildId: string): Promise<void> {
  const build = await ports.store.builds.get({ id: buildId });
  await stopPreview(ports, buildId, "the build was cancelled");
  if (build.status === "cancelling") await endJobs(ports, build);
  await closeAbandonedGates(ports, buildId);
}

/** Closes gate runs that were requested again and abandoned, because nothing else closes them. */
async function closeAbandonedGates(ports: Ports, buildId: string): Promise<void> {
  const wave = await latestWaveOf(ports.store, buildId);
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
      const job = run.jobKey === null ? null : await transaction.jobs.find({ key: run.jobKey });
      if (job === null || job.status === "intended") await abandonGate(transaction, ports, run.id);
    }
    await advance(transaction, ports, buildId);
  });
}

/** Settles attempts whose start was interrupted: their jobs have no record and can never start. */
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
