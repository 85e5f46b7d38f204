import { messageOf, WavesmithError } from "../../domain/errors.ts";
import { present } from "../../domain/known.ts";
import type { ArchiveFormat } from "../../sandbox/port.ts";
import type { SandboxRow, SnapshotRow } from "../../store/port.ts";
import type { LifecyclePorts } from "../port.ts";
import { withVolumeAlone } from "../sandbox-locks.ts";
import { countBytes } from "./counted-stream.ts";

// SN1. A snapshot's row says `writing` before its first byte is written. The bytes are written
// under a lock that ends with the process, so a process that gets the lock knows that nobody writes
// any more, and removes the incomplete bytes.
// SN2. The row says `kept` only once every byte is on the disk, with their number and checksum.

export interface SnapshotOptions {
  readonly reason: SnapshotRow["reason"];
  /** Defaults to the best format that the driver has here. */
  readonly format?: ArchiveFormat;
  /** Gets the number of bytes written so far. */
  readonly onProgress?: (bytes: number) => void;
}

/**
 * Packs the volume of a running or stopped sandbox and keeps it. Waits for another snapshot in
 * progress.
 */
export async function takeSnapshot(
  ports: LifecyclePorts,
  sandbox: SandboxRow,
  options: SnapshotOptions,
): Promise<SnapshotRow> {
  const kept = await withVolumeAlone(ports, sandbox.projectId, () => takeSnapshotAlone(ports, sandbox, options));
  return present(kept, "the snapshot"); // it waits, so it is never null
}

/** The same for a caller that holds the volume's lock. */
export async function takeSnapshotAlone(
  ports: LifecyclePorts,
  sandbox: SandboxRow,
  options: SnapshotOptions,
): Promise<SnapshotRow> {
  const format = await formatOf(ports, sandbox, options.format);
  const id = ports.ids("snapshot");
  const written = await ports.store.alone(writingLock(id), () => write(ports, sandbox, { ...options, format, id }), {
    wait: true,
  });
  return present(written, "the snapshot"); // it waits, so it is never null
}

/** The lock for writing a snapshot (SN1). */
export const writingLock = (id: string): string => `snapshot ${id}`;

async function formatOf(ports: LifecyclePorts, { driver }: SandboxRow, asked?: ArchiveFormat): Promise<ArchiveFormat> {
  const { archives } = await ports.driver(driver).capabilities();
  if (asked !== undefined && archives.includes(asked)) return asked;
  const [best] = archives;
  if (asked === undefined && best !== undefined) return best;
  throw new WavesmithError("unsupported", `the driver ${driver} cannot pack ${asked ?? "volumes"} here`, {
    remedy: best === undefined ? "install tar and zstd or gzip" : `take it as ${archives.join(" or ")}`,
  });
}

async function write(
  ports: LifecyclePorts,
  sandbox: SandboxRow,
  { id, format, reason, onProgress }: SnapshotOptions & { id: string; format: ArchiveFormat },
): Promise<SnapshotRow> {
  const { projectId, driver, id: sandboxId } = sandbox;
  const createdAt = ports.clock.now();
  const expiresAt = new Date(createdAt.getTime() + ports.sandboxPolicy.snapshotKeepMs);
  await ports.store.snapshots.insert({
    id,
    projectId,
    sandboxId,
    state: "writing",
    reason,
    format,
    createdAt,
    expiresAt,
  });
  try {
    const packed = await ports.driver(driver).pack(projectId, format);
    const kept = await ports.snapshots.put(
      id,
      format,
      countBytes(packed, (bytes) => onProgress?.(bytes)),
    );
    const [row] = await ports.store.snapshots.update(
      { id, state: "writing" },
      { state: "kept", ...kept, endedAt: ports.clock.now() },
    );
    return present(row, `snapshot ${id}`);
  } catch (error) {
    await failSnapshot(ports, id, messageOf(error)).catch((failure: unknown) =>
      // The retention cron removes it.
      ports.log.warn(`snapshot ${id} could not be cleared away: ${messageOf(failure)}`),
    );
    throw error;
  }
}

/** Records why a snapshot failed, and removes what was written of it. */
export async function failSnapshot(ports: LifecyclePorts, id: string, error: string): Promise<void> {
  const failed = { state: "failed", error, endedAt: ports.clock.now() } as const;
  await ports.store.snapshots.update({ id, state: "writing" }, failed);
  await ports.snapshots.remove(id);
}
