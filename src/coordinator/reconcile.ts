import type { BuildRow } from "../store/port.ts";
import { advance, emitFor, promoteNext } from "./advance.ts";
import { stopBuildJobs, stopOverBudget } from "./cancel-build.ts";
import type { Ports } from "./port.ts";

/** Above every fence, so that an id made here is new. */
const askAgainEpochs = 1000;

/** A build that has not moved for so long, with nothing at work, is asked on again under a raised epoch (W13). */
export const stillMs = 120_000;

/** Sees to the builds of these projects: time limits, cancellations to be finished, lost requests. Safe at any time. */
export async function reconcileBuilds(ports: Ports, projectIds: readonly string[]): Promise<void> {
  for (const projectId of projectIds) {
    const build = await ports.store.builds.find({ projectId, status: ["running", "cancelling"] });
    if (build === null) {
      if ((await ports.store.builds.find({ projectId, status: "queued" })) === null) continue;
      await ports.store.transaction("promote", (transaction) => promoteNext(transaction, ports, projectId));
      continue;
    }
    if (build.status === "cancelling") await stopBuildJobs(ports, build.id);
    else await stopOverBudget(ports, build.id);
    if (await stands(ports, build)) await askAgain(ports, build);
  }
}

async function stands(ports: Ports, build: BuildRow): Promise<boolean> {
  const since = ports.clock.now().getTime() - build.movedAt.getTime();
  if (since < stillMs || build.status !== "running") return false;
  return (
    (await ports.store.jobs.find({
      buildId: build.id,
      ownerKind: ["attempt", "gate"],
      status: ["intended", "running"],
    })) === null
  );
}

/** Asks again for what the state is waiting for: the request may have been lost with the one who took it. */
async function askAgain(ports: Ports, build: BuildRow): Promise<void> {
  await ports.store.transaction("ask-again", async (transaction) => {
    const present = await transaction.lockBuild(build.id);
    if (present.status !== "running" || present.movedAt > build.movedAt) return;
    const epoch = present.epoch + 1;
    const [raised] = await transaction.builds.update({ id: build.id }, { epoch, movedAt: ports.clock.now() });
    await advance(transaction, ports, build.id);
    const last = await transaction.outbox.list({ buildId: build.id }, { by: "seq", descending: true, limit: 20 });
    const asked = last.find((row) => isRequest(row.name));
    if (asked === undefined || asked.createdAt > build.movedAt) return;
    const subject = asked.eventId.slice(asked.name.length + 1, asked.eventId.lastIndexOf(":"));
    await emitFor(transaction, raised!, asked.name, subject, askAgainEpochs + epoch, asked.data);
  });
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
