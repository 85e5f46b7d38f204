// The parts that jobs, short commands and archives share.
import { createHash, randomBytes } from "node:crypto";
import { chmodSync, lchownSync, mkdirSync, rmdirSync } from "node:fs";
import { lstat, mkdir, mkdtemp, readdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemCode } from "./faults.ts";
import { segmentsOf, type Volume } from "./files/confined-volume.ts";
import { removeTree } from "./files/remove-tree.ts";
import type { Holders, Wanted } from "./isolation/holders.ts";
import type { Isolation, IsolationName } from "./isolation/isolation.ts";
import type { Loopbacks } from "./isolation/loopback.ts";
import type { MemoryWatch } from "./isolation/out-of-memory.ts";
import { removeHeld } from "./isolation/ownership.ts";
import { isRunning, startTicks } from "./isolation/processes.ts";
import type { User } from "./isolation/users.ts";
import type { Pipes } from "./jobs/pipes.ts";

export interface GuestParts {
  readonly volume: Volume;
  readonly isolation: Isolation;
  /** Which user owns which folder; null where jobs have no users. */
  readonly holders: Holders | null;
  /** Null where jobs share the guest's loopback. */
  readonly loopbacks: Loopbacks | null;
  readonly pipes: Pipes;
  readonly scratch: ScratchSpace;
  readonly memory: MemoryWatch;
  readonly now: () => Date;
}

/** The key that owns short commands and archives. */
export const commandOwner = "";

/** Returns a mark for everything that belongs to a key on this volume and no other. */
export function ownerOf(volume: Volume, key: string): string {
  return createHash("sha256").update(`${volume.root}\0${key}`).digest("hex").slice(0, 32);
}

let launches = 0;

/** Returns a marker for one launch of an owner. */
export function nextMarker(owner: string): string {
  launches += 1;
  return `${owner}.${launches}`;
}

export interface ScratchSpace {
  /** The folder of the space, removed with it. */
  readonly folder: string;
  /** Creates a private folder with a `home` in it, both owned by the user. */
  create(user: User | null): Promise<ScratchFolder>;
  /** Removes the whole space. */
  remove(): Promise<void>;
}

export interface ScratchFolder {
  readonly path: string;
  /** Never fails: what cannot be removed now is removed when the next guest starts. */
  remove(): Promise<void>;
}

/**
 * Creates the folder for programs' temporary files and removes the one of an earlier guest. With
 * namespaces programs see it as /tmp, so it can lie on the volume; without them its path must be
 * short, because socket paths are limited to 107 bytes.
 */
export async function openScratchSpace(volume: Volume, isolation: IsolationName): Promise<ScratchSpace> {
  const base = isolation === "bubblewrap" ? await freshFolder(join(volume.own, "scratch")) : await shortFolder();
  const hasUsers = isolation === "users";
  // Users pass through it to their own folders but cannot list it.
  if (hasUsers) chmodSync(base, 0o711);
  return {
    folder: base,
    create: async (user) => {
      const path = join(base, randomBytes(6).toString("hex"));
      makeScratch(path);
      if (user !== null) for (const each of [join(path, "home"), path]) lchownSync(each, user.uid, user.uid);
      return { path, remove: () => removeScratch(path, hasUsers ? removeHeld : removeTree) };
    },
    remove: () => (hasUsers ? removeHeld(base) : removeTree(base)),
  };
}

/** Returns the real path of the folder that a program starts in. */
export async function workingFolder({ volume, holders }: GuestParts, path: string): Promise<string> {
  // Root cannot look into a user's folder; the program finds out, as that user.
  return holders === null ? volume.locate(path) : join(volume.root, ...segmentsOf(path));
}

/** Returns the user a program runs as and the folders it may write, which are created. */
export async function admitProgram(
  { volume, holders }: GuestParts,
  wanted: Wanted,
): Promise<{ user: User | null; writable: string[]; hidden: string[] }> {
  if (holders !== null) return { user: await holders.claim(wanted), writable: [], hidden: [] };
  const made = (paths: readonly string[]) => Promise.all(paths.map((path) => volume.locateOrMake(path)));
  return { user: null, writable: await made(wanted.writable), hidden: await made(wanted.hidden ?? []) };
}

// Synchronous, because each call takes microseconds and handing it to a thread takes longer.

function makeScratch(path: string): void {
  const home = join(path, "home");
  try {
    mkdirSync(path, { mode: 0o700 });
    mkdirSync(home, { mode: 0o700 });
  } catch (error) {
    if (systemCode(error) !== "ENOENT") throw error;
    // Another program cleaned up the system's temporary folder.
    mkdirSync(home, { recursive: true, mode: 0o700 });
  }
}

async function removeScratch(path: string, removeAll: (path: string) => Promise<void>): Promise<void> {
  try {
    // Most programs leave nothing behind.
    rmdirSync(join(path, "home"));
    rmdirSync(path);
  } catch {
    await removeAll(path).catch(() => undefined); // See `Scratch.remove`.
  }
}

async function freshFolder(path: string): Promise<string> {
  await removeTree(path);
  await mkdir(path, { mode: 0o700 });
  return path;
}

const shortName = /^wavesmith-guest-(\d+)-(\d+)-/;

/** Creates a folder in the system's temporary folder; removes those of guests that were killed. */
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
