import { chmod, lstat, readdir, rm } from "node:fs/promises";
import { systemCode } from "../faults.ts";

/**
 * Removes a folder and its contents, including folders that a job made unreadable; succeeds when it
 * does not exist.
 */
export async function removeTree(path: string): Promise<void> {
  try {
    await rm(path, { recursive: true, force: true, maxRetries: 2 });
  } catch (error) {
    const code = systemCode(error);
    if (code !== "EACCES" && code !== "EPERM") throw error;
    await openFolders(path);
    await rm(path, { recursive: true, force: true, maxRetries: 2 });
  }
}

/** Makes every folder of a tree writable for us; follows no symlink. */
async function openFolders(path: string): Promise<void> {
  const stats = await lstat(path);
  if (!stats.isDirectory()) return;
  await chmod(path, 0o700);
  for (const entry of await readdir(path, { withFileTypes: true })) {
    if (entry.isDirectory()) await openFolders(`${path}/${entry.name}`);
  }
}
