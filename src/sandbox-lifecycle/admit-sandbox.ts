import { limitsFor } from "../domain/access.ts";
import { WavesmithError } from "../domain/errors.ts";
import { present } from "../domain/known.ts";
import { type MachineRoom, roomRemedy } from "../domain/sandbox/sandbox.ts";
import { sandboxBuildStatuses } from "../domain/status.ts";
import type { BuildRow, SandboxRow, StoreTransaction } from "../store/port.ts";
import { networkPolicyOf } from "./network-policy.ts";
import type { LifecyclePorts } from "./port.ts";
import { bootSubject, emitSandboxEvent, presentStates } from "./sandbox-events.ts";
import { projectsAtWork, stopLongestIdle } from "./upkeep/idle-sandboxes.ts";
import { forgetGone } from "./upkeep/sandbox-health.ts";
import { mebibytes } from "./volume-limit.ts";

// The decision whether one more sandbox may run is made in the transaction that records it, under
// the tenant's row and one lock for the machine. A row counts from its admission, not from when its
// container appears.

/** The memory that a sandbox counts for before its agents have shown how much they need. */
const startBytes = 256 * 1024 ** 2;
/** For this long after its start, a sandbox's use does not show in the machine's figures. */
const settlingMs = 20_000;
const retryAfterMs = 10_000;
/**
 * A build that still waits has asked within this time, even when many tries have made its pauses
 * longer.
 */
const maxPauseMs = 120_000;

/** Why no more sandboxes may run, in words, and whose idle sandboxes hold the missing room. */
interface Shortage {
  readonly full: string;
  readonly idleOf: "tenant" | "machine" | null;
}

type Admission = { readonly row: SandboxRow } | Shortage;

/**
 * Records that the project's sandbox is to run, before anything is made (W9). Idle sandboxes of
 * other projects give way, the longest idle first. Fails with `capacity`, retryable, when the
 * tenant or the machine still has no room; the row holds the reason.
 */
export async function admitSandbox(ports: LifecyclePorts, build: BuildRow): Promise<SandboxRow> {
  let admission = await admit(ports, build);
  // A sandbox that was killed with its watcher counts until somebody looks, so look now.
  if ("full" in admission && (await forgetGone(ports, build.projectId))) admission = await admit(ports, build);
  // A preview starts again with its next request, so builds go first.
  while ("full" in admission && whyNoRoom(ports, await ports.machine.room()) !== null && (await ports.previews.evict()))
    admission = await admit(ports, build);
  if ("full" in admission && admission.idleOf !== null) admission = await admitInsteadOfIdle(ports, build);
  if ("row" in admission) return admission.row;
  throw new WavesmithError("capacity", `no room for another sandbox: ${admission.full}`, {
    retryable: true,
    retryAfterMs,
    remedy: roomRemedy,
  });
}

/**
 * One project at a time, so that a project that finds the room made by another stops nothing more.
 */
async function admitInsteadOfIdle(ports: LifecyclePorts, build: BuildRow): Promise<Admission> {
  const admission = await ports.store.alone(
    "room for sandboxes",
    async () => {
      for (;;) {
        const now = await admit(ports, build);
        if ("row" in now || now.idleOf === null) return now;
        if (!(await stopLongestIdle(ports, now.idleOf === "tenant" ? build.tenantId : null))) return now;
      }
    },
    { wait: true },
  );
  return present(admission, "the admission");
}

async function admit(ports: LifecyclePorts, build: BuildRow): Promise<Admission> {
  const room = await ports.machine.room();
  return ports.store.transaction("sandbox-intend", (transaction) => decide(transaction, ports, build, room));
}

async function decide(
  transaction: StoreTransaction,
  ports: LifecyclePorts,
  build: BuildRow,
  room: MachineRoom,
): Promise<Admission> {
  const { limits } = await transaction.lockTenant(build.tenantId);
  await transaction.lockMachine();
  const before = await presentSandbox(transaction, ports, build);
  const now = ports.clock.now();
  const most = limitsFor(limits, ports.tenantLimits).sandboxes;
  const shortage = await findShortage(transaction, ports, build, { room, most });
  const full = shortage?.full ?? null;
  const wanted = {
    state: "wanted" as const,
    reason: full,
    network: networkPolicyOf(build),
    limits: ports.sandboxPolicy.limits,
    checkedAt: now,
  };
  // A build that waits for room stands still on purpose, so nobody needs to wake it.
  if (full !== null) await transaction.builds.update({ id: build.id, status: sandboxBuildStatuses }, { movedAt: now });
  if (before !== null) {
    const [row] = await transaction.sandboxes.update({ id: before.id }, { ...wanted, usedAt: now });
    return shortage ?? { row: present(row, "the sandbox") };
  }
  const row = await transaction.sandboxes.insert({
    id: ports.ids("sandbox"),
    projectId: build.projectId,
    driver: build.sandboxDriver,
    createdAt: now,
    usedAt: now,
    ...wanted,
  });
  await emitSandboxEvent(transaction, row, { name: "sandbox/created", subject: row.id, facts: {} });
  return shortage ?? { row };
}

/** Returns the project's sandbox of this driver; one of another driver is removed. */
async function presentSandbox(
  transaction: StoreTransaction,
  ports: LifecyclePorts,
  { projectId, sandboxDriver }: BuildRow,
): Promise<SandboxRow | null> {
  const present = await transaction.sandboxes.find({ projectId, state: presentStates });
  if (present === null || present.driver === sandboxDriver) return present;
  const reason = `replaced by one of ${sandboxDriver}`;
  await transaction.sandboxes.update({ id: present.id }, { state: "removed", removedAt: ports.clock.now(), reason });
  if (present.state === "running")
    await emitSandboxEvent(transaction, present, {
      name: "sandbox/stopped",
      subject: bootSubject(present),
      facts: { reason },
    });
  return null;
}

/** Returns what keeps one more sandbox from running; null when nothing does. */
async function findShortage(
  transaction: StoreTransaction,
  ports: LifecyclePorts,
  build: BuildRow,
  { room, most }: { room: MachineRoom; most: number | null },
): Promise<Shortage | null> {
  const { projectId } = build;
  const rows = await transaction.sandboxes.list({ state: ["running", "wanted"] });
  const others = rows.filter((row) => row.projectId !== projectId && (row.state === "running" || row.reason === null));
  const first = await whoIsFirst(transaction, ports, build, { rows, others });
  const shortage =
    (await tenantShortage(transaction, build, others, most)) ??
    (await processorShortage(transaction, ports, others)) ??
    memoryShortage(ports, others, room) ??
    diskShortage(ports, room);
  if (shortage === null) return first === null ? null : { full: first, idleOf: null };
  // The room that a stop frees goes to the build that has waited longer, which asks for it itself.
  return first === null ? shortage : { ...shortage, idleOf: null };
}

async function tenantShortage(
  transaction: StoreTransaction,
  { tenantId }: BuildRow,
  others: readonly SandboxRow[],
  most: number | null,
): Promise<Shortage | null> {
  const count = (await transaction.projects.list({ tenantId, id: others.map((row) => row.projectId) })).length;
  if (most === null || count < most) return null;
  return { full: `${count} of this tenant's sandboxes are running, of at most ${most}`, idleOf: "tenant" };
}

/**
 * Only sandboxes that are busy, or about to be, count against the processors, because an idle one
 * uses none.
 */
async function processorShortage(
  transaction: StoreTransaction,
  { processors, sandboxPolicy: { limits, cpuOvercommit } }: LifecyclePorts,
  others: readonly SandboxRow[],
): Promise<Shortage | null> {
  const ids = others.map((row) => row.projectId);
  const atWork = await projectsAtWork(transaction, ids);
  const busy = others.filter((row) => row.state === "wanted" || atWork.has(row.projectId));
  const takenCpus = busy.reduce((sum, row) => sum + (row.limits ?? limits).cpus, 0);
  const most = processors * cpuOvercommit;
  if (busy.length === 0 || takenCpus + limits.cpus <= most) return null;
  return { full: `the ${busy.length} at work may use ${takenCpus} of ${most} processors to be promised`, idleOf: null };
}

/**
 * Returns who is before this build in the queue. Builds of a tenant get room in the order in which
 * they asked, and tenants with fewer running sandboxes before those with more. A build that stopped
 * asking holds up nobody.
 */
async function whoIsFirst(
  transaction: StoreTransaction,
  ports: LifecyclePorts,
  { tenantId, projectId, position }: BuildRow,
  { rows, others }: { rows: readonly SandboxRow[]; others: readonly SandboxRow[] },
): Promise<string | null> {
  const since = ports.clock.now().getTime() - maxPauseMs;
  const ids = rows
    .filter(({ state, reason, checkedAt }) => state === "wanted" && reason !== null && Number(checkedAt) > since)
    .map((row) => row.projectId)
    .filter((id) => id !== projectId);
  if (ids.length === 0) return null;
  const builds = await transaction.builds.list({ projectId: ids, status: "running" }, { by: "position" });
  const first = builds.find((other) => other.tenantId === tenantId && other.position < position);
  if (first !== undefined) return `build ${first.id} has been waiting for it longer`;
  const waiting = builds.filter((other) => other.tenantId !== tenantId).map((other) => other.tenantId);
  if (waiting.length === 0) return null;
  const running = await runningByTenant(transaction, others);
  const limits = await transaction.tenants.list({ id: waiting });
  const isPoorer = limits.some(({ id, limits: own }) => {
    const most = limitsFor(own, ports.tenantLimits).sandboxes ?? Number.POSITIVE_INFINITY;
    const count = running.get(id) ?? 0;
    return count < most && count < (running.get(tenantId) ?? 0);
  });
  return isPoorer ? "another tenant is waiting for it and runs fewer" : null;
}

async function runningByTenant(
  { projects }: StoreTransaction,
  rows: readonly SandboxRow[],
): Promise<ReadonlyMap<string, number>> {
  const counts = new Map<string, number>();
  for (const { tenantId } of await projects.list({ id: rows.map((row) => row.projectId) }))
    counts.set(tenantId, (counts.get(tenantId) ?? 0) + 1);
  return counts;
}

/** Returns why the machine has no room for another sandbox; null when it has room. */
export const whyNoRoom = (ports: LifecyclePorts, room: MachineRoom): string | null =>
  (memoryShortage(ports, [], room) ?? diskShortage(ports, room))?.full ?? null;

function memoryShortage(ports: LifecyclePorts, others: readonly SandboxRow[], room: MachineRoom): Shortage | null {
  const { reserveMemoryBytes } = ports.sandboxPolicy;
  const since = ports.clock.now().getTime() - settlingMs;
  const starting = others.filter((row) => row.startedAt === null || row.startedAt.getTime() > since).length;
  const memoryBytes = room.memoryBytes - starting * startBytes;
  if (memoryBytes >= reserveMemoryBytes + startBytes) return null;
  const full = `${mebibytes(memoryBytes)} of memory are left, and one takes ${mebibytes(startBytes)} with ${mebibytes(reserveMemoryBytes)} kept free`;
  return { full, idleOf: "machine" };
}

/** Stopping frees no disk, because a stopped sandbox keeps its volume. */
function diskShortage(ports: LifecyclePorts, { diskBytes }: MachineRoom): Shortage | null {
  const { reserveDiskBytes } = ports.sandboxPolicy;
  if (diskBytes >= reserveDiskBytes) return null;
  const full = `${mebibytes(diskBytes)} of disk are left, and ${mebibytes(reserveDiskBytes)} are kept free`;
  return { full, idleOf: null };
}
