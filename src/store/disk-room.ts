import { rmSync, statfsSync } from "node:fs";
import { rename, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { isDiskFull, saysDiskFull } from "../domain/disk-full.ts";

// Handles a disk that fills up during a build: one warning replaces those of everything that fails,
// and a reserve file leaves room to record what happens.

// Space for a few segments of the database's log, and for other writes.
const reserveBytes = 4 * 1024 * 1024;
const ampleBytes = 128 * 1024 * 1024;
const littleBytes = 4 * 1024 * 1024;
const sayAgainMs = 30_000;
const freshMs = 5_000;

export interface DiskRoom {
  /** Passes a warning on; warnings about a full disk become one line, at most twice a minute. */
  warn(message: string, error?: unknown): void;
  /** Returns a message that the disk is full; null when it is not. */
  trouble(): string | null;
  /** Creates the reserve file, if there is plenty of room. */
  reserve(): Promise<void>;
}

/** Creates the guard of a data directory's disk. */
export function createDiskRoom(dataDir: string, warn: (message: string) => void): DiskRoom {
  const path = join(dataDir, "reserve");
  const kinds = new Map<string, number>();
  let seenAt = Number.NEGATIVE_INFINITY;
  const seldom = (kind: string): boolean => {
    const before = kinds.get(kind);
    if (before !== undefined && Date.now() - before < sayAgainMs) return false;
    kinds.set(kind, Date.now());
    return true;
  };
  const line = (): string => `the disk of ${dataDir} is full (${Math.floor(freeBytes(dataDir) / 1_048_576)} MB free)`;
  const met = (): void => {
    seenAt = Date.now();
    rmSync(path, { force: true });
    const text = `${line()}: the build waits. Free some space and it continues; after Ctrl-C, \`wavesmith retry\` does`;
    if (seldom("full")) warn(text);
  };
  return {
    warn(message, error) {
      if (saysDiskFull(message) || isDiskFull(error)) return met();
      // Other failures at such a time are consequences and repeat, so show each kind rarely.
      if (Date.now() - seenAt < sayAgainMs && !seldom(kindOf(message))) return;
      warn(message);
    },
    trouble: () => (Date.now() - seenAt < freshMs || freeBytes(dataDir) < littleBytes ? line() : null),
    async reserve() {
      const known = await stat(path).catch(() => null); // usually there is none yet
      if (known !== null || freeBytes(dataDir) < ampleBytes) return;
      const draft = `${path}.${process.pid}`;
      await writeFile(draft, Buffer.alloc(reserveBytes), { mode: 0o600 });
      await rename(draft, path);
    },
  };
}

/** Returns a warning without its ids, numbers and paths. */
const kindOf = (message: string): string =>
  message.replace(/\b[a-z]+_[0-9a-z]{8,}\b|"[^"]*"|\/\S+|[0-9a-f]{8,}|\d+/g, "…").slice(0, 80);

function freeBytes(folder: string): number {
  try {
    const { bavail, bsize } = statfsSync(folder);
    return bavail * bsize;
  } catch {
    return Number.POSITIVE_INFINITY; // some file systems do not report it; a failed write will
  }
}
