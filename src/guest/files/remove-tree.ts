import { chmod, lstat, readdir, rm } from "node:fs/promises";
import { systemCode } from "../faults.ts";

/**
 * Removes a folder and all in it, also folders that a job made unreadable; succeeds when it is not
 * there.
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

/** Makes each folder of a tree ours to change; follows no symlink. */
async function openFolders(path: string): Promise<void> {
  const found = await lstat(path);
  if (!found.isDirectory()) return;
  await chmod(path, 0o700);
  for (const entry of await readdir(path, { withFileTypes: true })) {
    if (entry.isDirectory()) await openFolders(`${path}/${entry.name}`);
  }
}
