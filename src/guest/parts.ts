// What jobs, short commands and archives share.
import { createHash, randomBytes } from "node:crypto";
import { mkdirSync, rmdirSync } from "node:fs";
import { lstat, mkdir, mkdtemp, readdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemCode } from "./faults.ts";
import type { Isolation } from "./isolation.ts";
import type { Loopbacks } from "./loopback.ts";
import type { MemoryWatch } from "./out-of-memory.ts";
import type { Pipes } from "./pipes.ts";
import { isRunning, startTicks } from "./processes.ts";
import { removeTree } from "./remove-tree.ts";
import type { Volume } from "./volume.ts";

export interface GuestParts {
  readonly volume: Volume;
  readonly isolation: Isolation;
  /** Null where jobs share the guest's loopback. */
  readonly loopbacks: Loopbacks | null;
  readonly pipes: Pipes;
  readonly scratch: ScratchSpace;
  readonly memory: MemoryWatch;
  readonly now: () => Date;
}

/** Owns short commands and archives, as a key owns a job. */
export const commandOwner = "";

/** Marks what belongs to a key on this volume, and on no other. */
export function ownerOf(volume: Volume, key: string): string {
  return createHash("sha256").update(`${volume.root}\0${key}`).digest("hex").slice(0, 32);
}

let launches = 0;

/** A marker for one launch of an owner. */
export function nextMarker(owner: string): string {
  launches += 1;
  return `${owner}.${launches}`;
}

export interface ScratchSpace {
  /** Where it is; removed with it. */
  readonly folder: string;
  /** A new private folder with a `home` in it. */
  create(): Promise<Scratch>;
  /** Removes the whole space. */
  remove(): Promise<void>;
}

export interface Scratch {
  readonly path: string;
  /** Never fails: what cannot be removed now is removed when a guest starts the next time. */
  remove(): Promise<void>;
}

/**
 * Where programs have their temporary files. With namespaces they see it as /tmp, so it can lie on the volume; without,
 * it has to be short, because sockets in it are limited to 107 bytes. What an earlier guest left is removed.
 */
export async function openScratchSpace(volume: Volume, isolation: "bubblewrap" | "sweep"): Promise<ScratchSpace> {
  const base = isolation === "bubblewrap" ? await freshFolder(join(volume.own, "scratch")) : await shortFolder();
  return {
    folder: base,
    create: async () => {
      const path = join(base, randomBytes(6).toString("hex"));
      makeScratch(path);
      return { path, remove: () => removeScratch(path) };
    },
    remove: () => removeTree(base),
  };
}

// Each of these calls takes the system some microseconds; handing it to another thread takes longer.

function makeScratch(path: string): void {
  const home = join(path, "home");
  try {
    mkdirSync(path, { mode: 0o700 });
    mkdirSync(home, { mode: 0o700 });
  } catch (error) {
    if (systemCode(error) !== "ENOENT") throw error;
    // Somebody tidied up the system's folder for temporary files.
    mkdirSync(home, { recursive: true, mode: 0o700 });
  }
}

async function removeScratch(path: string): Promise<void> {
  try {
    // Most programs leave nothing there.
    rmdirSync(join(path, "home"));
    rmdirSync(path);
  } catch {
    await removeTree(path).catch(() => undefined); // See `Scratch.remove`.
  }
}

async function freshFolder(path: string): Promise<string> {
  await removeTree(path);
  await mkdir(path, { mode: 0o700 });
  return path;
}

const shortName = /^wavesmith-guest-(\d+)-(\d+)-/;

/** A folder below the system's own for temporary files; those of guests that were killed are removed. */
async function shortFolder(): Promise<string> {
  const base = tmpdir();
  for (const name of await readdir(base)) {
    const found = shortName.exec(name);
    if (found !== null && !isAlive(Number(found[1]), found[2] ?? "")) await removeOwn(join(base, name));
  }
  return mkdtemp(join(base, `wavesmith-guest-${process.pid}-${startTicks(process.pid) ?? 0}-`));
}

function isAlive(pid: number, ticks: string): boolean {
  return isRunning(pid) && (startTicks(pid) ?? ticks) === ticks;
}

async function removeOwn(path: string): Promise<void> {
  const found = await lstat(path).catch(() => null); // Another guest removes it at the same time.
  if (found?.isDirectory() && found.uid === process.getuid?.()) await removeTree(path);
}
