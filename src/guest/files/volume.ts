// The guest serves files of one volume and nothing else (contract 5).
// V1. A path from a caller is resolved from the volume's root, and the folder it ends in is the
// volume or inside it, also through symlinks.
// V2. The guest's own folder is reached by no path of a caller's.
// V3. Where the system has /proc, the folder is held open while it is used, so that a job that
// swaps it for a symlink changes nothing.
import { closeSync, constants, open, openSync, readlinkSync } from "node:fs";
import { mkdir, realpath } from "node:fs/promises";
import { basename, dirname, join, sep } from "node:path";
import { promisify } from "node:util";
import { GuestFault, systemCode } from "../faults.ts";

/** The guest's own folder on the volume: records, output, scratch. */
export const guestFolder = ".guest";

export interface Volume {
  /** Absolute, without symlinks. */
  readonly root: string;
  /** The guest's own folder, absolute. */
  readonly own: string;
  /** The real place of a path that must exist. */
  locate(path: string): Promise<string>;
  /** The real place of a folder, made (with parents) where it is missing. */
  locateOrMake(path: string): Promise<string>;
  /**
   * Hands `use` a path of the entry's folder that stays the same folder whatever happens beside it,
   * and the entry's name. With `make`, missing parents are made; else they fail with 404.
   */
  within<T>(path: string, make: boolean, use: (entry: VolumeEntry) => Promise<T>): Promise<T>;
  /** Fails unless an open file, given by its descriptor, lies inside the volume. */
  assertInside(file: number, path: string): void;
}

export interface VolumeEntry {
  /** To use now and not to keep. */
  readonly folder: string;
  readonly name: string;
  /** `folder` and `name` joined. */
  readonly place: string;
  /** The entry's real absolute path, for locks and messages. */
  readonly real: string;
}

/**
 * A descriptor, which costs less than an object for each file. What is asked of one that is open
 * waits for no disk.
 */
export const openFile = promisify(open);

/** Opens the volume whose root is `folder`; makes the guest's own folder in it. */
export async function openVolume(folder: string): Promise<Volume> {
  const root = await realpath(folder);
  const own = join(root, guestFolder);
  await mkdir(own, { recursive: true, mode: 0o700 });
  const hasProc = await openFile("/proc/self/fd", constants.O_RDONLY).then(closed, () => false);

  const assertConfined = (real: string, path: string): string => {
    if (!isWithin(root, real)) throw outside(path);
    if (isWithin(own, real)) throw reserved(path);
    return real;
  };
  const locate = async (path: string): Promise<string> => {
    const { real, rest } = await deepestReal(root, segmentsOf(path));
    assertConfined(real, path);
    if (rest.length > 0) throw new GuestFault(404, "not-found", `there is no ${path}`);
    return real;
  };
  const locateOrMake = async (path: string): Promise<string> => {
    const target = await deepestReal(root, segmentsOf(path));
    assertConfined(target.real, path);
    assertConfined(join(target.real, ...target.rest), path);
    if (target.rest.length === 0) return target.real;
    await mkdir(join(target.real, ...target.rest), { recursive: true });
    return locate(path);
  };

  /** The folder that an entry lies in, held open, and its real place. */
  const hold = async (parent: string, make: boolean): Promise<{ held: number; real: string }> => {
    // The system follows what symlinks there are, and says where they led; a folder that is not
    // there yet takes the long way.
    const there = hasProc ? openFolder(join(root, parent)) : null;
    if (there !== null) return { held: there, real: placeOf(there) };
    const real = make ? await locateOrMake(parent) : await locate(parent);
    const held = await openFile(real, folderFlags | constants.O_NOFOLLOW);
    return { held, real: hasProc ? placeOf(held) : real };
  };
  const within: Volume["within"] = async (path, make, use) => {
    const segments = segmentsOf(path);
    const name = segments.at(-1);
    if (name === undefined) throw new GuestFault(400, "path", "the volume's root is not a file");
    const { held, real } = await hold(segments.slice(0, -1).join("/"), make);
    try {
      assertConfined(real, path);
      assertConfined(join(real, name), path);
      const folder = hasProc ? `/proc/self/fd/${held}` : real;
      return await use({ folder, name, place: join(folder, name), real: join(real, name) });
    } finally {
      closeSync(held);
    }
  };
  const assertInside: Volume["assertInside"] = (file, path) => {
    if (hasProc) assertConfined(placeOf(file), path);
  };
  return { root, own, locate, locateOrMake, within, assertInside };
}

/** Whether `path` is `folder` or inside it; both absolute and normal. */
export function isWithin(folder: string, path: string): boolean {
  return path === folder || path.startsWith(folder === sep ? sep : folder + sep);
}

/**
 * Splits a caller's path; "" and "." are the root. Fails with 400 `path` for what could leave the
 * volume.
 */
export function segmentsOf(path: string): string[] {
  if (path.includes("\0")) throw new GuestFault(400, "path", "a path must not contain NUL");
  if (path.startsWith("/")) throw new GuestFault(400, "path", `${path} must be relative to the volume's root`);
  const segments = path.split("/").filter((segment) => segment !== "" && segment !== ".");
  if (segments.includes("..")) throw outside(path);
  if (segments[0] === guestFolder) throw reserved(path);
  return segments;
}

/** The real path of the deepest part that exists, and what of the path does not. */
async function deepestReal(root: string, segments: readonly string[]): Promise<{ real: string; rest: string[] }> {
  if (segments.length === 0) return { real: root, rest: [] };
  const rest: string[] = [];
  let place = join(root, ...segments);
  for (;;) {
    try {
      return { real: await realpath(place), rest };
    } catch (error) {
      if (systemCode(error) !== "ENOENT" || place === root) throw error;
      rest.unshift(basename(place));
      place = dirname(place);
    }
  }
}

const folderFlags = constants.O_RDONLY | constants.O_DIRECTORY;

/**
 * Null when it cannot be opened. At once, since most folders are known to the system and another
 * thread would cost more.
 */
function openFolder(path: string): number | null {
  try {
    return openSync(path, folderFlags);
  } catch {
    return null; // Why is found out on the long way.
  }
}

/** Where an open file lies. */
const placeOf = (file: number): string => readlinkSync(`/proc/self/fd/${file}`);

function closed(file: number): true {
  closeSync(file);
  return true;
}

function outside(path: string): GuestFault {
  return new GuestFault(400, "path", `${JSON.stringify(path)} leads out of the volume`);
}

function reserved(path: string): GuestFault {
  return new GuestFault(400, "path", `${JSON.stringify(path)} is the guest's own folder`);
}
