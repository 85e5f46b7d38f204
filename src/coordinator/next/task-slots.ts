import { limitsFor } from "../../domain/access.ts";
import { type SlotUse, slotsFor } from "../../domain/fair-slots.ts";
import { liveAttemptStatuses } from "../../domain/status.ts";
import type { BuildRow, StoreTransaction } from "../../store/port.ts";
import type { Ports } from "../port.ts";
import { slotsIn } from "./parallelism.ts";

// Tenants share the tasks that may run at once.
// TS1. The transaction that starts tasks counts the running ones under its own lock, the last
// one that it takes, so that no two use the same slot, and no deadlock can arise.
// TS2. A tenant with tasks that were held back gets its fair share before others get more than
// theirs. A build counts as held back only while a process asks for its tasks again.
// TS3. A request sees only its tenant's rows, so it starts no task that a limit may concern. The
// reconciler starts it.

/** The reconciler asks again every second. */
const heldBackMs = 15_000;

type SlotPorts = Pick<Ports, "clock" | "processors" | "memoryBytes" | "taskSlots" | "tenantLimits" | "seesAllTenants">;

/** Returns those of a build's tasks that have a slot, and records whether others were held back. */
export async function tasksWithSlots(
  transaction: StoreTransaction,
  ports: SlotPorts,
  build: BuildRow,
  keys: readonly string[],
): Promise<readonly string[]> {
  const free = await freeSlots(transaction, ports, build);
  const started = keys.slice(0, free);
  const isHeldBack = started.length < keys.length;
  const now = ports.clock.now();
  // A build that waits for a slot makes no progress on purpose, so nothing needs to wake it.
  if (isHeldBack) await transaction.builds.update({ id: build.id }, { heldBackAt: now, movedAt: now });
  else if (build.heldBackAt !== null) await transaction.builds.update({ id: build.id }, { heldBackAt: null });
  return started;
}

/** Returns how many more tasks a build's tenant may start now. */
async function freeSlots(transaction: StoreTransaction, ports: SlotPorts, build: BuildRow): Promise<number> {
  const { taskSlots, seesAllTenants } = ports;
  const limit = (await taskLimits(transaction, ports, [build.tenantId])).get(build.tenantId) ?? null;
  if (taskSlots === null && limit === null) return Number.POSITIVE_INFINITY;
  if (!seesAllTenants) return 0;
  await transaction.lockRunningTasks();
  const uses = await slotUses(transaction, ports, build.tenantId);
  const isAlone = [...uses].every(([id, { running, waits }]) => id === build.tenantId || (running === 0 && !waits));
  const total = taskSlots === "auto" ? (isAlone ? null : slotsIn(ports)) : taskSlots;
  return slotsFor(build.tenantId, uses, total);
}

/** Counts the running tasks of each tenant with a running build, and finds who waits for more. */
async function slotUses(
  transaction: StoreTransaction,
  ports: SlotPorts,
  asking: string,
): Promise<ReadonlyMap<string, SlotUse>> {
  const builds = await transaction.builds.pick({ status: ["running", "cancelling"] }, ["id", "tenantId", "heldBackAt"]);
  const live = await transaction.attempts.pick({ status: liveAttemptStatuses, kind: "task" }, ["buildId"]);
  const tenantOf = new Map(builds.map(({ id, tenantId }) => [id, tenantId]));
  const running = new Map<string, number>();
  for (const { buildId } of live) {
    const tenantId = tenantOf.get(buildId);
    if (tenantId !== undefined) running.set(tenantId, (running.get(tenantId) ?? 0) + 1);
  }
  const since = ports.clock.now().getTime() - heldBackMs;
  const waiting = new Set<string>(
    builds.filter(({ heldBackAt }) => Number(heldBackAt) > since).map(({ tenantId }) => tenantId),
  );
  const ids = [...new Set<string>([asking, ...tenantOf.values()])];
  const limits = await taskLimits(transaction, ports, ids);
  return new Map(
    ids.map((id) => [
      id,
      {
        running: running.get(id) ?? 0,
        limit: limits.get(id) ?? null,
        waits: id === asking || waiting.has(id),
      },
    ]),
  );
}

async function taskLimits(
  { tenants }: Pick<StoreTransaction, "tenants">,
  { tenantLimits }: Pick<SlotPorts, "tenantLimits">,
  ids: readonly string[],
): Promise<ReadonlyMap<string, number | null>> {
  const rows = await tenants.list({ id: ids });
  return new Map(rows.map(({ id, limits }) => [id, limitsFor(limits, tenantLimits).tasks]));
}
