import { randomBytes } from "node:crypto";
import { link, open, readFile, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { WavesmithError } from "../domain/errors.ts";

/** A key in a file of the data directory, used when no setting names one. */
export interface KeyFile {
  readonly key: string;
  readonly path: string;
  /** Whether this call created it. */
  readonly isNew: boolean;
}

/** `serve-key` is what `serve` requires; `webhook-key` signs what `notify` sends. */
type KeyName = "serve-key" | "webhook-key";

/**
 * Reads a key of a data directory; on first use creates it as a file that only its owner can read.
 * Processes that do so at once agree on one key. Fails with `environment` if others can read the
 * file or it holds no key.
 */
export async function ensureKeyFile(dataDir: string, name: KeyName): Promise<KeyFile> {
  const path = join(dataDir, name);
  const present = await readKey(path);
  if (present !== null) return { key: present, path, isNew: false };
  const key = randomBytes(24).toString("base64url");
  const isNew = await writeOnce(path, `${key}\n`);
  return isNew ? { key, path, isNew } : { key: (await readKey(path))!, path, isNew };
}

/** Returns the key in the file of a data directory; null if it has none yet. */
export const keyOfDirectory = (dataDir: string): Promise<string | null> => readKey(join(dataDir, "serve-key"));

async function readKey(path: string): Promise<string | null> {
  const stats = await stat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return null;
    throw error;
  });
  if (stats === null) return null;
  const remedy = `remove ${path}: the next start creates another`;
  if ((stats.mode & 0o077) !== 0)
    throw new WavesmithError("environment", `other users can read the key in ${path}`, { remedy });
  const key = (await readFile(path, "utf8")).trim();
  if (/^[\w-]{32,}$/.test(key)) return key;
  throw new WavesmithError("environment", `there is no key in ${path}`, { remedy });
}

/**
 * Creates the file atomically: it gets its name once it is on disk. Returns false if another
 * process was first.
 */
async function writeOnce(path: string, text: string): Promise<boolean> {
  const unfinished = `${path}.${process.pid}.${randomBytes(4).toString("hex")}`;
  const file = await open(unfinished, "wx", 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
  try {
    await link(unfinished, path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  } finally {
    await rm(unfinished, { force: true });
  }
}
