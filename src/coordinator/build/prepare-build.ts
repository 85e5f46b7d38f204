import { mainRef, restoreRef } from "../names.ts";
import type { Ports } from "../port.ts";
import { ensureSandbox } from "../sandboxes/sandboxes.ts";
import { sweepTrees } from "../wave/sweep-trees.ts";

/** Makes the authority repository ready and remembers where the build began (restore point 0). */
export async function prepareRepository(ports: Ports, buildId: string): Promise<void> {
  const build = await ports.store.builds.get({ id: buildId });
  if (build.status !== "running" || build.baseSha !== null) return;
  const projectId = build.projectId;
  await ports.workspace.prepare(projectId, build.plan.source, build.createdAt);
  const main = await ports.workspace.resolve(projectId, mainRef);
  const tag = restoreRef(buildId, 0);
  await ports.workspace.moveRef(projectId, tag, main!, await ports.workspace.resolve(projectId, tag));
  await ports.store.transaction("prepare-build", async (transaction) => {
    await transaction.builds.update({ id: buildId, baseSha: null }, { baseSha: main, headSha: main });
    await transaction.restorePoints.insertIfAbsent({ buildId, waveNumber: 0, sha: main! });
  });
}

/** Makes the sandbox ready with the tree the build starts from. */
export async function prepareSandbox(ports: Ports, buildId: string): Promise<void> {
  const build = await ports.store.builds.get({ id: buildId });
  if (build.status !== "running") return;
  const { guest } = await ensureSandbox(ports, build);
  // One build of a project runs at a time: what agents of earlier ones left is of no use to
  // anybody.
  for (const { path } of (await guest.stat("homes")) === null ? [] : await guest.list("homes")) {
    if (path !== `homes/${buildId}`) await guest.remove(path, { recursive: true });
  }
  await sweepTrees(ports, build, guest);
  await ports.workspace.syncVolume(build.projectId, guest, build.headSha!);
}
