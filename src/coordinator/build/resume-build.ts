import { latestWaveOf } from "../../store/queries/waves.ts";
import { advance } from "../next/advance.ts";
import type { Ports } from "../port.ts";

/**
 * Continues a build that was rolled back, so waits for no decision. Returns false for any other.
 */
export async function resumeWaiting(ports: Ports, buildId: string): Promise<boolean> {
  return ports.store.transaction("resume-waiting", async (transaction) => {
    const build = await transaction.lockBuild(buildId);
    const wave = await latestWaveOf(transaction, buildId);
    if (build.status !== "waiting" || wave?.status === "waiting") return false;
    await transaction.builds.update({ id: buildId }, { status: "running", reason: null });
    await advance(transaction, ports, buildId);
    return true;
  });
}
