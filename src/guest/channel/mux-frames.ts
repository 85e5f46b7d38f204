// Frames of the mux: kind (1 byte), channel (4), length of the payload (3), payload. Numbers are
// big-endian.
//
//   hello   the first frame of each side: the channel is the magic number, the payload the version
//   open    a new channel, from the side that connects only; its number is above that of every one before
//   data    bytes, at most as many as the other side has given room for
//   end     no more bytes follow; the other direction stays open
//   reset   the channel is over in both directions
//   room    the payload says how many bytes more the other side may send (4 bytes)

export const frameKind = { hello: 0, open: 1, data: 2, end: 3, reset: 4, room: 5 } as const;
export type FrameKind = (typeof frameKind)[keyof typeof frameKind];

export const muxMagic = 0x57534d58;
export const muxVersion = 1;
const headerBytes = 8;
export const largestPayloadBytes = 64 * 1024;

/**
 * Payloads up to this size are copied into one buffer with their header; above it, a second write
 * is cheaper.
 */
const copiedBytes = 16 * 1024;

/**
 * The payload length of each frame kind; null for data, which has 1 to `largestPayloadBytes` bytes.
 */
const payloadBytes: readonly (number | null)[] = [1, 0, null, 0, 0, 4];

/** Encodes a frame as the buffers to write. The payload must not be changed afterwards. */
export function encodeFrame(kind: FrameKind, channel: number, payload: Buffer = Buffer.alloc(0)): readonly Buffer[] {
  const isCopied = payload.length <= copiedBytes;
  const bytes = Buffer.allocUnsafe(headerBytes + (isCopied ? payload.length : 0));
  bytes.writeUInt8(kind, 0);
  bytes.writeUInt32BE(channel, 1);
  bytes.writeUIntBE(payload.length, 5, 3);
  if (!isCopied) return [bytes, payload];
  payload.copy(bytes, headerBytes);
  return [bytes];
}

/** Thrown when the other side breaks the rules of the mux. */
export class MuxFault extends Error {
  override readonly name = "MuxFault";
}

export interface FrameSink {
  /** Takes a frame that is not data. */
  control(kind: FrameKind, channel: number, payload: Buffer): void;
  /** Takes a part of a data frame as soon as it arrives; a view of the received chunk. */
  data(channel: number, part: Buffer): void;
}

/**
 * Creates a parser that takes a stream chunk by chunk. It throws a MuxFault at the first invalid
 * frame and must not be called after that.
 */
export function createFrameReader(sink: FrameSink): (chunk: Buffer) => void {
  const head = Buffer.alloc(headerBytes + 4);
  let have = 0;
  /** Bytes still missing of the data frame being read. */
  let left = 0;
  let channel = 0;

  const wanted = (): number => (have < headerBytes ? headerBytes : headerBytes + controlLength(head));
  const collect = (chunk: Buffer): number => {
    const taken = chunk.copy(head, have, 0, wanted() - have);
    have += taken;
    if (have < headerBytes) return taken;
    channel = head.readUInt32BE(1);
    const length = checkedLength(head);
    if (head[0] === frameKind.data) {
      left = length;
      have = 0;
    } else if (have === headerBytes + length) {
      have = 0;
      sink.control(head[0] as FrameKind, channel, Buffer.from(head.subarray(headerBytes, headerBytes + length)));
    }
    return taken;
  };
  return (chunk) => {
    for (let at = 0; at < chunk.length; ) {
      if (left === 0) {
        at += collect(chunk.subarray(at));
        continue;
      }
      const part = chunk.subarray(at, at + left);
      left -= part.length;
      at += part.length;
      sink.data(channel, part);
    }
  };
}

const controlLength = (head: Buffer): number => payloadBytes[head[0]!] ?? 0;

function checkedLength(head: Buffer): number {
  const kind = head[0]!;
  const length = head.readUIntBE(5, 3);
  const expected = payloadBytes[kind];
  if (expected === undefined) throw new MuxFault(`there is no frame of kind ${kind}`);
  const fits = expected === null ? length > 0 && length <= largestPayloadBytes : length === expected;
  if (!fits) throw new MuxFault(`a frame of kind ${kind} cannot have ${length} bytes`);
  return length;
}
