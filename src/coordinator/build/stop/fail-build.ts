import {
  liveAttemptStatuses,
  liveGateRunStatuses,
  liveWaveStatuses,
  movingBuildStatuses,
} from "../../../domain/status.ts";
import type { BuildRow, StoreTransaction } from "../../../store/port.ts";
import { latestWaveOf } from "../../../store/queries/waves.ts";
import { eventsOf } from "../../build-events.ts";
import { promoteNext } from "../../next/advance.ts";
import type { Ports } from "../../port.ts";

/** Fails a build that could not be prepared or continued, with the reason. */
export async function failBuild(ports: Ports, buildId: string, reason: string): Promise<void> {
  // A request that could not be read has no build; its failed run reports the reason.
  if ((await ports.store.builds.find({ id: buildId })) === null) return;
  await ports.store.transaction("fail-build", async (transaction) => {
    const build = await transaction.lockBuild(buildId);
    if (!movingBuildStatuses.includes(build.status)) return;
    if (await isAtWork(transaction, buildId)) return; // another process has got past this failure
    await endFailed(transaction, ports, build, reason);
  });
}

async function isAtWork(transaction: StoreTransaction, buildId: string): Promise<boolean> {
  return (
    (await transaction.attempts.find({ buildId, status: liveAttemptStatuses })) !== null ||
    (await transaction.gateRuns.find({ buildId, status: liveGateRunStatuses })) !== null
  );
}

async function endFailed(transaction: StoreTransaction, ports: Ports, build: BuildRow, reason: string): Promise<void> {
  const now = ports.clock.now();
  const wave = await latestWaveOf(transaction, build.id);
  if (wave !== null) {
    await transaction.waves.update(
      { id: wave.id, status: liveWaveStatuses },
      { status: "blocked", reason, endedAt: now },
    );
  }
  await transaction.builds.update({ id: build.id }, { status: "failed", reason, endedAt: now });
  await eventsOf(transaction, build).buildEnded("failed", reason);
  await promoteNext(transaction, ports, build.projectId);
}
