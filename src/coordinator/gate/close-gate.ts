import { gateTreePath, handoverPath } from "../../domain/sandbox/volume-paths.ts";
import { ensureSandbox } from "../../sandbox-lifecycle/ensure-sandbox.ts";
import { dropJob } from "../job/job-stages.ts";
import type { Ports } from "../port.ts";
import { secondLookHome } from "./agent/critic-review.ts";
import { gateAgentHome } from "./agent/proposed-checks.ts";
import { type GateRunRef, jobKeysOf, loadGate } from "./gate-run.ts";

/** Removes a finished run's files from the volume. */
export async function closeGate(ports: Ports, gateRunRef: GateRunRef): Promise<void> {
  const loaded = await loadGate(ports, gateRunRef.gateRunId);
  const { run, build, wave } = loaded;
  if (run.status !== "finished") return;
  const jobs = await ports.store.jobs.list({ key: jobKeysOf(run) });
  if (jobs.length === 0 && run.losses === 0) return; // there was nothing to run
  const endpoint = await ensureSandbox(ports, build);
  for (const [fence, key] of jobKeysOf(run).entries()) {
    await dropJob(ports, endpoint, key);
    await ports.workspace.closeTree(endpoint.guest, gateTreePath(wave.number, { ...run, fence }));
    await endpoint.guest.remove(handoverPath(key), { recursive: true });
    if (run.gate === "critic") await endpoint.guest.remove(secondLookHome(loaded, fence), { recursive: true });
    if (run.evidence?.added?.asked) await endpoint.guest.remove(gateAgentHome(loaded, fence), { recursive: true });
    await endpoint.guest.forgetJob(key);
  }
}
