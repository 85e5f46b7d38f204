// The sizes of volumes when their sandboxes stopped, because counting a volume that no container
// mounts would take a container.
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ProjectId } from "../../../../domain/ids.ts";

export interface KnownSize {
  readonly bytes: number;
  /** The time of the count. */
  readonly at: string;
}

const folderOf = (dataDir: string): string => join(dataDir, "docker");
const fileOf = (dataDir: string, projectId: ProjectId): string => join(folderOf(dataDir), `${projectId}.size.json`);

/** Records a size. It is only shown to people, so a full disk is not a failure. */
export function rememberSize(dataDir: string, projectId: ProjectId, bytes: number, at = new Date()): void {
  try {
    // Not `recursive`, which would make a removed data directory again.
    if (!existsSync(folderOf(dataDir))) mkdirSync(folderOf(dataDir), { mode: 0o700 });
    writeFileSync(fileOf(dataDir, projectId), JSON.stringify({ bytes, at: at.toISOString() } satisfies KnownSize));
  } catch {
    forgetSize(dataDir, projectId); // No size is better than an old one.
  }
}

/** Returns null when no size is known. */
export function knownSize(dataDir: string, projectId: ProjectId): KnownSize | null {
  try {
    return JSON.parse(readFileSync(fileOf(dataDir, projectId), "utf8")) as KnownSize;
  } catch {
    return null; // Never counted, or truncated by a power failure.
  }
}

export function forgetSize(dataDir: string, projectId: ProjectId): void {
  rmSync(fileOf(dataDir, projectId), { force: true });
}
