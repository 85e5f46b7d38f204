// `node guest.mjs unpack --root DIR --format tar.zst|tar.gz [--max-bytes N]`: unpacks an archive
// from stdin into a volume that nothing else writes to meanwhile.
// UP1. Nothing is created outside the root: no absolute names, no `..`, and nothing is created
// through a symlink.
// UP2. Nothing that exists is replaced or changed. Only files, folders, symlinks and hard links to
// files of the root are created.
// UP3. A symlink is only text and is created unchanged, even when it is absolute, as in Python's
// virtual environments. A symlink that climbs out of the root by `..` is refused. Symlinks are
// followed later only inside the sandbox.
// UP4. The archive's owners are ignored, setuid and setgid are refused. A failure leaves partial
// results behind, for the caller to throw away.
import { spawn } from "node:child_process";
import {
  chmodSync,
  closeSync,
  constants,
  fchmodSync,
  ftruncateSync,
  futimesSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  realpathSync,
  symlinkSync,
  utimesSync,
  writeSync,
} from "node:fs";
import type { Readable } from "node:stream";
import { systemCode } from "../faults.ts";
import { guestFolder } from "../files/confined-volume.ts";
import type { ArchiveFormat } from "../protocol.ts";
import { readArchiveArguments } from "./archive-arguments.ts";
import {
  ArchiveFault,
  type ByteSource,
  createByteSource,
  quoteName,
  readEntryPart,
  readTar,
  type TarEntry,
} from "./tar-reader.ts";

const maxTrailingBytes = 1024 * 1024;
const setidBits = 0o6000;

/** Unpacks the archive on stdin. Fails with the reason. */
export async function unpackArchive(args: readonly string[]): Promise<void> {
  const { root, format, maxBytes } = readArchiveArguments(args);
  const { stream, ended, kill } = decompressed(format);
  const source = createByteSource(stream);
  try {
    await unpackFrom(source, realpathSync(root), maxBytes);
    await drain(source);
  } catch (error) {
    // If the decompressor's output was cut short, its own message says why. Otherwise it would run
    // for as long as there is input, so it is killed.
    const problem = error instanceof ArchiveFault && error.mayBeCutOff ? await ended : null;
    kill();
    throw problem === null ? error : new ArchiveFault(problem);
  }
  const problem = await ended;
  if (problem !== null) throw new ArchiveFault(problem);
}

async function unpackFrom(source: ByteSource, root: string, maxBytes: number): Promise<void> {
  const tree = createTree(root);
  let left = maxBytes;
  for await (const entry of readTar(source)) {
    // Holes count as well: a program that reads the file reads them all.
    left -= entry.sizeBytes;
    if (left < 0) throw new ArchiveFault(`it holds more than the ${maxBytes} bytes that are allowed`);
    await tree.make(entry, source).catch((error) => {
      throw error instanceof ArchiveFault ? error : new ArchiveFault(`${quoteName(entry.name)}: ${reasonOf(error)}`);
    });
  }
  tree.finish();
}

interface Tree {
  make(entry: TarEntry, source: ByteSource): Promise<void>;
  /** Sets the modes and times of folders, once nothing more is created in them. */
  finish(): void;
}

function createTree(root: string): Tree {
  const base = Buffer.from(root, "utf8").toString("latin1");
  const pathOf = (segments: readonly string[]): Buffer => Buffer.from([base, ...segments].join("/"), "latin1");
  /** Paths known to be real folders, not symlinks; the root is one. */
  const known = new Set<string>([""]);
  const folders: { at: Buffer; entry: TarEntry }[] = [];

  const enter = (segments: readonly string[]): void => {
    for (let depth = 1; depth <= segments.length; depth += 1) {
      const folder = segments.slice(0, depth);
      const key = folder.join("/");
      if (known.has(key)) continue;
      if (!isFolder(pathOf(folder))) mkdirSync(pathOf(folder), { mode: 0o700 });
      known.add(key);
    }
  };
  const makers: Record<
    TarEntry["type"],
    (entry: TarEntry, segments: string[], source: ByteSource) => Promise<void> | void
  > = {
    folder: (entry, segments) => {
      enter(segments);
      folders.push({ at: pathOf(segments), entry });
    },
    file: (entry, segments, source) => writeFile(pathOf(segments), entry, source),
    sparse: (entry, segments, source) => writeFile(pathOf(segments), entry, source),
    symlink: ({ name, target }, segments) => {
      if (target === "" || climbsOut(segments, target))
        throw new ArchiveFault(`${quoteName(name)} leads out of the root`);
      symlinkSync(Buffer.from(target, "latin1"), pathOf(segments));
    },
    link: ({ name, target }, segments) => {
      const to = segmentsOf(target);
      enter(to.slice(0, -1));
      if (to.length === 0 || !lstatSync(pathOf(to)).isFile())
        throw new ArchiveFault(`${quoteName(name)} is a link to something that is not a file`);
      linkSync(pathOf(to), pathOf(segments));
    },
  };
  return {
    make: async (entry, source) => {
      const segments = segmentsOf(entry.name);
      if (segments.length === 0 && entry.type !== "folder") throw new ArchiveFault("the root itself is not a file");
      if ((entry.mode & setidBits) !== 0) throw new ArchiveFault(`${quoteName(entry.name)} is setuid or setgid`);
      enter(segments.slice(0, -1));
      await makers[entry.type](entry, segments, source);
    },
    finish: () => {
      for (const { at, entry } of folders.reverse()) {
        utimesSync(at, entry.modifiedAtSeconds, entry.modifiedAtSeconds);
        chmodSync(at, entry.mode & 0o1777);
      }
    },
  };
}

/** Whether a folder exists at `path`. Fails when there is something else, such as a symlink. */
function isFolder(path: Buffer): boolean {
  try {
    if (lstatSync(path).isDirectory()) return true;
  } catch (error) {
    if (systemCode(error) === "ENOENT") return false;
    throw error;
  }
  throw new ArchiveFault(`${quoteName(path.toString("latin1"))} is not a folder, but the archive has entries in it`);
}

async function writeFile(path: Buffer, entry: TarEntry, source: ByteSource): Promise<void> {
  const { O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW } = constants;
  const file = openSync(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600);
  try {
    for (const part of entry.parts) {
      let offset = part.offset;
      for await (const chunk of readEntryPart(source, part.sizeBytes)) {
        for (let done = 0; done < chunk.length; )
          done += writeSync(file, chunk, done, chunk.length - done, offset + done);
        offset += chunk.length;
      }
    }
    if (entry.type === "sparse") ftruncateSync(file, entry.sizeBytes);
    fchmodSync(file, entry.mode & 0o777);
    futimesSync(file, entry.modifiedAtSeconds, entry.modifiedAtSeconds);
  } finally {
    closeSync(file);
  }
}

function segmentsOf(name: string): string[] {
  if (name.startsWith("/")) throw new ArchiveFault(`${quoteName(name)} is absolute`);
  const segments = name.split("/").filter((segment) => segment !== "" && segment !== ".");
  if (segments.includes("..")) throw new ArchiveFault(`${quoteName(name)} leads out of the root`);
  if (segments[0] === guestFolder) throw new ArchiveFault(`${quoteName(name)} lies in the guest's own folder`);
  return segments;
}

/** Whether a relative symlink at `segments` leaves the root on its way. */
function climbsOut(segments: readonly string[], target: string): boolean {
  if (target.startsWith("/")) return false;
  let depth = segments.length - 1;
  for (const segment of target.split("/")) {
    if (segment === "..") depth -= 1;
    else if (segment !== "" && segment !== ".") depth += 1;
    if (depth < 0) return true;
  }
  return false;
}

/**
 * Reads the padding after the end, because the decompressor checks its input only at its own end.
 */
async function drain(source: ByteSource): Promise<void> {
  for (let trailing = 0; ; ) {
    const chunk = await source.next(64 * 1024);
    if (chunk === null) return;
    trailing += chunk.length;
    if (trailing > maxTrailingBytes) throw new ArchiveFault("there is more data after the end of the archive");
  }
}

const decompressors: Readonly<Record<ArchiveFormat, readonly [string, ...string[]]>> = {
  "tar.zst": ["zstd", "-dcq"],
  "tar.gz": ["gzip", "-dcq"],
};

/** Decompresses stdin. `ended` resolves with what went wrong, or null when nothing did. */
function decompressed(format: ArchiveFormat): { stream: Readable; ended: Promise<string | null>; kill: () => void } {
  const [program, ...args] = decompressors[format];
  const child = spawn(program, args, { stdio: ["inherit", "pipe", "pipe"] });
  let stderr = "";
  child.stderr.on("data", (chunk: Buffer) => {
    stderr = (stderr + chunk.toString()).slice(0, 1_000);
  });
  const ended = new Promise<string | null>((resolve) => {
    child.on("error", (error) => resolve(`${program} could not be started: ${error.message}`));
    child.on("close", (code) =>
      resolve(code === 0 ? null : `it is incomplete or not ${format}: ${stderr.trim() || program}`),
    );
  });
  return { stream: child.stdout, ended, kill: () => child.kill("SIGKILL") };
}

function reasonOf(error: unknown): string {
  if (systemCode(error) === "EEXIST") return "it already exists";
  if (systemCode(error) === "ENOSPC" || systemCode(error) === "EDQUOT") return "there is no space left";
  return error instanceof Error ? error.message : String(error);
}
