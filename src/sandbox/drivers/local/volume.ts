import { execFile } from "node:child_process";
import { lstatSync, mkdirSync } from "node:fs";
import { chmod, lstat, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { WavesmithError } from "../../../domain/errors.ts";
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
  if (owner !== null && found.uid !== owner.uid) await run("chown", ["-RPh", `${owner.uid}:${owner.gid}`, "--", path]);
}

/**
 * Removes a folder that jobs filled, including read-only parts. Never follows a link; safe to call
 * twice.
 */
export async function removeFolder(path: string): Promise<void> {
  const found = await lstat(path).catch(() => null);
  if (found?.isDirectory() && process.geteuid?.() !== 0) await makeRemovable(path);
  await rm(path, { recursive: true, force: true, maxRetries: 3 });
}

/** Makes every folder writable, because only a folder's mode prevents removing its contents. */
async function makeRemovable(root: string): Promise<void> {
  const folders = [root];
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    if (((await lstat(folder)).mode & 0o700) !== 0o700) await chmod(folder, 0o700);
    for (const entry of await readdir(folder, { withFileTypes: true })) {
      if (entry.isDirectory()) folders.push(join(folder, entry.name));
    }
  }
}

/** Returns the folder's size on disk; null when it is absent or counting takes longer. */
export async function diskBytes(path: string, limitMs = diskUsageLimitMs): Promise<number | null> {
  const counted = await run("du", ["-sk", "--", path], { timeout: limitMs }).catch(
    // du exits 1 when it could not read a folder, and has counted the rest.
    (failure: { killed?: boolean; stdout?: string }) => (failure.killed ? {} : failure),
  );
  const kibibytes = Number.parseInt(counted.stdout ?? "", 10);
  return Number.isNaN(kibibytes) ? null : kibibytes * 1024;
}
