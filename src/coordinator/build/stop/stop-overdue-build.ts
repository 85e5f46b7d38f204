import { overBudget } from "../../job/job-results.ts";
import { advance } from "../../next/advance.ts";
import type { Ports } from "../../port.ts";
import { cancelJobs, liveKeys } from "./build-jobs.ts";

/**
 * Stops a build that is past its deadline: its attempts settle as over-budget, its gates without a
 * verdict.
 */
export async function stopOverdueBuild(ports: Ports, buildId: string): Promise<void> {
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
