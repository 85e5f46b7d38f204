import { WavesmithError } from "../domain/errors.ts";
import type { MachineRoom } from "../domain/sandbox.ts";
import type { BuildRow, SandboxRow, StoreTransaction } from "../store/port.ts";
import { networkPolicyOf } from "./network-policy.ts";
import type { Ports } from "./port.ts";
import { bootSubject, presentStates, tellSandbox } from "./sandbox-events.ts";
import { mebibytes } from "./volume-limit.ts";
import { forgetGone } from "./watch-sandboxes.ts";

// Whether one more sandbox may run is decided in the transaction that says it is to run, under the tenant's row and one
// lock for the machine: a row counts from the moment it is admitted, not from when its container is seen.

/** What a sandbox takes of memory before its agents have shown how much they need. */
const startBytes = 256 * 1024 ** 2;
/** So long after its start what a sandbox takes does not show in the machine's figures yet. */
const settlingMs = 20_000;
const retryAfterMs = 10_000;
/** Whoever still waits has asked within this time, also where many tries have made the pauses longer. */
const longestPauseMs = 120_000;

type Admission = { readonly row: SandboxRow } | { readonly full: string };

/**
 * Writes down that the project's sandbox is to run, before anything is made (W9). Fails with `capacity`, retryable, when
 * its tenant or the machine has no room for one more; that it waits, and why, stands in its row then.
 */
export async function admitSandbox(ports: Ports, build: BuildRow): Promise<SandboxRow> {
  let admission = await admit(ports, build);
  // What was killed with whoever looked after it counts until somebody looks: that is now.
  if ("full" in admission && (await forgetGone(ports, build.projectId))) admission = await admit(ports, build);
  if ("row" in admission) return admission.row;
  const { maxRunningPerTenant } = ports.sandboxPolicy;
  const raise = maxRunningPerTenant === null ? "" : ", or raise WAVESMITH_SANDBOX_MAX";
  throw new WavesmithError("capacity", `no room for one more sandbox: ${admission.full}`, {
    retryable: true,
    retryAfterMs,
    remedy: `it is tried again after ${retryAfterMs / 1000} s; to make room: wavesmith sandbox stop PROJECT${raise}`,
  });
}

async function admit(ports: Ports, build: BuildRow): Promise<Admission> {
  const room = await ports.machine.room();
  return ports.store.transaction("sandbox-intend", (transaction) => decide(transaction, ports, build, room));
}

async function decide(
  transaction: StoreTransaction,
  ports: Ports,
  build: BuildRow,
  room: MachineRoom,
): Promise<Admission> {
  await transaction.lockTenant(build.tenantId);
  await transaction.lockMachine();
  const before = await presentSandbox(transaction, ports, build);
  const now = ports.clock.now();
  const full = await whyFull(transaction, ports, build, room);
  const wanted = {
    state: "wanted" as const,
    reason: full,
    network: networkPolicyOf(build),
    limits: ports.sandboxPolicy.limits,
    checkedAt: now,
  };
  // A build that waits for room stands still by its own will: nobody need ask on for it.
  if (full !== null)
    await transaction.builds.update({ id: build.id, status: ["running", "cancelling"] }, { movedAt: now });
  if (before !== null) {
    const [row] = await transaction.sandboxes.update({ id: before.id }, { ...wanted, usedAt: now });
    return full === null ? { row: row! } : { full };
  }
  const row = await transaction.sandboxes.insert({
    id: ports.ids("sandbox"),
    projectId: build.projectId,
    driver: build.sandboxDriver,
    createdAt: now,
    usedAt: now,
    ...wanted,
  });
  await tellSandbox(transaction, row, { name: "sandbox/created", subject: row.id });
  return full === null ? { row } : { full };
}

/** The project's sandbox of this driver; one of another driver gives its place up. */
async function presentSandbox(
  transaction: StoreTransaction,
  ports: Ports,
  { projectId, sandboxDriver }: BuildRow,
): Promise<SandboxRow | null> {
  const present = await transaction.sandboxes.find({ projectId, state: presentStates });
  if (present === null || present.driver === sandboxDriver) return present;
  const reason = `replaced by one of ${sandboxDriver}`;
  await transaction.sandboxes.update({ id: present.id }, { state: "removed", removedAt: ports.clock.now(), reason });
  if (present.state === "running")
    await tellSandbox(transaction, present, {
      name: "sandbox/stopped",
      subject: bootSubject(present),
      facts: { reason },
    });
  return null;
}

/** Why no further sandbox may run, in words; null when one may. */
async function whyFull(
  transaction: StoreTransaction,
  ports: Ports,
  build: BuildRow,
  room: MachineRoom,
): Promise<string | null> {
  const { tenantId, projectId } = build;
  const { maxRunningPerTenant: most, cpuOvercommit } = ports.sandboxPolicy;
  const rows = await transaction.sandboxes.list({ state: ["running", "wanted"] });
  const others = rows.filter((row) => row.projectId !== projectId && (row.state === "running" || row.reason === null));
  const ids = others.map((row) => row.projectId);
  const ofTenant = await transaction.projects.list({ tenantId, id: ids });
  if (most !== null && ofTenant.length >= most)
    return `${ofTenant.length} of this tenant's sandboxes run, of at most ${most}`;
  const { limits } = ports.sandboxPolicy;
  const taken = others.reduce((sum, row) => sum + (row.limits ?? limits).cpus, 0);
  const processors = ports.processors * cpuOvercommit;
  if (others.length > 0 && taken + limits.cpus > processors)
    return `the ${others.length} that run may use ${taken} of ${processors} processors to be promised`;
  return whyNoRoom(ports, others, room) ?? whoIsFirst(transaction, ports, build, rows);
}

/**
 * Builds of a tenant get what becomes free in the order in which they were asked for. One that asks no more, whatever
 * became of it, holds nobody up.
 */
async function whoIsFirst(
  transaction: StoreTransaction,
  ports: Ports,
  { tenantId, projectId, position }: BuildRow,
  rows: readonly SandboxRow[],
): Promise<string | null> {
  const since = ports.clock.now().getTime() - longestPauseMs;
  const ids = rows
    .filter(({ state, reason, checkedAt }) => state === "wanted" && reason !== null && Number(checkedAt) > since)
    .map((row) => row.projectId)
    .filter((id) => id !== projectId);
  if (ids.length === 0) return null;
  const builds = await transaction.builds.list({ tenantId, projectId: ids, status: "running" }, { by: "position" });
  const first = builds.find((other) => other.position < position);
  return first === undefined ? null : `build ${first.id} has waited for it longer`;
}

function whyNoRoom(ports: Ports, others: readonly SandboxRow[], room: MachineRoom): string | null {
  const { reserveMemoryBytes, reserveDiskBytes } = ports.sandboxPolicy;
  const since = ports.clock.now().getTime() - settlingMs;
  const starting = others.filter((row) => row.startedAt === null || row.startedAt.getTime() > since).length;
  const memoryBytes = room.memoryBytes - starting * startBytes;
  if (memoryBytes < reserveMemoryBytes + startBytes)
    return `${mebibytes(memoryBytes)} of memory are left, and one takes ${mebibytes(startBytes)} with ${mebibytes(reserveMemoryBytes)} kept free`;
  if (room.diskBytes < reserveDiskBytes)
    return `${mebibytes(room.diskBytes)} of disk are left, and ${mebibytes(reserveDiskBytes)} are kept free`;
  return null;
}
