import { randomBytes } from "node:crypto";
import {
  type BigIntStats,
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  lstatSync,
  openSync,
  read,
  write,
} from "node:fs";
import { link, lstat, readdir, rename, rmdir, stat, unlink } from "node:fs/promises";
import type { Readable } from "node:stream";
import { promisify } from "node:util";
import { chunksOf } from "../channel/http.ts";
import { GuestFault, systemCode } from "../faults.ts";
import type { FileStat } from "../protocol.ts";
import { guestFolder, openFile, segmentsOf, type Volume, type VolumeEntry } from "./confined-volume.ts";
import { removeTree } from "./remove-tree.ts";

/** The largest file that may be written over the protocol; larger content goes as an archive. */
const maxFileBytes = 1024 * 1024 * 1024;

/** The name prefix of files that are still being received, in the guest's own folder. */
export const incomingPrefix = "incoming-";

export interface OpenFile {
  readonly sizeBytes: number;
  readonly etag: string;
  /** Returns at most `size` bytes from `at` on; none at the end. */
  part(at: number, size: number): Promise<Buffer>;
  close(): void;
}

/** A file that this process has open. */
interface OwnFile extends OpenFile {
  readonly descriptor: number;
}

interface WriteConditions {
  readonly ifMatch: string | null;
  /** `If-None-Match: *`: the file must not exist. */
  readonly mustBeNew: boolean;
}

export interface Files {
  /**
   * Opens a regular file for reading; the caller closes it. Fails with 404 when absent, 413 above
   * `maxBytes`.
   */
  read(path: string, maxBytes: number): Promise<OpenFile>;
  /**
   * Replaces the file atomically once all bytes have arrived; returns its new ETag. Fails with 412
   * when a condition does not hold.
   */
  write(path: string, body: Readable, options: WriteConditions & { mode: number | null }): Promise<string>;
  /** Also succeeds when nothing is there. */
  remove(path: string, recursive: boolean): Promise<void>;
  stat(path: string): Promise<FileStat>;
  /** Lists a folder, sorted by name, without the guest's own folder. */
  list(path: string): Promise<FileStat[]>;
}

/** Files that this process opens. */
export interface OwnFiles extends Files {
  read(path: string, maxBytes: number): Promise<OwnFile>;
}

/**
 * Gives access to the files of a volume. Files being received are stored in the guest's own folder,
 * or `beside` their target.
 */
export function createFiles(volume: Volume, incoming: "own" | "beside" = "own"): OwnFiles {
  const locks = new Map<string, Promise<void>>();
  /**
   * Writers of one path take turns, so that a condition still holds when the file is renamed into
   * place.
   */
  const exclusively = async <T>(key: string, act: () => Promise<T>): Promise<T> => {
    const before = locks.get(key) ?? Promise.resolve();
    const turn = before.then(act);
    const settled = turn.then(
      () => undefined,
      () => undefined, // The caller of this turn sees its failure; the next one only waits.
    );
    locks.set(key, settled);
    await settled;
    if (locks.get(key) === settled) locks.delete(key);
    return turn;
  };

  return {
    read: (path, maxBytes) => volume.within(path, false, (entry) => openForReading(volume, path, entry, maxBytes)),
    write: (path, body, options) =>
      volume.within(path, true, async (entry) => {
        // In the guest's own folder, because a job's `git add` could pick up a half-written file
        // beside the target.
        const folder = incoming === "own" ? volume.own : entry.folder;
        const temporary = `${folder}/${incomingPrefix}${randomBytes(9).toString("hex")}`;
        // Synchronously, because that is faster than another thread; only the writes wait for the
        // disk.
        const file = openSync(temporary, newFileFlags, options.mode ?? usualMode);
        let isLeft = true;
        try {
          await receive(file, body);
          const etag = await exclusively(entry.real, () => putInPlace({ temporary, file }, entry, options));
          isLeft = options.mustBeNew; // Then it has a second name.
          return etag;
        } finally {
          closeSync(file);
          if (isLeft) await unlink(temporary).catch(ignoreMissing);
        }
      }),
    remove: (path, recursive) => removeEntry(volume, path, recursive),
    stat: async (path) => {
      if (segmentsOf(path).length === 0) return describe("", await stat(volume.root, { bigint: true }));
      return volume.within(path, false, async (entry) =>
        describe(normal(path), await lstat(entry.path, { bigint: true })),
      );
    },
    list: (path) => listFolder(volume, path),
  };
}

async function openForReading(volume: Volume, path: string, entry: VolumeEntry, maxBytes: number): Promise<OwnFile> {
  // Non-blocking, because opening a FIFO would wait for its other end.
  const descriptor = await openFile(entry.path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    volume.assertInside(descriptor, path);
    const stats = fstatSync(descriptor, { bigint: true });
    if (stats.isDirectory()) throw new GuestFault(409, "is-directory", `${path} is a folder`);
    if (!stats.isFile()) throw new GuestFault(400, "path", `${path} is not a regular file`);
    if (stats.size > BigInt(maxBytes)) {
      throw new GuestFault(
        413,
        "too-large",
        `${path} is ${stats.size} bytes, more than the requested maximum of ${maxBytes}`,
      );
    }
    return {
      descriptor,
      sizeBytes: Number(stats.size),
      etag: etagOf(stats),
      part: (at, size) => readFilePart(descriptor, at, size),
      close: () => closeSync(descriptor),
    };
  } catch (error) {
    closeSync(descriptor);
    throw error;
  }
}

const readAt = promisify(read);

/** Returns at most `size` bytes of an open file from `at` on. */
export async function readFilePart(descriptor: number, at: number, size: number): Promise<Buffer> {
  const { bytesRead, buffer } = await readAt(descriptor, Buffer.allocUnsafe(size), 0, size, at);
  return buffer.subarray(0, bytesRead);
}

const partBytes = 1024 * 1024;

/**
 * Yields the content of a file piece by piece: fewer bytes than its size when opened if it was
 * truncated.
 */
export async function* partsOf(file: OpenFile): AsyncGenerator<Buffer> {
  for (let at = 0; at < file.sizeBytes; ) {
    const bytes = await file.part(at, Math.min(partBytes, file.sizeBytes - at));
    if (bytes.length === 0) return;
    at += bytes.length;
    yield bytes;
  }
}

/** Returns the whole content, or null when the file was truncated meanwhile. Closes the file. */
export async function readWhole(file: OpenFile): Promise<Buffer | null> {
  try {
    const parts: Buffer[] = [];
    for await (const part of partsOf(file)) parts.push(part);
    const bytes = parts.length === 1 ? parts[0]! : Buffer.concat(parts);
    return bytes.length === file.sizeBytes ? bytes : null;
  } finally {
    file.close();
  }
}

const newFileFlags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL;
const usualMode = 0o644;
const writePart = promisify(write);

async function receive(file: number, body: Readable): Promise<void> {
  let sizeBytes = 0;
  for await (const chunk of chunksOf(body)) {
    sizeBytes += chunk.length;
    if (sizeBytes > maxFileBytes) throw new GuestFault(413, "too-large", "the file is larger than 1 GiB");
    for (let at = 0; at < chunk.length; ) at += (await writePart(file, chunk, at)).bytesWritten;
  }
}

async function putInPlace(
  { temporary, file }: { temporary: string; file: number },
  entry: VolumeEntry,
  options: WriteConditions & { mode: number | null },
): Promise<string> {
  const before = lstatSync(entry.path, { bigint: true, throwIfNoEntry: false }) ?? null;
  if (before?.isDirectory()) throw new GuestFault(409, "is-directory", `${entry.name} is a folder`);
  const changed = new GuestFault(412, "changed", `${entry.name} is not in the state the condition asks for`);
  if (options.mustBeNew && before !== null) throw changed;
  if (options.ifMatch !== null && (before === null || etagOf(before) !== options.ifMatch)) throw changed;
  const kept = before?.isFile() ? Number(before.mode & 0o777n) : usualMode;
  const made = fstatSync(file, { bigint: true });
  const mode = options.mode ?? kept;
  // The mode given at creation was reduced by the process's umask.
  if (Number(made.mode & 0o7777n) !== mode) fchmodSync(file, mode);
  // link() fails when a job has created the file meanwhile; rename() would replace it.
  if (options.mustBeNew) await link(temporary, entry.path).catch((error) => rethrowExists(error, changed));
  else await rename(temporary, entry.path);
  return etagOf(made);
}

async function removeEntry(volume: Volume, path: string, recursive: boolean): Promise<void> {
  try {
    await volume.within(path, false, async (entry) => {
      const stats = await lstat(entry.path).catch(absent);
      if (stats === null) return;
      if (!stats.isDirectory()) return unlink(entry.path);
      return recursive ? removeTree(entry.path) : rmdir(entry.path);
    });
  } catch (error) {
    // The parent folder is missing too, or something else has just removed it.
    const isGone = error instanceof GuestFault ? error.code === "not-found" : systemCode(error) === "ENOENT";
    if (!isGone) throw error;
  }
}

async function listFolder(volume: Volume, path: string): Promise<FileStat[]> {
  const segments = segmentsOf(path);
  const folder = await volume.locate(path);
  const names = (await readdir(folder)).filter((name) => segments.length > 0 || name !== guestFolder).sort();
  const stats = await Promise.all(
    names.map(async (name) => {
      // An entry may vanish between the two calls, and a name that is not UTF-8 cannot be looked
      // up.
      const entry = await lstat(`${folder}/${name}`, { bigint: true }).catch(absent);
      return entry === null ? null : describe([...segments, name].join("/"), entry);
    }),
  );
  return stats.filter((entry) => entry !== null);
}

function describe(path: string, stats: BigIntStats): FileStat {
  const type = stats.isFile()
    ? "file"
    : stats.isDirectory()
      ? "directory"
      : stats.isSymbolicLink()
        ? "symlink"
        : "other";
  return {
    path,
    type,
    sizeBytes: Number(stats.size),
    mode: Number(stats.mode & 0o7777n),
    modifiedAt: stats.mtime.toISOString(),
    ...(type === "file" ? { etag: etagOf(stats) } : {}),
  };
}

/**
 * Returns an ETag that changes with every write: the modification time has nanoseconds, and a
 * replaced file has another inode.
 */
function etagOf(stats: BigIntStats): string {
  return `"${stats.ino.toString(36)}-${stats.size.toString(36)}-${stats.mtimeNs.toString(36)}"`;
}

function normal(path: string): string {
  return segmentsOf(path).join("/");
}

function absent(error: unknown): null {
  if (systemCode(error) === "ENOENT") return null;
  throw error;
}

function ignoreMissing(error: unknown): void {
  if (systemCode(error) !== "ENOENT") throw error;
}

function rethrowExists(error: unknown, fault: GuestFault): never {
  throw systemCode(error) === "EEXIST" ? fault : error;
}
