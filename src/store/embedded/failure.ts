import { open, statfs } from "node:fs/promises";
import { WavesmithError } from "../../domain/errors.ts";
import type { ClusterPlace } from "./place.ts";

const littleSpaceBytes = 64 * 1024 * 1024;

/**
 * Makes the error for a failed embedded Postgres: its last output, and whether the disk is full.
 */
export async function databaseFailure(what: string, place: ClusterPlace, output: string): Promise<WavesmithError> {
  const lines = output.trim().split("\n").slice(-8).join("\n");
  const freeBytes = await freeBytesAt(place.dataDir);
  const full = freeBytes < littleSpaceBytes || /No space left on device|Disk quota exceeded/.test(output);
  const space = full
    ? ` There is too little room: ${Math.floor(freeBytes / 1_048_576)} MiB are free at ${place.dataDir}.`
    : "";
  return new WavesmithError("database", `${what}.${space}\n${lines}`.trimEnd(), {
    remedy: full ? `free some space at ${place.dataDir}, then run the command again` : `see ${place.logFile}`,
    retryable: full,
  });
}

async function freeBytesAt(folder: string): Promise<number> {
  try {
    const { bavail, bsize } = await statfs(folder);
    return bavail * bsize;
  } catch {
    return Number.POSITIVE_INFINITY; // some file systems do not report it; the output may
  }
}

/** Returns the text after `offset`, at most the last 8 kB; empty if the file is unreadable. */
export async function tailOf(path: string, offset: number): Promise<string> {
  const file = await open(path, "r").catch(() => null);
  if (file === null) return "";
  try {
    const { size } = await file.stat();
    const from = Math.max(offset, size - 8_192);
    const { buffer, bytesRead } = await file.read(
      Buffer.alloc(Math.max(0, size - from)),
      0,
      Math.max(0, size - from),
      from,
    );
    return buffer.toString("utf8", 0, bytesRead);
  } finally {
    await file.close();
  }
}
