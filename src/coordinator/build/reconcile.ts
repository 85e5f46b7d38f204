import { liveAttemptStatuses, liveGateRunStatuses, sandboxBuildStatuses } from "../../domain/status.ts";
import type { BuildRow, OutboxRow, StoreTransaction } from "../../store/port.ts";
import { emitAgain } from "../build-events.ts";
import { advance, promoteNext } from "../next/advance.ts";
import type { Ports } from "../port.ts";
import { stopBuildJobs } from "./stop-build.ts";
import { stopOverBudget } from "./stop-over-budget.ts";
import { resendLostRequests } from "./take-events.ts";

/** Above every fence, so that an id made here is new. */
const askAgainEpochs = 1000;

/**
 * A build that has not moved for so long, with nothing at work, is asked on again under a raised
 * epoch (W13).
 */
export const stillMs = 120_000;

/**
 * Sees to the builds of these projects: time limits, cancellations to be finished, lost requests.
 * Safe at any time.
 */
export async function reconcileBuilds(ports: Ports, projectIds: "all" | ReadonlySet<string>): Promise<void> {
  for (const projectId of projectIds === "all" ? await ports.store.unfinishedProjects() : projectIds) {
    const build = await ports.store.builds.find({ projectId, status: sandboxBuildStatuses });
    if (build === null) {
      if ((await ports.store.builds.find({ projectId, status: "queued" })) === null) continue;
      await ports.store.transaction("promote", (transaction) => promoteNext(transaction, ports, projectId));
      continue;
    }
    if (build.status === "cancelling") await stopBuildJobs(ports, build.id);
    else await stopOverBudget(ports, build.id);
    if (await stands(ports, build)) await askAgain(ports, build);
  }
  await resendLostRequests(ports, projectIds === "all" ? "all" : [...projectIds]);
}

async function stands(ports: Ports, build: BuildRow): Promise<boolean> {
  const since = ports.clock.now().getTime() - build.movedAt.getTime();
  if (since < stillMs) return false;
  return (
    (await ports.store.jobs.find({
      buildId: build.id,
      ownerKind: ["attempt", "gate"],
      // One that is only intended may be what somebody left behind who was to start it.
      status: "running",
    })) === null
  );
}

/**
 * Asks again for what the state is waiting for: the request may have been lost with the one who
 * took it.
 */
async function askAgain(ports: Ports, build: BuildRow): Promise<void> {
  await ports.store.transaction("ask-again", async (transaction) => {
    const present = await transaction.lockBuild(build.id);
    if (present.status !== build.status || present.movedAt > build.movedAt) return;
    const unanswered = await lastRequests(transaction, build.id);
    const epoch = present.epoch + 1;
    const [raised] = await transaction.builds.update({ id: build.id }, { epoch, movedAt: ports.clock.now() });
    await advance(transaction, ports, build.id);
    for (const asked of unanswered) {
      await emitAgain(transaction, raised!, asked, subjectOf(asked), askAgainEpochs + epoch);
    }
  });
}

const subjectOf = ({ eventId, name }: OutboxRow): string => eventId.slice(name.length + 1, eventId.lastIndexOf(":"));

/**
 * The last request for each attempt and gate run that is not over; when there is none, the last of
 * the build.
 */
async function lastRequests(transaction: StoreTransaction, buildId: string): Promise<OutboxRow[]> {
  const rows = await transaction.outbox.list({ buildId }, { by: "seq", descending: true, limit: 1000 });
  const requests = rows.filter((row) => isRequest(row.name));
  const attempts = await transaction.attempts.list({
    buildId,
    status: liveAttemptStatuses,
  });
  const gates = await transaction.gateRuns.list({ buildId, status: liveGateRunStatuses });
  const open = [...attempts, ...gates];
  if (open.length === 0) return requests.slice(0, 1);
  // A request under an older fence may have come after the one that counts, and nobody answers it
  // (W4).
  const asks = ({ id, fence }: (typeof open)[number]) =>
    requests.find((row) => subjectOf(row) === id && row.data.fence === fence) ?? [];
  return open.flatMap(asks);
}

const isRequest = (name: string): boolean =>
  name.startsWith("agent/execution.") ||
  name.startsWith("agent/quality.") ||
  [
    "agent/wave.start",
    "agent/wave.complete",
    "agent/attempt.finished",
    "agent/gate.finished",
    "project/wave.passed",
  ].includes(name);
