import { emitFor, gateRunFacts } from "../build-events.ts";
import { startJob } from "../job/job-stages.ts";
import { gateTreePath, handoverPath } from "../names.ts";
import { advance } from "../next/advance.ts";
import type { Ports } from "../port.ts";
import { abandonGate, type GateRefer, type LoadedGate, loadGate } from "./gate-run.ts";
import { gateHomes, gateStagesOf } from "./gate-stages.ts";

// W6. Gates run on a clean tree of one SHA that nobody writes to, and a verdict counts for that SHA
// alone.

/** Takes a gate run that was asked for. False when it is not ours to start. */
export async function claimGate(ports: Ports, { gateRunId, fence }: GateRefer): Promise<boolean> {
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
 * Starts the gate's job on a clean tree, or, when there is nothing to run, says at once that it has
 * finished. False when the job was over already: somebody else may have closed the tree before it
 * was opened here.
 */
export async function startGateJob(ports: Ports, refer: GateRefer): Promise<boolean> {
  const loaded = await loadGate(ports, refer.gateRunId);
  const { run, build, wave } = loaded;
  if (run.fence !== refer.fence || run.status !== "running") return true;
  const stages = await gateStagesOf(ports, loaded);
  if (stages === null) {
    await finishAtOnce(ports, loaded);
    return true;
  }
  const treePath = gateTreePath(wave.number, run);
  const { endpoint, setting, own } = stages;
  return startJob(ports, endpoint, {
    key: run.jobKey!,
    build,
    owner: { kind: "gate", id: run.id, fence: run.fence },
    spec: {
      stages: [...setting.stages, ...own],
      ...setting.reach,
      writable: [...setting.reach.writable, handoverPath(run.jobKey!), ...gateHomes(loaded)],
      labels: { build: build.id, gate: run.id, tree: treePath },
    },
  });
}

async function finishAtOnce(ports: Ports, { run, build, wave }: LoadedGate): Promise<void> {
  await ports.store.transaction("gate-without-job", async (transaction) => {
    await emitFor(transaction, build, "agent/gate.finished", run.id, run.fence, {
      ...gateRunFacts(run, wave, run.fence),
      jobKey: null,
    });
  });
}
