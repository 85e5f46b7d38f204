import { messageOf, WavesmithError } from "../domain/errors.ts";
import { setupCacheFolder } from "../domain/sandbox/volume-paths.ts";
import type { GuestHealth } from "../sandbox/port.ts";
import type { SandboxRow } from "../store/port.ts";
import type { LifecyclePorts } from "./port.ts";

// Where nothing limits a volume's size, it is counted while its sandbox works. Above the limit, the
// row's `reason` says so: people see it, and no job starts until a count is below the limit.

/** Counting many small files is slow, and the machine may be busy. */
const countMs = 20_000;
const retryAfterMs = 10_000;

/** Each process reports a volume that cannot be counted once per boot. */
const toldUncounted = new Set<string>();

/**
 * Counts the volume of a running sandbox when due, and records whether it is above its limit. Never
 * fails.
 */
export async function watchVolume(ports: LifecyclePorts, row: SandboxRow, health: GuestHealth): Promise<void> {
  const workedAt = ports.clock.now().getTime() - (health.activeJobs > 0 ? 0 : health.idleMs);
  // A volume without work since the last look has not grown.
  if (row.reason === null && row.checkedAt !== null && workedAt < row.checkedAt.getTime()) return;
  await whyOver(ports, row).catch((error: unknown) =>
    ports.log.warn(`cannot measure the volume of sandbox ${row.id}: ${messageOf(error)}`),
  );
}

/**
 * Fails with `capacity` when the project's volume is above its limit: retryable while other jobs
 * run, because their end frees space, otherwise for good. A job that was already started passes, so
 * that starting it is idempotent.
 */
export async function requireVolumeRoom(ports: LifecyclePorts, projectId: string, jobKey: string): Promise<void> {
  const row = await ports.store.sandboxes.find({ projectId, state: "running" });
  if (row === null || row.reason === null) return;
  const known = await ports.store.jobs.find({ key: jobKey });
  if (known !== null && known.status !== "intended") return;
  // Somebody may have freed space since the last count.
  if ((await whyOver(ports, row)) === null) return;
  await dropSetupCache(ports, row);
  const why = await whyOver(ports, row);
  if (why === null) return;
  const others = await ports.store.jobs.find({ projectId, status: "running", ownerKind: ["attempt", "gate"] });
  const later = others === null ? {} : { retryable: true, retryAfterMs };
  const { name } = await ports.store.projects.get({ id: projectId });
  // The name goes into a command to type, so quote it.
  const word = /^[\w.-]+$/.test(name) ? name : projectId;
  throw new WavesmithError("capacity", `the sandbox of ${name} accepts no more jobs: ${why}`, {
    ...later,
    remedy:
      `remove the cache of tasks: wavesmith sandbox exec ${word} -- sh -c 'rm -rf ../cache/*'; or everything, which is rebuilt from the ` +
      `repository: wavesmith sandbox rm ${word} --volume; or raise WAVESMITH_SANDBOX_DISK and stop the sandbox`,
  });
}

/** Drops what `setup` left for other trees, which then set up again. */
async function dropSetupCache(ports: LifecyclePorts, { driver, projectId }: SandboxRow): Promise<void> {
  const endpoint = await ports.driver(driver).find(projectId);
  await endpoint?.guest.remove(setupCacheFolder, { recursive: true });
}

/**
 * Returns the reason when the volume is above its limit now; null when it is not. Updates the row.
 */
async function whyOver(ports: LifecyclePorts, row: SandboxRow): Promise<string | null> {
  const driver = ports.driver(row.driver);
  if ((await driver.capabilities()).disk !== "watched") return null;
  const takes = await driver.volumeBytes(row.projectId, countMs);
  if (takes === null) return uncounted(ports, row);
  const { diskBytes: most } = row.limits ?? ports.sandboxPolicy.limits;
  const reason = takes > most ? `its volume takes ${mebibytes(takes)} of at most ${mebibytes(most)}` : null;
  if (reason === row.reason) return reason;
  const { id, bootId } = row;
  const [changed] = await ports.store.sandboxes.update(
    { id, bootId, state: "running", reason: row.reason },
    { reason },
  );
  // The quicker process reports it.
  if (changed !== undefined && reason !== null && row.reason === null)
    ports.log.warn(`sandbox ${id}: ${reason}; it accepts no more jobs`);
  return reason;
}

/** The last result still holds. */
function uncounted(ports: LifecyclePorts, { id, bootId, reason }: SandboxRow): string | null {
  const reportedKey = `${id}/${bootId}`;
  if (!toldUncounted.has(reportedKey))
    ports.log.warn(
      `the volume of sandbox ${id} could not be counted within ${countMs / 1000} s: whether it keeps to its limit is not known`,
    );
  toldUncounted.add(reportedKey);
  return reason;
}

export const mebibytes = (bytes: number): string => `${Math.max(0, Math.floor(bytes / 1024 ** 2))} MiB`;
