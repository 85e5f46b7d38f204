// Reads tar as GNU tar writes it (and plain ustar), strictly: anything it does not understand is
// refused, so that no two readers can see different contents in one archive. Names are bytes, held
// as latin1 text.

const blockBytes = 512;
const maxNameBytes = 64 * 1024;
const maxSparseParts = 1_000_000;

/** The reason why an archive is not unpacked. */
export class ArchiveFault extends Error {
  override readonly name = "ArchiveFault";
  /**
   * Whether the archive stopped short or was not one: the program that produced it may know why.
   */
  readonly mayBeCutOff: boolean;

  constructor(message: string, options: { mayBeCutOff?: boolean } = {}) {
    super(message);
    this.mayBeCutOff = options.mayBeCutOff ?? false;
  }
}

export interface TarEntry {
  /** `sparse` is a file with holes, of which only some parts are stored. */
  readonly type: "file" | "sparse" | "folder" | "symlink" | "link";
  readonly name: string;
  /** The link's target. */
  readonly target: string;
  readonly mode: number;
  readonly modifiedAtSeconds: number;
  /** The size of the file; for a sparse file, including its holes. */
  readonly sizeBytes: number;
  /** Where the stored bytes belong in the file, in the order in which the archive holds them. */
  readonly parts: readonly { readonly offset: number; readonly sizeBytes: number }[];
}

/** The bytes of an archive, in order. */
export interface ByteSource {
  /** Returns the next bytes, at least one and at most `most`; null at the end. */
  next(most: number): Promise<Buffer | null>;
}

/** Reads a stream as a byte source. */
export function createByteSource(stream: AsyncIterable<Buffer>): ByteSource {
  const chunks = stream[Symbol.asyncIterator]();
  let rest: Buffer = Buffer.alloc(0);
  return {
    next: async (most) => {
      while (rest.length === 0) {
        const { done = false, value } = await chunks.next();
        if (done) return null;
        rest = value as Buffer;
      }
      const part = rest.subarray(0, most);
      rest = rest.subarray(part.length);
      return part;
    },
  };
}

/**
 * Yields every entry of an archive. Before asking for the next entry, the caller must read the
 * bytes of its `parts` with `readEntryPart`. Fails with an ArchiveFault when something is not an
 * entry or the end is missing.
 */
export async function* readTar(source: ByteSource): AsyncGenerator<TarEntry> {
  let longName: string | null = null;
  let longTarget: string | null = null;
  for (let isFirst = true; ; isFirst = false) {
    const header = await readExactly(source, blockBytes);
    if (header.every((byte) => byte === 0)) return;
    checkHeader(header, isFirst);
    const type = String.fromCharCode(header[156] || 0x30);
    if (type === "L") longName = await longText(source, header);
    else if (type === "K") longTarget = await longText(source, header);
    else {
      const entry = await entryOf(source, { header, type, longName, longTarget });
      yield entry;
      const stored = entry.parts.reduce((sum, part) => sum + part.sizeBytes, 0);
      await readExactly(source, padding(stored));
      longName = null;
      longTarget = null;
    }
  }
}

/** Yields the bytes of one part of an entry, as they arrive. */
export async function* readEntryPart(source: ByteSource, sizeBytes: number): AsyncGenerator<Buffer> {
  for (let left = sizeBytes; left > 0; ) {
    const chunk = await source.next(left);
    if (chunk === null) throw truncatedFault();
    left -= chunk.length;
    yield chunk;
  }
}

interface HeaderFacts {
  readonly header: Buffer;
  readonly type: string;
  readonly longName: string | null;
  readonly longTarget: string | null;
}

const typeNames: Readonly<Record<string, TarEntry["type"]>> = {
  "0": "file",
  "1": "link",
  "2": "symlink",
  "5": "folder",
  S: "sparse",
};
const refusedNames: Readonly<Record<string, string>> = {
  "3": "a device",
  "4": "a device",
  "6": "a named pipe",
  x: "an extended header",
  g: "an extended header",
};

async function entryOf(source: ByteSource, { header, type, longName, longTarget }: HeaderFacts): Promise<TarEntry> {
  const name = longName ?? nameIn(header);
  const known = typeNames[type];
  if (known === undefined) {
    const what = refusedNames[type] ?? `an entry of the unknown type ${JSON.stringify(type)}`;
    throw new ArchiveFault(`${quoteName(name)} is ${what}, which is not unpacked`);
  }
  const storedBytes = numberIn(header, 124, 12);
  if (known !== "file" && known !== "sparse" && storedBytes > 0)
    throw new ArchiveFault(`${quoteName(name)} is a ${known} and has content`);
  const sparse = known === "sparse" ? await sparseMap(source, header, storedBytes) : null;
  return {
    type: known,
    name,
    target: longTarget ?? textIn(header, 157, 100),
    mode: numberIn(header, 100, 8),
    modifiedAtSeconds: numberIn(header, 136, 12),
    sizeBytes: sparse?.sizeBytes ?? storedBytes,
    parts: sparse?.parts ?? (storedBytes > 0 ? [{ offset: 0, sizeBytes: storedBytes }] : []),
  };
}

/**
 * Reads the map of a sparse file in GNU tar's format: four parts in the header, 21 in each block
 * after it.
 */
async function sparseMap(
  source: ByteSource,
  header: Buffer,
  storedBytes: number,
): Promise<Pick<TarEntry, "sizeBytes" | "parts">> {
  const sizeBytes = numberIn(header, 483, 12);
  const parts = partsIn(header, 386, 4);
  let isExtended = header[482] !== 0;
  while (isExtended) {
    const block = await readExactly(source, blockBytes);
    parts.push(...partsIn(block, 0, 21));
    isExtended = block[504] !== 0;
    if (parts.length > maxSparseParts) throw new ArchiveFault(`a sparse file has more than ${maxSparseParts} parts`);
  }
  let end = 0;
  let sum = 0;
  for (const part of parts) {
    if (part.offset < end || part.offset + part.sizeBytes > sizeBytes) throw new ArchiveFault("a file's holes overlap");
    end = part.offset + part.sizeBytes;
    sum += part.sizeBytes;
  }
  if (sum !== storedBytes) throw new ArchiveFault("a file's holes do not fit its content");
  return { sizeBytes, parts: parts.filter((part) => part.sizeBytes > 0) };
}

function partsIn(block: Buffer, at: number, count: number): { offset: number; sizeBytes: number }[] {
  const offsets = Array.from({ length: count }, (_, index) => at + 24 * index);
  return offsets
    .filter((offset) => block[offset] !== 0)
    .map((offset) => ({ offset: numberIn(block, offset, 12), sizeBytes: numberIn(block, offset + 12, 12) }));
}

function checkHeader(header: Buffer, isFirst: boolean): void {
  const sum = header.reduce((total, byte, at) => total + (at >= 148 && at < 156 ? 0x20 : byte), 0);
  const magic = header.toString("latin1", 257, 262);
  if (magic === "ustar" && sum === numberIn(header, 148, 8)) return;
  throw new ArchiveFault(isFirst ? "it is not a tar archive" : "the archive is damaged");
}

async function longText(source: ByteSource, header: Buffer): Promise<string> {
  const sizeBytes = numberIn(header, 124, 12);
  if (sizeBytes > maxNameBytes) throw new ArchiveFault(`a name has ${sizeBytes} bytes`);
  const block = await readExactly(source, sizeBytes + padding(sizeBytes));
  return textIn(block, 0, sizeBytes);
}

function nameIn(header: Buffer): string {
  const name = textIn(header, 0, 100);
  // GNU headers use the bytes of the prefix for other fields.
  const isPosix = header[262] === 0;
  const prefix = isPosix ? textIn(header, 345, 155) : "";
  return prefix === "" ? name : `${prefix}/${name}`;
}

function textIn(block: Buffer, at: number, length: number): string {
  const field = block.toString("latin1", at, at + length);
  const end = field.indexOf("\0");
  return end === -1 ? field : field.slice(0, end);
}

/** Reads a number written in octal digits, or in binary when octal digits do not suffice. */
function numberIn(block: Buffer, at: number, length: number): number {
  let value = 0;
  if (block[at]! & 0x80) {
    value = block[at]! & 0x7f;
    for (const byte of block.subarray(at + 1, at + length)) value = value * 256 + byte;
  } else {
    const digits = textIn(block, at, length).trim();
    if (!/^[0-7]*$/.test(digits)) throw new ArchiveFault("the archive is damaged: a number field holds something else");
    value = digits === "" ? 0 : Number.parseInt(digits, 8);
  }
  if (!Number.isSafeInteger(value)) throw new ArchiveFault("a number in the archive is too large");
  return value;
}

function padding(sizeBytes: number): number {
  return (blockBytes - (sizeBytes % blockBytes)) % blockBytes;
}

async function readExactly(source: ByteSource, sizeBytes: number): Promise<Buffer> {
  if (sizeBytes === 0) return Buffer.alloc(0);
  const chunks: Buffer[] = [];
  for await (const chunk of readEntryPart(source, sizeBytes)) chunks.push(chunk);
  return chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
}

function truncatedFault(): ArchiveFault {
  return new ArchiveFault("the archive is truncated", { mayBeCutOff: true });
}

/** Quotes a name for a message. */
export function quoteName(name: string): string {
  return JSON.stringify(Buffer.from(name, "latin1").toString("utf8"));
}
