import { mainRef, restoreRef } from "../../domain/refs/ref-names.ts";
import { resultBranch } from "../../domain/refs/result-branch.ts";
import { ensureSandbox } from "../../sandbox-lifecycle/ensure-sandbox.ts";
import type { BuildRow } from "../../store/port.ts";
import { sourceFolderRef } from "../../workspace/port.ts";
import type { Ports } from "../port.ts";
import { sweepTrees } from "../wave/sweep-trees.ts";
import { findBase, refuseConflicts } from "./source-base.ts";

/** Prepares the authority and records where the build starts (restore point 0). */
export async function prepareRepository(ports: Ports, buildId: string): Promise<void> {
  const build = await ports.store.builds.get({ id: buildId });
  if (build.status !== "running" || build.baseSha !== null) return;
  const projectId = build.projectId;
  await ports.workspace.prepare(projectId, build.plan.source, build.createdAt);
  const base = await baseOf(ports, build);
  const tag = restoreRef(buildId, 0);
  await ports.workspace.moveRef(projectId, tag, base, await ports.workspace.resolve(projectId, tag));
  await ports.store.transaction("prepare-build", async (transaction) => {
    await transaction.builds.update({ id: buildId, baseSha: null }, { baseSha: base, headSha: base });
    await transaction.restorePoints.insertIfAbsent({ buildId, waveNumber: 0, sha: base });
  });
}

/** The project's main, with what its source has had since if the request said so. */
async function baseOf(ports: Ports, { projectId, plan, createdAt: date }: BuildRow): Promise<string> {
  const { workspace } = ports;
  const main = await workspace.resolve(projectId, mainRef);
  if (plan.source.kind === "empty" || plan.source.update === undefined) return main!;
  const base = await findBase(ports, { projectId, plan, date });
  if (base === null) return main!;
  refuseConflicts(base, plan.source, resultBranch(plan.name));
  const { commit, isFolder } = base.state;
  if (isFolder && commit !== null) {
    await workspace.moveRef(projectId, sourceFolderRef, commit, await workspace.resolve(projectId, sourceFolderRef));
  }
  return base.head;
}

/** Prepares the sandbox with the build's starting tree. */
export async function prepareSandbox(ports: Ports, buildId: string): Promise<void> {
  const build = await ports.store.builds.get({ id: buildId });
  if (build.status !== "running") return;
  const { guest } = await ensureSandbox(ports, build);
  // Only one build of a project runs at a time, so the homes of earlier builds are of no use.
  for (const { path } of (await guest.stat("homes")) === null ? [] : await guest.list("homes")) {
    if (path !== `homes/${buildId}`) await guest.remove(path, { recursive: true });
  }
  await sweepTrees(ports, build, guest);
  await ports.workspace.syncVolume(build.projectId, guest, build.headSha!);
}
