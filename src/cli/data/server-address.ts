import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";

// The file `serve-address` says where the server of a data directory answers, for commands on this
// machine. A killed server leaves it behind, so readers try the address.

const fileIn = (dataDir: string): string => join(dataDir, "serve-address");

/**
 * Records where the server answers; the result removes that record, unless a later one replaced it.
 */
export async function recordAddress(dataDir: string, origin: string): Promise<() => Promise<void>> {
  const path = fileIn(dataDir);
  const text = `${origin}\n`;
  await writeFile(`${path}.${process.pid}`, text);
  await rename(`${path}.${process.pid}`, path);
  return async () => {
    if ((await readFile(path, "utf8").catch(() => null)) === text) await rm(path, { force: true });
  };
}

/** Returns the recorded address; null if there is none. */
export async function readAddress(dataDir: string): Promise<string | null> {
  const text = await readFile(fileIn(dataDir), "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return null;
    throw error;
  });
  return text === null ? null : text.trim();
}

const answerMs = 2_000;

/** Returns the recorded address if a server answers there; otherwise null. */
export async function findServer(dataDir: string): Promise<string | null> {
  const origin = await readAddress(dataDir);
  if (origin === null) return null;
  try {
    const { ok } = await fetch(`${origin}/healthz`, { signal: AbortSignal.timeout(answerMs) });
    return ok ? origin : null;
  } catch {
    return null; // it was killed
  }
}
