import { messageOf } from "../../domain/errors.ts";
import { present } from "../../domain/known.ts";
import { isPreviewPlace } from "../../domain/sandbox/sandbox.ts";
import type { SandboxDriver, SandboxInfo } from "../../sandbox/port.ts";
import type { SandboxRow } from "../../store/port.ts";
import { recordBoot, settleIntent } from "../boots.ts";
import type { LifecyclePorts } from "../port.ts";
import { finishStop } from "../sandbox-ends.ts";
import { presentStates } from "../sandbox-events.ts";
import { withSandboxAlone } from "../sandbox-locks.ts";

// RS1. Drivers list only what carries this installation's mark, so nothing else is ever touched.
// Only the volumes of previews are removed here, because they hold nothing to keep.
// RS2. A difference may be a change in progress, so it must last for a grace period and is checked
// again under the project's lock. One process reconciles at a time.

const graceMs = 10 * 60_000;
/** A build that waits for room asks at least this often. */
const askedMs = 15 * 60_000;

export interface SandboxReconciler {
  /** Makes the database and the drivers agree. Null when another process is doing so. */
  reconcile(): Promise<Reconciled | null>;
}

interface Reconciled {
  /** Sandboxes that should have been stopped, or that no row knows. */
  readonly ended: string[];
  /** Rows that were wrong. */
  readonly mended: string[];
}

/**
 * Creates the reconciler. `driverNames` are drivers to check besides those in the database. It
 * remembers what it saw, for the grace period.
 */
export function createSandboxReconciler(ports: LifecyclePorts, driverNames: readonly string[]): SandboxReconciler {
  const strangersSince = new Map<string, number>();
  const reconcile = async (): Promise<Reconciled> => {
    const done: Reconciled = { ended: [], mended: [] };
    const rows = await ports.store.sandboxes.list({}, { by: "createdAt" });
    for (const name of new Set([...driverNames, ...rows.map((row) => row.driver)])) {
      try {
        await reconcileDriver(ports, ports.driver(name), rows, { done, strangersSince });
      } catch (error) {
        ports.log.warn(`the sandboxes of ${name} could not be compared with the database: ${messageOf(error)}`);
      }
    }
    return done;
  };
  return { reconcile: () => ports.store.alone("reconcile sandboxes", reconcile, { wait: false }) };
}

interface Comparison {
  readonly done: Reconciled;
  readonly strangersSince: Map<string, number>;
}

async function reconcileDriver(
  ports: LifecyclePorts,
  driver: SandboxDriver,
  rows: readonly SandboxRow[],
  comparison: Comparison,
): Promise<void> {
  const { done } = comparison;
  const own = rows.filter((row) => row.driver === driver.name);
  const present = own.filter((row) => presentStates.includes(row.state));
  if (own.length === 0 && (await driver.check()).length > 0) return; // A driver that does not work here has no sandboxes here.
  const infos = await driver.list();
  for (const row of present) {
    const info = infos.find((one) => one.sandboxId === row.id) ?? null;
    if (await reconcileRow(ports, row)) done.mended.push(row.id);
    else if (await endLeftRunning(ports, row, info)) done.ended.push(row.id);
  }
  done.ended.push(...(await ports.previews.sweep(driver, infos)));
  const known = new Map(rows.map((row) => [row.id, row]));
  for (const info of infos) {
    if (info.sandboxId === null || isPreviewPlace(info.projectId) || present.some((row) => row.id === info.sandboxId))
      continue;
    const row = known.get(info.sandboxId) ?? null;
    if (row !== null && row.driver !== driver.name && presentStates.includes(row.state)) continue; // Its own driver handles it.
    if (isOver(ports, since(ports, info, row, comparison)) && (await endStranger(ports, driver, info)))
      done.ended.push(info.sandboxId);
  }
}

const isOver = (ports: LifecyclePorts, from: number, ms = graceMs): boolean => ports.clock.now().getTime() - from >= ms;

/** Fixes a row that stays wrong: an intent nobody acted on, or a build that stopped waiting. */
async function reconcileRow(ports: LifecyclePorts, row: SandboxRow): Promise<boolean> {
  if (row.state !== "wanted") return false;
  const waits = row.reason !== null;
  if (!isOver(ports, (row.checkedAt ?? row.usedAt).getTime(), waits ? askedMs : graceMs)) return false;
  const mended = await withSandboxAlone(ports, row.projectId, () => settleIntent(ports, row), { wait: false });
  return mended === true;
}

/** Ends a sandbox that runs although its row says `stopped`. */
async function endLeftRunning(ports: LifecyclePorts, row: SandboxRow, info: SandboxInfo | null): Promise<boolean> {
  const isUnconfirmed = row.state === "stopped" && row.stoppedAt === null && row.bootId !== null;
  if (!isUnconfirmed && (info?.state !== "running" || !["stopped", "lost"].includes(row.state))) return false;
  if (!isOver(ports, Math.max(row.usedAt.getTime(), row.stoppedAt?.getTime() ?? 0))) return false;
  const ended = await withSandboxAlone(ports, row.projectId, () => endOrAdopt(ports, row), { wait: false });
  return ended === true;
}

/**
 * Ends the sandbox, or adopts it when something works in it, because use counts for more than a
 * row.
 */
async function endOrAdopt(ports: LifecyclePorts, row: SandboxRow): Promise<boolean> {
  const { id, state, bootId } = row;
  const present = await ports.store.sandboxes.find({ id, state, ...(bootId === null ? {} : { bootId }) });
  if (present === null) return false;
  const found = await ports.driver(row.driver).find(row.projectId);
  if (found !== null && (await found.guest.health()).activeJobs > 0) {
    await recordBoot(ports, present, found);
    return false;
  }
  await finishStop(ports, present, present.reason ?? "left running");
  return true;
}

/** Returns since when no row counts on it, as far as known. */
function since(
  ports: LifecyclePorts,
  info: SandboxInfo,
  row: SandboxRow | null,
  { strangersSince }: Comparison,
): number {
  const now = ports.clock.now().getTime();
  const known = row?.removedAt?.getTime() ?? (info.startedAt === null ? null : Date.parse(info.startedAt));
  if (known !== null) return known;
  const seen = strangersSince.get(present(info.sandboxId, "info.sandboxId")) ?? now;
  strangersSince.set(present(info.sandboxId, "info.sandboxId"), seen);
  return seen;
}

/** Ends a sandbox that no row counts on, unless another of its project has replaced it. */
async function endStranger(
  ports: LifecyclePorts,
  driver: SandboxDriver,
  { projectId, sandboxId }: SandboxInfo,
): Promise<boolean> {
  const ended = await withSandboxAlone(
    ports,
    projectId,
    async () => {
      if ((await ports.store.sandboxes.find({ projectId, driver: driver.name, state: presentStates })) !== null)
        return false;
      const [same] = (await driver.list()).filter((info) => info.projectId === projectId);
      if (same?.sandboxId !== sandboxId) return false;
      await driver.remove(projectId, { volume: false });
      return true;
    },
    { wait: false },
  );
  return ended === true;
}
