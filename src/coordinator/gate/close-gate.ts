import { dropJob } from "../job/job-stages.ts";
import { gateTreePath, handoverPath } from "../names.ts";
import type { Ports } from "../port.ts";
import { ensureSandbox } from "../sandboxes/sandboxes.ts";
import { secondLookHome } from "./critic-review.ts";
import { gateAgentHome } from "./gate-agent.ts";
import { type GateRefer, jobKeysOf, loadGate } from "./gate-run.ts";

/** Removes what the finished run left on the volume. */
export async function closeGate(ports: Ports, refer: GateRefer): Promise<void> {
  const loaded = await loadGate(ports, refer.gateRunId);
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
