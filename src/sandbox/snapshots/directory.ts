// Keeps snapshots as files of one folder: `<id>.tar.zst` or `<id>.tar.gz`, and `<name>.part` during
// writing.
//
// DS1. A file gets its name only when all its bytes are on the disk. A crash or a full disk leaves
// a `.part`, which counts for nothing and is overwritten or removed.
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { type FileHandle, mkdir, open, readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { type Readable, Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { isDiskFull } from "../../domain/disk-full.ts";
import { messageOf, WavesmithError } from "../../domain/errors.ts";
import type { ArchiveFormat, SnapshotStore } from "../port.ts";

const part = ".part";
const named = /^(snap_[a-z0-9]+)\.tar\.(?:zst|gz)(\.part)?$/;

/** Keeps snapshots in `folder`, which the first one creates. */
export function createDirectorySnapshots(folder: string): SnapshotStore {
  const pathOf = (snapshotId: string, format: ArchiveFormat): string => {
    const name = `${snapshotId}.${format}`;
    if (!named.test(name)) throw new WavesmithError("internal", `${name} is not a valid snapshot name`);
    return join(folder, name);
  };
  return {
    async put(snapshotId, format, archive) {
      const path = pathOf(snapshotId, format);
      await mkdir(folder, { recursive: true, mode: 0o700 });
      try {
        const kept = await writePart(`${path}${part}`, archive);
        await rename(`${path}${part}`, path);
        await syncFolder(folder);
        return kept;
      } catch (error) {
        archive.destroy();
        await rm(`${path}${part}`, { force: true });
        throw notKept(snapshotId, folder, error);
      }
    },
    async get(snapshotId, format, sha256) {
      const path = pathOf(snapshotId, format);
      const handle = await open(path, "r").catch((error: unknown) => {
        if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
        throw new WavesmithError("not-found", `${folder} has no file for snapshot ${snapshotId}`);
      });
      return checked(handle, { path, sha256 });
    },
    async remove(snapshotId) {
      for (const { name } of (await filesIn(folder)).filter((file) => file.snapshotId === snapshotId))
        await rm(join(folder, name), { force: true });
    },
    async list() {
      const files = await filesIn(folder);
      const found = await Promise.all(
        files.map(async ({ snapshotId, name, isWhole }) => {
          const sizeBytes = await sizeOf(join(folder, name));
          return sizeBytes === null ? [] : [{ snapshotId, sizeBytes, isWhole }];
        }),
      );
      return found.flat();
    },
  };
}

async function writePart(path: string, archive: Readable): Promise<{ sizeBytes: number; sha256: string }> {
  // Starts over what a crashed process left.
  const handle = await open(path, "w", 0o600);
  const hash = createHash("sha256");
  let sizeBytes = 0;
  try {
    for await (const chunk of archive as AsyncIterable<Buffer>) {
      hash.update(chunk);
      sizeBytes += chunk.length;
      await writeAll(handle, chunk);
    }
    await handle.sync();
  } finally {
    await handle.close();
  }
  return { sizeBytes, sha256: hash.digest("hex") };
}

async function writeAll(handle: FileHandle, chunk: Buffer): Promise<void> {
  for (let at = 0; at < chunk.length; ) at += (await handle.write(chunk, at)).bytesWritten;
}

/** Flushes the folder, because only then is a name on the disk. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

function notKept(snapshotId: string, folder: string, error: unknown): unknown {
  if (!isDiskFull(error)) return error;
  return new WavesmithError("environment", `snapshot ${snapshotId} was not kept: no space left in ${folder}`, {
    remedy: "free some space, then take the snapshot again",
    cause: error,
  });
}

/** Returns the file's bytes; reading fails at the end when the checksum differs. */
function checked(handle: FileHandle, { path, sha256 }: { path: string; sha256: string }): Readable {
  const hash = createHash("sha256");
  const checking = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      hash.update(chunk);
      done(null, chunk);
    },
    flush(done) {
      if (hash.digest("hex") === sha256) return done();
      done(
        new WavesmithError("archive", `${path} is damaged: its checksum differs`, {
          remedy: "restore another snapshot: wavesmith sandbox snapshot --list",
        }),
      );
    },
  });
  const file = createReadStream(path, { fd: handle, autoClose: true });
  // Ending one stream ends the other; a failure shows in the stream that is read.
  pipeline(file, checking).catch((error: unknown) =>
    checking.destroy(error instanceof Error ? error : new Error(messageOf(error))),
  );
  return checking;
}

interface SnapshotFile {
  readonly name: string;
  readonly snapshotId: string;
  readonly isWhole: boolean;
}

/** Lists the snapshot files; none if the folder was never created. */
async function filesIn(folder: string): Promise<SnapshotFile[]> {
  const names = await readdir(folder).catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  });
  return names.flatMap((name) => {
    const [, snapshotId, begun] = named.exec(name) ?? [];
    return snapshotId === undefined ? [] : [{ name, snapshotId, isWhole: begun === undefined }];
  });
}

async function sizeOf(path: string): Promise<number | null> {
  try {
    return (await stat(path)).size;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null; // Removed meanwhile.
    throw error;
  }
}
