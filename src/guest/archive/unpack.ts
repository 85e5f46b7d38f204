// `node guest.mjs unpack --root DIR --format tar.zst|tar.gz [--max-bytes N]`: an archive from stdin
// into a volume that nothing else writes to meanwhile.
// U1. Nothing is made outside the root: no absolute names, no `..`, and nothing is made through a
// symlink.
// U2. Nothing that is there is replaced or changed; only files, folders, symlinks and links to
// files of the root are made.
// U3. A symlink is only text and is made as it is, also when it is absolute, as those of Python's
// environments are; one that climbs out of the root by `..` is refused. Whoever follows one later
// does so inside the sandbox.
// U4. The archive's owners are ignored, setuid and setgid refused. What has failed leaves its half
// behind, to be thrown away.
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
import { guestFolder } from "../files/volume.ts";
import { type ArchiveFormat, readArchiveArguments } from "./archive-arguments.ts";
import {
  ArchiveFault,
  type ByteSource,
  createByteSource,
  readPart,
  readTar,
  shown,
  type TarEntry,
} from "./tar-reader.ts";

const mostTrailingBytes = 1024 * 1024;
const setidBits = 0o6000;

/** Unpacks stdin. Fails with the reason. */
export async function unpack(args: readonly string[]): Promise<void> {
  const { root, format, maxBytes } = readArchiveArguments(args);
  const { stream, ended, kill } = decompressed(format);
  const source = createByteSource(stream);
  try {
    await unpackFrom(source, realpathSync(root), maxBytes);
    await drain(source);
  } catch (error) {
    // Where its output ended too soon its own words say why; else it would go on for as long as
    // there is something to read.
    const said = error instanceof ArchiveFault && error.isPerhapsCut ? await ended : null;
    kill();
    throw said === null ? error : new ArchiveFault(said);
  }
  const said = await ended;
  if (said !== null) throw new ArchiveFault(said);
}

async function unpackFrom(source: ByteSource, root: string, maxBytes: number): Promise<void> {
  const tree = createTree(root);
  let left = maxBytes;
  for await (const entry of readTar(source)) {
    left -= entry.parts.reduce((sum, part) => sum + part.sizeBytes, 0);
    if (left < 0) throw new ArchiveFault(`it holds more than the ${maxBytes} bytes that are allowed`);
    await tree.make(entry, source).catch((error) => {
      throw error instanceof ArchiveFault ? error : new ArchiveFault(`${shown(entry.name)}: ${reasonOf(error)}`);
    });
  }
  tree.finish();
}

interface Tree {
  make(entry: TarEntry, source: ByteSource): Promise<void>;
  /** Gives folders their modes and times, once nothing more is made in them. */
  finish(): void;
}

function createTree(root: string): Tree {
  const base = Buffer.from(root, "utf8").toString("latin1");
  const place = (segments: readonly string[]): Buffer => Buffer.from([base, ...segments].join("/"), "latin1");
  /** Folders known to be folders and no symlinks; the root is one. */
  const known = new Set<string>([""]);
  const folders: { at: Buffer; entry: TarEntry }[] = [];

  const enter = (segments: readonly string[]): void => {
    for (let depth = 1; depth <= segments.length; depth += 1) {
      const folder = segments.slice(0, depth);
      const key = folder.join("/");
      if (known.has(key)) continue;
      if (!isFolder(place(folder))) mkdirSync(place(folder), { mode: 0o700 });
      known.add(key);
    }
  };
  const makers: Record<
    TarEntry["type"],
    (entry: TarEntry, segments: string[], source: ByteSource) => Promise<void> | void
  > = {
    folder: (entry, segments) => {
      enter(segments);
      folders.push({ at: place(segments), entry });
    },
    file: (entry, segments, source) => writeFile(place(segments), entry, source),
    sparse: (entry, segments, source) => writeFile(place(segments), entry, source),
    symlink: ({ name, target }, segments) => {
      if (target === "" || climbsOut(segments, target)) throw new ArchiveFault(`${shown(name)} leads out of the root`);
      symlinkSync(Buffer.from(target, "latin1"), place(segments));
    },
    link: ({ name, target }, segments) => {
      const to = segmentsOf(target);
      enter(to.slice(0, -1));
      if (to.length === 0 || !lstatSync(place(to)).isFile())
        throw new ArchiveFault(`${shown(name)} is a link to what is no file`);
      linkSync(place(to), place(segments));
    },
  };
  return {
    make: async (entry, source) => {
      const segments = segmentsOf(entry.name);
      if (segments.length === 0 && entry.type !== "folder") throw new ArchiveFault("the root itself is no file");
      if ((entry.mode & setidBits) !== 0) throw new ArchiveFault(`${shown(entry.name)} is setuid or setgid`);
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

/** Whether there is a folder; a fault when there is something else, such as a symlink. */
function isFolder(path: Buffer): boolean {
  try {
    if (lstatSync(path).isDirectory()) return true;
  } catch (error) {
    if (systemCode(error) === "ENOENT") return false;
    throw error;
  }
  throw new ArchiveFault(`${shown(path.toString("latin1"))} is no folder, and something lies in it`);
}

async function writeFile(path: Buffer, entry: TarEntry, source: ByteSource): Promise<void> {
  const { O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW } = constants;
  const file = openSync(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600);
  try {
    for (const part of entry.parts) {
      let offset = part.offset;
      for await (const chunk of readPart(source, part.sizeBytes)) {
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
  if (name.startsWith("/")) throw new ArchiveFault(`${shown(name)} is absolute`);
  const segments = name.split("/").filter((segment) => segment !== "" && segment !== ".");
  if (segments.includes("..")) throw new ArchiveFault(`${shown(name)} leads out of the root`);
  if (segments[0] === guestFolder) throw new ArchiveFault(`${shown(name)} lies in the guest's own folder`);
  return segments;
}

/** Whether a relative link at `segments` leaves the root on its way. */
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
 * What follows the end is padding; the decompressor has to see its own end to check the content.
 */
async function drain(source: ByteSource): Promise<void> {
  for (let trailing = 0; ; ) {
    const chunk = await source.next(64 * 1024);
    if (chunk === null) return;
    trailing += chunk.length;
    if (trailing > mostTrailingBytes) throw new ArchiveFault("something follows the end of the archive");
  }
}

const decompressors: Readonly<Record<ArchiveFormat, readonly [string, ...string[]]>> = {
  "tar.zst": ["zstd", "-dcq"],
  "tar.gz": ["gzip", "-dcq"],
};

/** Stdin decompressed, and what went wrong once it is over; null when nothing did. */
function decompressed(format: ArchiveFormat): { stream: Readable; ended: Promise<string | null>; kill: () => void } {
  const [program, ...args] = decompressors[format];
  const child = spawn(program, args, { stdio: ["inherit", "pipe", "pipe"] });
  let said = "";
  child.stderr.on("data", (chunk: Buffer) => {
    said = (said + chunk.toString()).slice(0, 1_000);
  });
  const ended = new Promise<string | null>((resolve) => {
    child.on("error", (error) => resolve(`${program} could not be started: ${error.message}`));
    child.on("close", (code) =>
      resolve(code === 0 ? null : `it is not whole, or no ${format}: ${said.trim() || program}`),
    );
  });
  return { stream: child.stdout, ended, kill: () => child.kill("SIGKILL") };
}

function reasonOf(error: unknown): string {
  if (systemCode(error) === "EEXIST") return "something is there already";
  if (systemCode(error) === "ENOSPC" || systemCode(error) === "EDQUOT") return "there is no space left";
  return error instanceof Error ? error.message : String(error);
}
