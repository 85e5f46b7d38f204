import { advance } from "../next/advance.ts";
import type { Ports } from "../port.ts";

/**
 * Lets a build go on that waits for nobody's decision: one that was rolled back. False, and nothing
 * done, for any other.
 */
export async function resumeWaiting(ports: Ports, buildId: string): Promise<boolean> {
  return ports.store.transaction("resume-waiting", async (transaction) => {
    const build = await transaction.lockBuild(buildId);
    const wave = await transaction.waves.find({ buildId }, { by: "number", descending: true });
    if (build.status !== "waiting" || wave?.status === "waiting") return false;
    await transaction.builds.update({ id: buildId }, { status: "running", reason: null });
    await advance(transaction, ports, buildId);
    return true;
  });
}
