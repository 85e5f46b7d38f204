import { messageOf } from "../../domain/errors.ts";
import { liveJobStatuses, sandboxBuildStatuses } from "../../domain/status.ts";
import type { GuestHealth } from "../../sandbox/port.ts";
import type { SandboxRow, Tables } from "../../store/port.ts";
import type { LifecyclePorts } from "../port.ts";
import { finishRemoval, finishStop } from "../sandbox-ends.ts";
import { presentStates } from "../sandbox-events.ts";
import { withSandboxAlone, withVolumeAlone } from "../sandbox-locks.ts";
import { takeSnapshotAlone } from "../snapshots/snapshots.ts";

// Stops sandboxes that nobody uses, but never while an agent or a command runs. After the row has
// lost its state `running` (SL1), and right before the stop, the database's jobs, the guest's jobs
// and the idle time are checked again. A use from then on waits, and starts the sandbox
// again.

/** A sandbox past its time to live counts as idle after this long without work. */
const expiredIdleMs = 60_000;

/**
 * A sandbox idle for less is not stopped for another project. More than `touchMs` of sandboxes.ts,
 * so that every use of a stoppable sandbox renews `usedAt` and the stop sees it (SL1).
 */
const idleForRoomMs = 15_000;

interface End {
  readonly kind: "stop" | "remove";
  readonly reason: "idle" | "expired" | "its slot was needed";
  readonly idleMs: number;
}

/** Stops idle sandboxes, and removes those past their time to live. Safe to run twice at once. */
export async function stopIdleSandboxes(ports: LifecyclePorts): Promise<{ stopped: string[]; removed: string[] }> {
  const ended = { stopped: [] as string[], removed: [] as string[] };
  for (const row of await ports.store.sandboxes.list({ state: presentStates }, { by: "usedAt" })) {
    const end = dueEnd(ports, row);
    if (end === null) continue;
    if (await tryEnd(ports, row, end)) ended[end.kind === "stop" ? "stopped" : "removed"].push(row.id);
  }
  return ended;
}

/**
 * Stops the sandbox that has been idle longest, of this tenant if one is given, so that another
 * project gets its room. Returns false when none is idle. A project whose build runs keeps its
 * sandbox between two jobs.
 */
export async function stopLongestIdle(ports: LifecyclePorts, tenantId: string | null): Promise<boolean> {
  const rows = await ports.store.sandboxes.list({ state: "running" }, { by: "usedAt" });
  const id = rows.map((row) => row.projectId);
  const projects = await ports.store.projects.list(tenantId === null ? { id } : { id, tenantId });
  const atWork = await projectsAtWork(ports.store, id);
  const end: End = { kind: "stop", reason: "its slot was needed", idleMs: idleForRoomMs };
  const since = ports.clock.now().getTime() - idleForRoomMs;
  for (const row of rows) {
    const isOurs = projects.some((project) => project.id === row.projectId);
    if (!isOurs || atWork.has(row.projectId) || row.usedAt.getTime() > since) continue;
    if (await tryEnd(ports, row, end)) return true;
  }
  return false;
}

/** Returns the projects among these with a running build or an unfinished job. */
export async function projectsAtWork(tables: Tables, projectId: readonly string[]): Promise<ReadonlySet<string>> {
  const builds = await tables.builds.pick({ projectId, status: sandboxBuildStatuses }, ["projectId"]);
  const jobs = await tables.jobs.pick({ projectId, status: "running" }, ["projectId"]);
  return new Set([...builds, ...jobs].map((row) => row.projectId));
}

/** A sandbox that cannot be ended must not hold up the others. */
async function tryEnd(ports: LifecyclePorts, row: SandboxRow, end: End): Promise<boolean> {
  return endIdle(ports, row, end).catch((error: unknown) => {
    ports.log.warn(`sandbox ${row.id} could not be ended (${end.reason}): ${messageOf(error)}`);
    return false;
  });
}

/** Whether it is time to stop or remove the sandbox, by its row. */
export const isDueToEnd = (ports: LifecyclePorts, row: SandboxRow): boolean => dueEnd(ports, row) !== null;

/** Returns whether to stop or remove the sandbox, by its row. */
function dueEnd(ports: LifecyclePorts, row: SandboxRow): End | null {
  const { idleMs, ttlMs } = ports.sandboxPolicy;
  const now = ports.clock.now().getTime();
  const isUnusedFor = (ms: number): boolean => now - row.usedAt.getTime() >= ms;
  const isOld = ttlMs !== null && now - row.createdAt.getTime() >= ttlMs;
  if (isOld && row.state !== "wanted" && isUnusedFor(expiredIdleMs))
    return { kind: "remove", reason: "expired", idleMs: expiredIdleMs };
  if (idleMs === null || row.state !== "running" || !isUnusedFor(idleMs)) return null;
  return { kind: "stop", reason: "idle", idleMs };
}

async function endIdle(ports: LifecyclePorts, row: SandboxRow, end: End): Promise<boolean> {
  if (await isAtWork(ports, row, end.idleMs)) return false;
  const done = await withVolumeAlone(
    ports,
    row.projectId,
    async () => {
      if (end.kind === "stop" && ports.sandboxPolicy.snapshotWhenIdle) await snapshotFirst(ports, row);
      return withSandboxAlone(ports, row.projectId, () => endAlone(ports, row, end), { wait: false });
    },
    { wait: false },
  );
  return done === true;
}

/**
 * Takes a snapshot. A failure does not keep the sandbox running, because its volume stays anyway.
 */
async function snapshotFirst(ports: LifecyclePorts, row: SandboxRow): Promise<void> {
  if (await hasSnapshotSinceWork(ports, row)) return;
  await takeSnapshotAlone(ports, row, { reason: "idle" }).catch((error: unknown) =>
    ports.log.warn(`no snapshot was taken of sandbox ${row.id} before its idle stop: ${messageOf(error)}`),
  );
}

/**
 * Whether an earlier try to stop the sandbox took a snapshot and nothing has worked in it since.
 * Such a try ends without the stop when somebody else holds the sandbox's lock.
 */
async function hasSnapshotSinceWork(ports: LifecyclePorts, row: SandboxRow): Promise<boolean> {
  const newest = { by: "createdAt", descending: true } as const;
  const last = await ports.store.snapshots.find({ sandboxId: row.id, state: "kept" }, newest);
  const health = last === null ? null : await healthOf(ports, row);
  if (last === null || health === null) return false;
  const workedAt = ports.clock.now().getTime() - health.idleMs;
  return last.createdAt.getTime() > Math.max(workedAt, row.usedAt.getTime());
}

async function endAlone(ports: LifecyclePorts, row: SandboxRow, end: End): Promise<boolean> {
  if (!(await takeRunningState(ports, row, end))) return false;
  let isBusy = true;
  try {
    isBusy = await isAtWork(ports, row, end.idleMs);
  } finally {
    // An unanswering sandbox is left to the health check.
    if (isBusy) await restoreRunningState(ports, row);
  }
  if (isBusy) return false;
  if (end.kind === "stop") await finishStop(ports, row, end.reason);
  else await finishRemoval(ports, row, { volume: false, reason: end.reason });
  return true;
}

/**
 * Takes the state `running` away if nobody used the sandbox since it was read, and the database
 * shows no work.
 */
async function takeRunningState(ports: LifecyclePorts, row: SandboxRow, { reason, idleMs }: End): Promise<boolean> {
  return ports.store.transaction("sandbox-idle", async (transaction) => {
    await transaction.lockProject(row.projectId);
    if (await hasJobs(transaction, ports, row, idleMs)) return false;
    const forRoom = reason === "its slot was needed";
    if (forRoom && (await projectsAtWork(transaction, [row.projectId])).size > 0) return false;
    const { id, bootId, usedAt, state } = row;
    const [taken] = await transaction.sandboxes.update({ id, bootId, usedAt, state }, { state: "stopped", reason });
    return taken !== undefined;
  });
}

async function restoreRunningState(ports: LifecyclePorts, { id, bootId, state, reason }: SandboxRow): Promise<void> {
  await ports.store.sandboxes.update({ id, bootId, state: "stopped" }, { state, reason });
}

/**
 * A job that was intended and never started stops counting after a time, because its starter may
 * have crashed.
 */
async function hasJobs(
  tables: Tables,
  ports: LifecyclePorts,
  { projectId }: SandboxRow,
  idleMs: number,
): Promise<boolean> {
  const jobs = await tables.jobs.list({
    projectId,
    status: liveJobStatuses,
    ownerKind: ["attempt", "gate", "setup"],
  });
  const since = ports.clock.now().getTime() - idleMs;
  return jobs.some(({ status, createdAt }) => status === "running" || createdAt.getTime() > since);
}

/**
 * Whether anything works in the sandbox now, or did within its limit. Fails when it runs and does
 * not answer.
 */
async function isAtWork(ports: LifecyclePorts, row: SandboxRow, limitMs: number): Promise<boolean> {
  if (await hasJobs(ports.store, ports, row, limitMs)) return true;
  const health = await healthOf(ports, row);
  return health !== null && (health.activeJobs > 0 || health.idleMs < limitMs);
}

/** Returns null when the sandbox does not run, so nothing works in it. */
async function healthOf(ports: LifecyclePorts, row: SandboxRow): Promise<GuestHealth | null> {
  const endpoint = await ports.driver(row.driver).find(row.projectId);
  return endpoint === null ? null : endpoint.guest.health();
}
