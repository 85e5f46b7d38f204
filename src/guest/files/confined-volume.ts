// The guest serves the files of one volume and nothing else.
// VP1. A caller's path is resolved from the volume's root. The folder it ends in must be the volume
// or lie inside it, even through symlinks.
// VP2. No path from a caller reaches the guest's own folder.
// VP3. Where the system has /proc, the folder is held open while it is used, so that a job gains
// nothing by swapping it for a symlink.
import { closeSync, constants, open, openSync, readlinkSync } from "node:fs";
import { realpath } from "node:fs/promises";
import { basename, dirname, join, sep } from "node:path";
import { promisify } from "node:util";
import { GuestFault, systemCode } from "../faults.ts";
import { makeFolder, makeFolders } from "./make-folders.ts";

/** The guest's own folder on the volume: records, output, scratch. */
export const guestFolder = ".guest";

export interface Volume {
  /** Absolute, without symlinks. */
  readonly root: string;
  /** The guest's own folder, absolute. */
  readonly own: string;
  /** Returns the real path of something that must exist. */
  locate(path: string): Promise<string>;
  /** Returns the real path of a folder, created with its parents if missing. */
  locateOrMake(path: string): Promise<string>;
  /**
   * Calls `use` with a path to the entry's folder that keeps pointing to the same folder, and with
   * the entry's name. With `make`, missing parents are created; otherwise they fail with 404.
   */
  within<T>(path: string, make: boolean, use: (entry: VolumeEntry) => Promise<T>): Promise<T>;
  /** Fails unless an open file, given by its descriptor, lies inside the volume. */
  assertInside(file: number, path: string): void;
}

export interface VolumeEntry {
  /** Valid only during the call of `use`. */
  readonly folder: string;
  readonly name: string;
  /** `folder` and `name`, joined. */
  readonly path: string;
  /** The entry's real absolute path, for locks and messages. */
  readonly real: string;
}

/**
 * Opens a file as a plain descriptor, which is cheaper than a FileHandle. Operations on an open
 * descriptor do not wait for the disk.
 */
export const openFile = promisify(open);

/** Opens the volume whose root is `folder`; creates the guest's own folder in it. */
export async function openVolume(folder: string): Promise<Volume> {
  const root = await realpath(folder);
  const own = join(root, guestFolder);
  await makeFolder(own, 0o700);
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
    await makeFolders(target.real, target.rest);
    return locate(path);
  };

  /** Opens the folder of an entry; returns the descriptor and the real path. */
  const hold = async (parent: string, make: boolean): Promise<{ held: number; real: string }> => {
    // The system follows any symlinks, and /proc says where they led; a folder that does not exist
    // yet takes the slow path.
    const opened = hasProc ? openFolder(join(root, parent)) : null;
    if (opened !== null) return { held: opened, real: pathOfDescriptor(opened) };
    const real = make ? await locateOrMake(parent) : await locate(parent);
    const held = await openFile(real, folderFlags | constants.O_NOFOLLOW);
    return { held, real: hasProc ? pathOfDescriptor(held) : real };
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
      return await use({ folder, name, path: join(folder, name), real: join(real, name) });
    } finally {
      closeSync(held);
    }
  };
  const assertInside: Volume["assertInside"] = (file, path) => {
    if (hasProc) assertConfined(pathOfDescriptor(file), path);
  };
  return { root, own, locate, locateOrMake, within, assertInside };
}

/** Whether `path` is `folder` or inside it; both must be absolute and normalized. */
export function isWithin(folder: string, path: string): boolean {
  return path === folder || path.startsWith(folder === sep ? sep : folder + sep);
}

/**
 * Splits a caller's path; "" and "." mean the root. Fails with 400 `path` when the path could leave
 * the volume.
 */
export function segmentsOf(path: string): string[] {
  if (path.includes("\0")) throw new GuestFault(400, "path", "a path must not contain NUL");
  if (path.startsWith("/")) throw new GuestFault(400, "path", `${path} must be relative to the volume's root`);
  const segments = path.split("/").filter((segment) => segment !== "" && segment !== ".");
  if (segments.includes("..")) throw outside(path);
  if (segments[0] === guestFolder) throw reserved(path);
  return segments;
}

/** Returns the real path of the deepest existing part, and the remaining segments. */
async function deepestReal(root: string, segments: readonly string[]): Promise<{ real: string; rest: string[] }> {
  if (segments.length === 0) return { real: root, rest: [] };
  const rest: string[] = [];
  let candidate = join(root, ...segments);
  for (;;) {
    try {
      return { real: await realpath(candidate), rest };
    } catch (error) {
      if (systemCode(error) !== "ENOENT" || candidate === root) throw error;
      rest.unshift(basename(candidate));
      candidate = dirname(candidate);
    }
  }
}

const folderFlags = constants.O_RDONLY | constants.O_DIRECTORY;

/**
 * Opens a folder; null when that fails. Synchronous, because most folders are cached and another
 * thread would cost more.
 */
function openFolder(path: string): number | null {
  try {
    return openSync(path, folderFlags);
  } catch {
    return null; // The slow path reports the reason.
  }
}

/** Returns the path of an open file. */
const pathOfDescriptor = (file: number): string => readlinkSync(`/proc/self/fd/${file}`);

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
