import type { Brief } from "../../domain/brief.ts";
import { type BuildId, buildIdForEvent, derivedId, type ProjectId, type TenantId } from "../../domain/ids.ts";
import type { NetworkMode } from "../../domain/network.ts";
import type { Plan } from "../../domain/plan.ts";
import {
  liveAttemptStatuses,
  liveGateRunStatuses,
  liveWaveStatuses,
  movingBuildStatuses,
} from "../../domain/status.ts";
import type { BuildRow, StoreTransaction } from "../../store/port.ts";
import { emitFor } from "../build-events.ts";
import { mainRef, restoreRef } from "../names.ts";
import { advance, promoteNext } from "../next/advance.ts";
import type { Ports } from "../port.ts";
import { ensureSandbox } from "../sandboxes/sandboxes.ts";
import { sweepTrees } from "../wave/sweep-trees.ts";

export const defaultTenant = "default";
const tenantIdFor = (tenant: string): TenantId => derivedId("tenant", tenant);
/**
 * A project's id follows from its tenant and name, so that everybody who names it finds the same.
 */
export const projectIdFor = (tenant: string, project: string): ProjectId => derivedId("project", tenant, project);

export interface BuildRequest {
  readonly eventId: string;
  readonly tenant: string;
  readonly project: string;
  readonly requestedBy: string | null;
  /** Whether a person is there to be asked. */
  readonly interactive: boolean;
  /** Of a brief the plan by which a plan is made. */
  readonly plan: Plan;
  readonly brief: Brief | null;
  readonly sandboxDriver: string;
  /** Which hosts an allowlist holds, the plan says. */
  readonly network: NetworkMode;
}

/**
 * Stores a build and its tasks, queued behind other builds of its project. A request seen before
 * stores nothing.
 */
export async function storeBuild(ports: Ports, request: BuildRequest): Promise<BuildId> {
  const buildId = buildIdForEvent(request.eventId);
  const tenantId = tenantIdFor(request.tenant);
  const projectId = projectIdFor(request.tenant, request.project);
  await ports.store.transaction("store-build", async (transaction) => {
    await transaction.tenants.insertIfAbsent({ id: tenantId, name: request.tenant });
    await transaction.projects.insertIfAbsent({ id: projectId, tenantId, name: request.project });
    const inserted = await transaction.builds.insertIfAbsent({
      id: buildId,
      tenantId,
      projectId,
      eventId: request.eventId,
      requestedBy: request.requestedBy,
      interactive: request.interactive,
      status: "queued",
      plan: request.plan,
      brief: request.brief,
      sandboxDriver: request.sandboxDriver,
      network: request.network,
      createdAt: ports.clock.now(),
    });
    if (inserted !== null) await storeTasks(transaction, ports, buildId, request.plan);
  });
  return buildId;
}

async function storeTasks(transaction: StoreTransaction, ports: Ports, buildId: string, plan: Plan): Promise<void> {
  const ids = new Map(plan.tasks.map((task) => [task.key, ports.ids("task")]));
  await transaction.tasks.insertMany(
    plan.tasks.map((task) => ({
      id: ids.get(task.key)!,
      buildId,
      key: task.key,
      position: task.position,
      agent: task.agent,
      definition: task,
      status: "pending" as const,
    })),
  );
  await transaction.dependencies.insertMany(
    plan.tasks.flatMap((task) =>
      task.dependsOn.map((key) => ({ taskId: ids.get(task.key)!, dependsOnId: ids.get(key)! })),
    ),
  );
}

/**
 * Lets the build run when no other build of its project does. True when it may go on to be
 * prepared.
 */
export async function admitBuild(ports: Ports, buildId: string): Promise<boolean> {
  const { projectId } = await ports.store.builds.get({ id: buildId });
  await ports.store.transaction("admit-build", (transaction) => promoteNext(transaction, ports, projectId));
  return (await ports.store.builds.get({ id: buildId })).status === "running";
}

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

/**
 * Opens the wave that was asked for, when it still is what follows, and dispatches its tasks as far
 * as capacity goes.
 */
export async function startWave(ports: Ports, buildId: string, waveNumber: number): Promise<void> {
  await ports.store.transaction("start-wave", async (transaction) => {
    const build = await transaction.lockBuild(buildId);
    if (!isReady(build)) return;
    await advance(transaction, ports, buildId, { openWave: waveNumber });
  });
}

const isReady = (build: BuildRow): boolean => build.status === "running" && build.headSha !== null;

/** Fails a build that could not be prepared or driven on, with the reason. */
export async function failBuild(ports: Ports, buildId: string, reason: string): Promise<void> {
  // A request that could not be read has no build: whoever sent it is told by the failed run.
  if ((await ports.store.builds.find({ id: buildId })) === null) return;
  await ports.store.transaction("fail-build", async (transaction) => {
    const build = await transaction.lockBuild(buildId);
    if (!movingBuildStatuses.includes(build.status)) return;
    if (await isAtWork(transaction, buildId)) return; // somebody else has brought it past what failed here
    await endFailed(transaction, ports, build, reason);
  });
}

async function isAtWork(transaction: StoreTransaction, buildId: string): Promise<boolean> {
  return (
    (await transaction.attempts.find({ buildId, status: liveAttemptStatuses })) !== null ||
    (await transaction.gateRuns.find({ buildId, status: liveGateRunStatuses })) !== null
  );
}

async function endFailed(transaction: StoreTransaction, ports: Ports, build: BuildRow, reason: string): Promise<void> {
  const now = ports.clock.now();
  const wave = await transaction.waves.find({ buildId: build.id }, { by: "number", descending: true });
  if (wave !== null) {
    await transaction.waves.update(
      { id: wave.id, status: liveWaveStatuses },
      { status: "blocked", reason, endedAt: now },
    );
  }
  await transaction.builds.update({ id: build.id }, { status: "failed", reason, endedAt: now });
  await emitFor(transaction, build, "project/build.failed", build.id, build.epoch, { reason });
  await promoteNext(transaction, ports, build.projectId);
}
