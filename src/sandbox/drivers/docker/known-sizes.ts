// What volumes took when their sandboxes were stopped: to count one that no container has mounted
// would take a container.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ProjectId } from "../../../domain/ids.ts";

export interface KnownSize {
  readonly bytes: number;
  /** When it was counted. */
  readonly at: string;
}

const folderOf = (dataDir: string): string => join(dataDir, "docker");
const fileOf = (dataDir: string, projectId: ProjectId): string => join(folderOf(dataDir), `${projectId}.size.json`);

/** Nothing depends on it but what people are shown, so a disk without room is no failure. */
export function rememberSize(dataDir: string, projectId: ProjectId, bytes: number, at = new Date()): void {
  try {
    mkdirSync(folderOf(dataDir), { recursive: true, mode: 0o700 });
    writeFileSync(fileOf(dataDir, projectId), JSON.stringify({ bytes, at: at.toISOString() } satisfies KnownSize));
  } catch {
    forgetSize(dataDir, projectId); // Rather none than one from before.
  }
}

/** Null when none is known. */
export function knownSize(dataDir: string, projectId: ProjectId): KnownSize | null {
  try {
    return JSON.parse(readFileSync(fileOf(dataDir, projectId), "utf8")) as KnownSize;
  } catch {
    return null; // Never counted, or cut off by a power failure.
  }
}

export function forgetSize(dataDir: string, projectId: ProjectId): void {
  rmSync(fileOf(dataDir, projectId), { force: true });
}
