import { movingBuildStatuses } from "../../domain/status.ts";
import { latestWaveOf } from "../../store/queries/waves.ts";
import { advance } from "../next/advance.ts";
import type { Ports } from "../port.ts";

/**
 * Continues a build that was rolled back, so waits for no decision. `interactive` says whether a
 * person answers its agents' questions from now on; a build at work takes that, too. Returns false
 * for any other.
 */
export async function resumeBuild(
  ports: Ports,
  buildId: string,
  { interactive }: { readonly interactive?: boolean | undefined } = {},
): Promise<boolean> {
  return ports.store.transaction("resume-build", async (transaction) => {
    const build = await transaction.lockBuild(buildId);
    const wave = await latestWaveOf(transaction, buildId);
    const answering = interactive === undefined ? {} : { interactive };
    if (interactive !== undefined && movingBuildStatuses.includes(build.status)) {
      await transaction.builds.update({ id: buildId }, answering);
      return true;
    }
    if (build.status !== "waiting" || wave?.status === "waiting") return false;
    await transaction.builds.update({ id: buildId }, { status: "running", reason: null, ...answering });
    await advance(transaction, ports, buildId);
    return true;
  });
}
