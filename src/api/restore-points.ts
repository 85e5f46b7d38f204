import type { Ports } from "../coordinator/port.ts";
import type { ProjectId } from "../domain/ids.ts";
import { mainRef } from "../domain/refs/build-refs.ts";

/** A commit to which a rollback of its build moves main; wave 0 is where the build began. */
export interface RestorePoint {
  readonly buildId: string;
  readonly wave: number;
  readonly commit: string;
  readonly isMain: boolean;
  readonly createdAt: Date;
}

/** A project's main has rarely been the base of more builds than this. */
const mostBuilds = 100;

/**
 * Lists the restore points of the builds that a rollback can reach from where main is now, newest
 * first. A commit appears once: as the end of a wave rather than as the beginning of a build.
 */
export async function restorePointsOf(
  { store, workspace }: Pick<Ports, "store" | "workspace">,
  projectId: ProjectId,
): Promise<RestorePoint[]> {
  const main = await workspace.resolve(projectId, mainRef);
  if (main === null) return [];
  const order = { by: "createdAt", descending: true, limit: mostBuilds } as const;
  const builds = (await store.builds.pick({ projectId }, ["id"], order)).map(({ id }) => id);
  const atMain = (await store.restorePoints.list({ buildId: builds, sha: main })).map(({ buildId }) => buildId);
  const [rows, waves] = await Promise.all([
    store.restorePoints.list({ buildId: atMain }),
    store.waves.list({ buildId: atMain, status: "passed" }),
  ]);
  const passed = new Set(waves.map(({ buildId, number }) => `${buildId} ${number}`));
  const isLeft = (buildId: string, wave: number): boolean => wave === 0 || passed.has(`${buildId} ${wave}`);
  const points = rows
    .filter(({ buildId, waveNumber }) => isLeft(buildId, waveNumber))
    .sort((one, other) => other.createdAt.getTime() - one.createdAt.getTime() || other.waveNumber - one.waveNumber);
  const shown = new Map<string, RestorePoint>();
  for (const { buildId, waveNumber: wave, sha: commit, createdAt } of points) {
    const known = shown.get(commit);
    if (known === undefined || (known.wave === 0 && wave > 0))
      shown.set(commit, { buildId, wave, commit, isMain: commit === main, createdAt });
  }
  return [...shown.values()].sort((one, other) => other.createdAt.getTime() - one.createdAt.getTime());
}
