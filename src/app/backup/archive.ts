import { createHash } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { open, rename, rm, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip, createGzip } from "node:zlib";
import { extract, pack } from "tar-stream";
import { messageOf, WavesmithError } from "../../domain/errors.ts";

// BK1. A backup is a tar archive under gzip. Its last entry has the SHA-256 of every other, in
// order, so that a file which was cut off, damaged or rearranged is recognised before it is used.

const checksumsName = "SHA256SUMS";

/** Writes the entries of a new archive, one after the other. */
export interface ArchiveWriter {
  addText(name: string, text: string): Promise<void>;
  /** Adds a file that does not change meanwhile. */
  addFile(name: string, path: string): Promise<void>;
}

/**
 * Writes an archive that only its owner can read. It gets its name when it is complete and on disk.
 * Returns its size in bytes. Fails with `usage` if there is a file of that name.
 */
export async function writeArchive(path: string, fill: (writer: ArchiveWriter) => Promise<void>): Promise<number> {
  if ((await stat(path).catch(() => null)) !== null)
    throw new WavesmithError("usage", `${path} exists already`, { remedy: "choose another name, or remove it first" });
  const unfinished = `${path}.part`;
  await rm(unfinished, { force: true });
  try {
    const tar = pack();
    const written = pipeline(
      tar,
      createGzip({ level: 1 }),
      createWriteStream(unfinished, { flags: "wx", mode: 0o600 }),
    );
    const sums: string[] = [];
    const filled = fill(writerOf(tar, sums)).then(async () => {
      await addEntry(tar, checksumsName, Readable.from([Buffer.from(sums.join(""))]), Buffer.byteLength(sums.join("")));
      tar.finalize();
    });
    await Promise.all([
      written,
      filled.catch((error: unknown) => {
        tar.destroy(error instanceof Error ? error : new Error(messageOf(error)));
        throw error;
      }),
    ]);
    await flush(unfinished);
    await rename(unfinished, path);
    await flush(dirname(path));
    return (await stat(path)).size;
  } catch (error) {
    await rm(unfinished, { force: true });
    throw error;
  }
}

type Tar = ReturnType<typeof pack>;

function writerOf(tar: Tar, sums: string[]): ArchiveWriter {
  const add = async (name: string, content: Readable, size: number): Promise<void> => {
    const hash = createHash("sha256");
    content.on("data", (chunk: Buffer) => hash.update(chunk));
    await addEntry(tar, name, content, size);
    sums.push(`${hash.digest("hex")}  ${name}\n`);
  };
  return {
    addText: (name, text) => add(name, Readable.from([Buffer.from(text)]), Buffer.byteLength(text)),
    addFile: async (name, path) => add(name, createReadStream(path), (await stat(path)).size),
  };
}

async function addEntry(tar: Tar, name: string, content: Readable, size: number): Promise<void> {
  await pipeline(content, tar.entry({ name, size, mode: 0o600, mtime: new Date(0) }));
}

async function flush(path: string): Promise<void> {
  const file = await open(path, "r");
  await file.sync().finally(() => file.close());
}

/** Calls `visit` with each entry; what `visit` does not read is skipped. */
async function visitEntries(path: string, visit: (name: string, content: Readable) => Promise<void>): Promise<void> {
  const tar = extract();
  const read = pipeline(createReadStream(path), createGunzip(), tar);
  read.catch(() => undefined); // awaited below
  try {
    for await (const entry of tar) {
      // tar-stream's own kind of stream has all that we use of Node's.
      await visit(entry.header.name, entry as unknown as Readable);
      entry.resume();
    }
    await read;
  } catch (error) {
    if (error instanceof WavesmithError) throw error;
    const code = (error as NodeJS.ErrnoException).code;
    if (code === "ENOENT") throw new WavesmithError("usage", `there is no file ${path}`);
    throw damaged(path, messageOf(error));
  }
}

const damaged = (path: string, why: string): WavesmithError =>
  new WavesmithError("usage", `${path} is not a whole backup: ${why}`, {
    remedy: "copy it again, or use another backup",
  });

/** Reads a whole archive and compares every entry with its checksum. Fails with `usage`. */
export async function checkArchive(path: string): Promise<void> {
  const seen: string[] = [];
  let sums: string | null = null;
  await visitEntries(path, async (name, content) => {
    if (sums !== null) throw damaged(path, `${name} follows the checksums`);
    if (name === checksumsName) {
      sums = (await readAll(content)).toString();
      return;
    }
    const hash = createHash("sha256");
    for await (const chunk of content) hash.update(chunk as Buffer);
    seen.push(`${hash.digest("hex")}  ${name}\n`);
  });
  if (sums === null) throw damaged(path, "it ends too early");
  if (sums !== seen.join("")) throw damaged(path, "its checksums do not match");
}

/** Reads the entries of a checked archive in order. */
export const readArchive = (path: string, visit: (name: string, content: Readable) => Promise<void>): Promise<void> =>
  visitEntries(path, async (name, content) => {
    if (name !== checksumsName) await visit(name, content);
  });

export async function readAll(content: Readable): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of content) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}
