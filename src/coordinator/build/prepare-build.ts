import { WavesmithError } from "../../domain/errors.ts";
import { present } from "../../domain/known.ts";
import { mergeTask, mergeTaskKey, withFirstTask } from "../../domain/plan/merge-task.ts";
import type { Plan } from "../../domain/plan/plan.ts";
import { mainRef, restoreRef } from "../../domain/refs/build-refs.ts";
import { resultBranch } from "../../domain/refs/result-branch.ts";
import { ForgeError } from "../../forge/port.ts";
import { ensureSandbox } from "../../sandbox-lifecycle/ensure-sandbox.ts";
import type { BuildRow, StoreTransaction } from "../../store/port.ts";
import { tasksOfBuild } from "../../store/queries/tasks.ts";
import { sourceFolderRef } from "../../workspace/port.ts";
import { findDelivered } from "../forge/delivered-repository.ts";
import { usesForges } from "../forge/may-deliver.ts";
import { storeTasksOf } from "../plan/edited-tasks.ts";
import type { Ports } from "../port.ts";
import { sweepTrees } from "../wave/sweep-trees.ts";
import { type BuildBase, findBase, refuseConflicts } from "./source-base.ts";

/** Prepares the authority and records where the build starts (restore point 0). */
export async function prepareRepository(ports: Ports, buildId: string): Promise<void> {
  const build = await ports.store.builds.get({ id: buildId });
  if (build.status !== "running" || build.baseSha !== null) return;
  const projectId = build.projectId;
  const source = await sourceOf(ports, build);
  await ports.workspace.prepare(projectId, source, build.createdAt);
  const { head: base, conflicts } = await baseOf(ports, { ...build, plan: { ...build.plan, source } });
  const tag = restoreRef(buildId, 0);
  await ports.workspace.moveRef(projectId, tag, base, await ports.workspace.resolve(projectId, tag));
  await ports.store.transaction("prepare-build", async (transaction) => {
    const begun = await transaction.builds.update({ id: buildId, baseSha: null }, { baseSha: base, headSha: base });
    if (begun.length > 0 && conflicts.length > 0) await addMergeTask(transaction, ports, build, conflicts);
    await transaction.restorePoints.insertIfAbsent({ buildId, waveNumber: 0, sha: base });
  });
}

/**
 * The plan's source. A plan that has none but delivers to a repository starts from that
 * repository's base branch, if it exists.
 */
async function sourceOf(ports: Ports, { plan, tenantId, projectId }: BuildRow): Promise<Plan["source"]> {
  const { source, deliver } = plan;
  if (source.kind !== "empty" || deliver.repo === null || !usesForges(tenantId)) return source;
  try {
    return (await deliveredBase(ports, { deliver, projectId })) ?? source;
  } catch (error) {
    if (!(error instanceof ForgeError) || error.fault !== "network") throw error;
    // The forge client has retried already, and somebody is waiting for the build to start.
    const remedy = error.remedy === null ? {} : { remedy: error.remedy };
    throw new WavesmithError("environment", error.message, { ...remedy, cause: error });
  }
}

async function deliveredBase(
  ports: Ports,
  { deliver: { forge, repo, base }, projectId }: { deliver: Plan["deliver"]; projectId: string },
): Promise<Plan["source"] | null> {
  const repository = await findDelivered(ports, { projectId, forge, name: present(repo, "deliver.repo") });
  if (repository === null) return null;
  const ref = base ?? repository.defaultBranch;
  if ((await ports.forges.forge(forge).readBranch(repository, ref)) === null) return null;
  return { kind: "git", url: repository.gitUrl, ref, update: "merge" };
}

/** The project's main, with what its source has had since if the request said so. */
async function baseOf(
  ports: Ports,
  { projectId, plan, brief, createdAt: date }: BuildRow,
): Promise<Pick<BuildBase, "head" | "conflicts">> {
  const { workspace } = ports;
  const main = await workspace.resolve(projectId, mainRef);
  const stays = { head: present(main, "main"), conflicts: [] };
  if (plan.source.kind === "empty" || plan.source.update === undefined) return stays;
  const base = await findBase(ports, { projectId, plan, brief, date });
  if (base === null) return stays;
  refuseConflicts(base, plan.source, resultBranch(plan.name));
  const { commit, isFolder } = base.state;
  if (isFolder && commit !== null) {
    await workspace.moveRef(projectId, sourceFolderRef, commit, await workspace.resolve(projectId, sourceFolderRef));
  }
  return base;
}

/** Puts the task that resolves the conflicts before all others. */
async function addMergeTask(
  transaction: StoreTransaction,
  ports: Ports,
  build: BuildRow,
  conflicts: readonly string[],
): Promise<void> {
  const tasks = await tasksOfBuild(transaction, build.id);
  const edited = withFirstTask(build.plan, mergeTask(conflicts));
  const edit = { added: [mergeTaskKey], again: [], removed: [], kept: tasks.map(({ key }) => key) };
  await storeTasksOf(transaction, ports, build, { tasks, edited, edit });
  await transaction.builds.update({ id: build.id }, { plan: edited, planVersion: build.planVersion + 1 });
}

/** Prepares the sandbox with the build's starting tree. */
export async function prepareSandbox(ports: Ports, buildId: string): Promise<void> {
  const build = await ports.store.builds.get({ id: buildId });
  if (build.status !== "running") return;
  const { guest } = await ensureSandbox(ports, build);
  // Only one build of a project runs at a time, so the homes of earlier builds are no longer
  // needed.
  for (const { path } of (await guest.stat("homes")) === null ? [] : await guest.list("homes")) {
    if (path !== `homes/${buildId}`) await guest.remove(path, { recursive: true });
  }
  await sweepTrees(ports, build, guest);
  await ports.workspace.syncVolume(build.projectId, guest, present(build.headSha, "build.headSha"));
}
