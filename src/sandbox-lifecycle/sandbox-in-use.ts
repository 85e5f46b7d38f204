import { WavesmithError } from "../domain/errors.ts";
import type { Tables } from "../store/port.ts";
import { sandboxBuildOf } from "../store/queries/builds.ts";

/**
 * Fails with `conflict` while a build uses the project's sandbox: its agents' work would be lost.
 */
export async function refuseWhileBuilding(tables: Pick<Tables, "builds">, projectId: string): Promise<void> {
  const build = await sandboxBuildOf(tables, projectId);
  if (build === null) return;
  throw new WavesmithError("conflict", `build ${build.id} has not ended, and its agents work in this sandbox`, {
    remedy: `wavesmith cancel ${build.id}, or let it end: wavesmith resume ${build.id}`,
  });
}
