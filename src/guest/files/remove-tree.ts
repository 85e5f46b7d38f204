// Removes what jobs made. A job can close its folders, and nest them deeper than a path can name.
import { randomBytes } from "node:crypto";
import { chmod, lstat, readdir, rename, rm } from "node:fs/promises";
import { systemCode } from "../faults.ts";

const maxTries = 10;
/** Linux takes paths of 4,095 bytes; a name may take 255. */
export const longestPathBytes = 3_000;
const slash = Buffer.from("/");
const needsOpening: ReadonlySet<string | null> = new Set(["EACCES", "EPERM", "ENAMETOOLONG"]);

/**
 * Removes a folder and its contents, including folders that a job made unreadable or nested too
 * deep; succeeds when it does not exist, or when something else removes parts of it meanwhile.
 */
export async function removeTree(path: string): Promise<void> {
  for (let tried = 1; ; tried += 1) {
    try {
      return await removeOnce(path);
    } catch (error) {
      if (systemCode(error) !== "ENOENT" || tried === maxTries) throw error;
    }
  }
}

async function removeOnce(path: string): Promise<void> {
  try {
    await rm(path, { recursive: true, force: true, maxRetries: 2 });
  } catch (error) {
    if (!needsOpening.has(systemCode(error))) throw error;
    await openFolders(Buffer.from(path));
    await rm(path, { recursive: true, force: true, maxRetries: 2 });
  }
}

/** Returns the path of an entry. Names are bytes, of any encoding. */
export const childOf = (folder: Buffer, name: Buffer): Buffer => Buffer.concat([folder, slash, name]);

/** Returns a path for a folder that lies too deep, to be moved up into `top`. */
export const pathAbove = (top: Buffer): Buffer => childOf(top, Buffer.from(randomBytes(12).toString("hex")));

/** Makes every folder of a tree writable for us, and moves up what lies too deep. */
async function openFolders(top: Buffer): Promise<void> {
  if (!(await lstat(top)).isDirectory()) return;
  const waiting = [top];
  for (let folder = waiting.pop(); folder !== undefined; folder = waiting.pop()) {
    await chmod(folder, 0o700);
    for (const entry of await readdir(folder, { withFileTypes: true, encoding: "buffer" })) {
      if (!entry.isDirectory()) continue;
      const child = childOf(folder, entry.name as unknown as Buffer);
      if (child.length <= longestPathBytes) {
        waiting.push(child);
        continue;
      }
      await chmod(child, 0o700); // Moving a folder writes to it.
      const above = pathAbove(top);
      await rename(child, above);
      waiting.push(above);
    }
  }
}
