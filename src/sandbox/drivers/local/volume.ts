import { execFile } from "node:child_process";
import { lstatSync, mkdirSync } from "node:fs";
import { promisify } from "node:util";
import { WavesmithError } from "../../../domain/errors.ts";
import { findProgram } from "../../host/programs.ts";
import type { HostUser } from "../../host/users.ts";

const run = promisify(execFile);
const diskUsageLimitMs = 2000;

/**
 * Makes the folder (mode 0700) if need be, and gives it with its contents to `owner`. Never follows
 * a link.
 */
export async function prepareFolder(path: string, owner: HostUser | null): Promise<void> {
  mkdirSync(path, { recursive: true, mode: 0o700 });
  const found = lstatSync(path);
  if (!found.isDirectory()) {
    throw new WavesmithError("sandbox-unavailable", `${path} is not a folder`, { remedy: `move ${path} away` });
  }
  // `-P` and `-h` name links themselves; -R changes a volume that another user's Wavesmith filled.
  if (owner === null || found.uid === owner.uid) return;
  // A person's PATH need not have the system's folders, where bubblewrap is found as well.
  await run(findProgram("chown", "") ?? "chown", ["-RPh", `${owner.uid}:${owner.gid}`, "--", path]);
}

/** Returns the folder's size on disk; null when it is absent or counting takes longer. */
export const folderDiskBytes = (path: string, limitMs = diskUsageLimitMs): Promise<number | null> =>
  countBytes(["-sk"], path, limitMs);

const bySize = process.platform === "linux" ? "--apparent-size" : "-A";

/**
 * Returns what the folder counts against its limit: its size on disk, or the sum of its files'
 * sizes where that is more; null when it is absent or counting takes longer.
 */
export async function folderLimitedBytes(path: string, limitMs: number): Promise<number | null> {
  const [onDisk, ofFiles] = await Promise.all([
    countBytes(["-sk"], path, limitMs),
    countBytes(["-sk", bySize], path, limitMs),
  ]);
  // Not every `du` counts sizes.
  return onDisk === null ? null : Math.max(onDisk, ofFiles ?? 0);
}

async function countBytes(options: readonly string[], path: string, limitMs: number): Promise<number | null> {
  const output = await run("du", [...options, "--", path], { timeout: limitMs }).catch(
    // du exits 1 when it could not read a folder, and has counted the rest.
    (failure: { killed?: boolean; stdout?: string }) => (failure.killed ? {} : failure),
  );
  const kibibytes = Number.parseInt(output.stdout ?? "", 10);
  return Number.isNaN(kibibytes) ? null : kibibytes * 1024;
}
