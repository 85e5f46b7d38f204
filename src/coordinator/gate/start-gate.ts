import { gateTreePath, handoverPath } from "../../domain/sandbox/volume-paths.ts";
import { eventsOf } from "../build-events.ts";
import { startJob } from "../job/job-stages.ts";
import { advance } from "../next/advance.ts";
import type { Ports } from "../port.ts";
import { abandonGate, type GateRunRef, type LoadedGate, loadGate } from "./gate-run.ts";
import { gateHomes, gateStagesOf } from "./gate-stages.ts";

// W6. A gate runs on a clean tree of one SHA that nothing else writes to, and its verdict counts
// only for that SHA.

/** Claims a requested gate run. Returns false if it must not be started. */
export async function claimGate(ports: Ports, { gateRunId, fence }: GateRunRef): Promise<boolean> {
  const { buildId } = await ports.store.gateRuns.get({ id: gateRunId });
  return ports.store.transaction("claim-gate", async (transaction) => {
    const build = await transaction.lockBuild(buildId);
    const run = await transaction.gateRuns.get({ id: gateRunId });
    if (run.fence !== fence || run.status === "finished") return false;
    if (build.status !== "running") {
      await abandonGate(transaction, ports, run.id);
      await advance(transaction, ports, buildId);
      return false;
    }
    await transaction.gateRuns.update({ id: gateRunId, fence, status: "requested" }, { status: "running" });
    return true;
  });
}

/**
 * Starts the gate's job on a clean tree; if there is nothing to run, emits its end at once. Returns
 * false if the job is already over, because its tree may have been closed before we opened it.
 */
export async function startGateJob(ports: Ports, gateRunRef: GateRunRef): Promise<boolean> {
  const loaded = await loadGate(ports, gateRunRef.gateRunId);
  const { run, build, wave } = loaded;
  if (run.fence !== gateRunRef.fence || run.status !== "running") return true;
  const stages = await gateStagesOf(ports, loaded);
  if (stages === null) {
    await finishAtOnce(ports, loaded);
    return true;
  }
  const treePath = gateTreePath(wave.number, run);
  const { endpoint, setting, own } = stages;
  return startJob(ports, endpoint, {
    key: run.jobKey,
    build,
    owner: { kind: "gate", id: run.id, fence: run.fence },
    spec: {
      stages: [...setting.stages, ...own],
      ...setting.reach,
      writable: [...setting.reach.writable, handoverPath(run.jobKey), ...gateHomes(loaded)],
      labels: { build: build.id, gate: run.id, tree: treePath },
    },
  });
}

async function finishAtOnce(ports: Ports, { run, build, wave }: LoadedGate): Promise<void> {
  await ports.store.transaction("gate-without-job", async (transaction) => {
    await eventsOf(transaction, build).gateFinished(run, wave, null);
  });
}
