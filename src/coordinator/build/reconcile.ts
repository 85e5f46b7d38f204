import type { EventName } from "../../domain/events/events.ts";
import { itemAt } from "../../domain/known.ts";
import type { BuildRow, OutboxRow, StoreTransaction } from "../../store/port.ts";
import { liveAttemptsOf } from "../../store/queries/attempts.ts";
import { sandboxBuildOf } from "../../store/queries/builds.ts";
import { liveGateRunsOf } from "../../store/queries/gate-runs.ts";
import { eventsOf, subjectOf } from "../build-events.ts";
import { advance, promoteNext } from "../next/advance.ts";
import type { Ports } from "../port.ts";
import { resendLostRequests } from "./request/take-events.ts";
import { stopBuildJobs } from "./stop/stop-build.ts";
import { stopOverdueBuild } from "./stop/stop-overdue-build.ts";

/** Above every fence, so that event ids made here are new. */
const askAgainEpochs = 1000;

/**
 * After this time without progress and without running work, a build's requests are sent again
 * under a raised epoch (W13).
 */
export const stillMs = 120_000;

/**
 * Handles time limits, unfinished cancellations and lost requests of these projects' builds. Safe
 * at any time.
 */
export async function reconcileBuilds(ports: Ports, projectIds: "all" | ReadonlySet<string>): Promise<void> {
  for (const projectId of projectIds === "all" ? await ports.store.unfinishedProjects() : projectIds) {
    const build = await sandboxBuildOf(ports.store, projectId);
    if (build === null) {
      if ((await ports.store.builds.find({ projectId, status: "queued" })) === null) continue;
      await ports.store.transaction("promote", (transaction) => promoteNext(transaction, ports, projectId));
      continue;
    }
    if (build.status === "cancelling") await stopBuildJobs(ports, build.id);
    else await stopOverdueBuild(ports, build.id);
    if (build.heldBackAt !== null) await startHeldBack(ports, build.id);
    if (await stands(ports, build)) await askAgain(ports, build);
  }
  await resendLostRequests(ports, projectIds === "all" ? "all" : [...projectIds]);
}

/**
 * Starts tasks that were held back for other tenants or a limit, as far as there is room. Without
 * room there is no progress, so that a lost request is still sent again.
 */
async function startHeldBack(ports: Ports, buildId: string): Promise<void> {
  await ports.store.transaction("start-held-back", async (transaction) => {
    const { movedAt } = await transaction.lockBuild(buildId);
    await advance(transaction, ports, buildId);
    const { heldBackAt } = await transaction.builds.get({ id: buildId });
    if (heldBackAt !== null) await transaction.builds.update({ id: buildId }, { movedAt });
  });
}

async function stands(ports: Ports, build: BuildRow): Promise<boolean> {
  const since = ports.clock.now().getTime() - build.movedAt.getTime();
  if (since < stillMs) return false;
  return (
    (await ports.store.jobs.find({
      buildId: build.id,
      ownerKind: ["attempt", "gate"],
      // A job that is only intended may have been left by a process that crashed before starting
      // it.
      status: "running",
    })) === null
  );
}

/**
 * Sends the awaited requests again, because they may have been lost with the process that took
 * them.
 */
async function askAgain(ports: Ports, build: BuildRow): Promise<void> {
  await ports.store.transaction("ask-again", async (transaction) => {
    const present = await transaction.lockBuild(build.id);
    if (present.status !== build.status || present.movedAt > build.movedAt) return;
    const unanswered = await lastRequests(transaction, build.id);
    const epoch = present.epoch + 1;
    const raised = await transaction.builds.update({ id: build.id }, { epoch, movedAt: ports.clock.now() });
    await advance(transaction, ports, build.id);
    for (const asked of unanswered) {
      await eventsOf(transaction, itemAt(raised, 0)).again(asked, askAgainEpochs + epoch);
    }
  });
}

/**
 * Returns the last request for each live attempt and gate run, or else the build's last request.
 */
async function lastRequests(transaction: StoreTransaction, buildId: string): Promise<OutboxRow[]> {
  const attempts = await liveAttemptsOf(transaction, buildId);
  const roles = (await transaction.tasks.pick({ buildId }, ["agent"])).map(({ agent }) => agent);
  const name = requestNames([...roles, ...attempts.map(({ role }) => role)]);
  const requests = await transaction.outbox.list({ buildId, name }, { by: "seq", descending: true, limit: 1000 });
  const gates = await liveGateRunsOf(transaction, buildId);
  const open = [...attempts, ...gates];
  if (open.length === 0) return requests.slice(0, 1);
  // Take the request with the current fence: a later one with an older fence gets no answer (W4).
  const asks = ({ id, fence }: (typeof open)[number]) =>
    requests.find((row) => subjectOf(row) === id && row.data.fence === fence) ?? [];
  return open.flatMap(asks);
}

const requestNames = (roles: readonly string[]): EventName[] => [
  ...new Set(roles.map((role) => `agent/execution.${role}` as const)),
  "agent/quality.testing",
  "agent/quality.critic",
  "agent/quality.integration",
  "agent/quality.fix",
  "agent/wave.start",
  "agent/wave.complete",
  "agent/attempt.finished",
  "agent/gate.finished",
  "project/wave.passed",
];
