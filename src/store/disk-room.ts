import { rmSync, statfsSync } from "node:fs";
import { rename, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { isDiskFull, saysDiskFull } from "../domain/disk-full.ts";

// A disk that becomes full under a build: said once instead of by everything that fails of it, and
// met with a reserve, so that what there is to record of it can still be recorded.

const reserveBytes = 16 * 1024 * 1024;
const ampleBytes = 8 * reserveBytes;
const littleBytes = 4 * 1024 * 1024;
const sayAgainMs = 30_000;
const freshMs = 5_000;

export interface DiskRoom {
  /** Passes a warning on; those of a full disk become one plain line, at most twice a minute. */
  warn(message: string, error?: unknown): void;
  /** That the disk is full, in words; null when it is not. */
  trouble(): string | null;
  /** Keeps room for bad times, if there is ample now. */
  reserve(): Promise<void>;
}

/** Watches over the room on the disk of a data directory. */
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
    const text = `${line()}: the build waits; free some room, or Ctrl-C and \`wavesmith resume\``;
    if (seldom("full")) warn(text);
  };
  return {
    warn(message, error) {
      if (saysDiskFull(message) || isDiskFull(error)) return met();
      // What else goes wrong in such a time follows from it, and comes again and again.
      if (Date.now() - seenAt < sayAgainMs && !seldom(kindOf(message))) return;
      warn(message);
    },
    trouble: () => (Date.now() - seenAt < freshMs || freeBytes(dataDir) < littleBytes ? line() : null),
    async reserve() {
      const known = await stat(path).catch(() => null); // Most often there is none yet.
      if (known !== null || freeBytes(dataDir) < ampleBytes) return;
      const draft = `${path}.${process.pid}`;
      await writeFile(draft, Buffer.alloc(reserveBytes), { mode: 0o600 });
      await rename(draft, path);
    },
  };
}

/** A warning without its ids, numbers and places. */
const kindOf = (message: string): string =>
  message.replace(/\b[a-z]+_[0-9a-z]{8,}\b|"[^"]*"|\/\S+|[0-9a-f]{8,}|\d+/g, "…").slice(0, 80);

function freeBytes(folder: string): number {
  try {
    const { bavail, bsize } = statfsSync(folder);
    return bavail * bsize;
  } catch {
    return Number.POSITIVE_INFINITY; // Some file systems do not tell; what fails on them does.
  }
}
