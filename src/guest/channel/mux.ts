// Many channels over one byte stream, such as the standard streams of a `docker exec`. Both ends
// are here: the guest accepts channels, the host opens them. Public: src/sandbox imports it.
// MX1. A slow reader of one channel delays no other channel; the memory of a channel is bounded
// (MC1).
// MX2. Channels that have data to send take turns, one frame each.
// MX3. A violation of the rules ends the whole connection with an error. So does a side that does
// not read our answers.
import type { Duplex } from "node:stream";
import { Channel, type ChannelLink } from "./mux-channel.ts";
import {
  createFrameReader,
  encodeFrame,
  type FrameKind,
  frameKind,
  MuxFault,
  muxMagic,
  muxVersion,
} from "./mux-frames.ts";

/** Further channels are refused: the guest sends a reset, the host throws an error. */
const maxChannels = 1_024;
/** How many bytes of control frames may wait to be sent; data waits for its turn instead. */
const maxWaitingBytes = 1024 * 1024;
const highestChannel = 2 ** 32 - 1;
const quotedBytes = 200;

export interface Mux {
  /**
   * Opens a channel that is usable at once. Throws when the connection is closed or has no channel
   * left.
   */
  open(): Duplex;
  /**
   * Resolves once the connection is closed, with the error that closed it, or null after `close` or
   * the other side's end.
   */
  readonly closed: Promise<Error | null>;
  /** Closes the connection and every channel. */
  close(): void;
}

export interface MuxOptions {
  /** Takes a channel that the other side opened; without it, opening one is an error. */
  readonly onChannel?: (channel: Duplex) => void;
}

/** A stream that can say whether it keeps the process alive. */
interface Holding {
  ref?(): unknown;
  unref?(): unknown;
}

/** Speaks the mux over a stream, which belongs to it from now on. */
export function createMux(stream: Duplex & Holding, options: MuxOptions = {}): Mux {
  return new Link(stream, options.onChannel ?? null);
}

class Link implements Mux, ChannelLink {
  readonly closed: Promise<Error | null>;
  readonly #stream: Duplex & Holding;
  readonly #onChannel: ((channel: Duplex) => void) | null;
  readonly #channels = new Map<number, Channel>();
  readonly #turns = new Set<Channel>();
  #lastId = 0;
  #isGreeted = false;
  #beginning: Buffer = Buffer.alloc(0);
  #held = 0;
  #isClosed = false;
  #settle: (error: Error | null) => void = () => undefined;

  constructor(stream: Duplex & Holding, onChannel: ((channel: Duplex) => void) | null) {
    this.#stream = stream;
    this.#onChannel = onChannel;
    this.closed = new Promise((resolve) => {
      this.#settle = resolve;
    });
    const read = createFrameReader({
      control: (kind, channel, payload) => this.#control(kind, channel, payload),
      data: (channel, part) => this.#data(channel, part),
    });
    stream.on("data", (chunk: Buffer) => this.#receive(read, chunk));
    stream.on("drain", () => this.#giveTurns());
    stream.on("error", (error) => this.#end(error));
    stream.on("end", () => this.#end(null));
    stream.on("close", () => this.#end(null));
    this.#send(frameKind.hello, muxMagic, Buffer.from([muxVersion]));
    stream.unref?.();
  }

  open(): Duplex {
    if (this.#isClosed) throw new MuxFault("the connection is closed");
    if (this.#channels.size >= maxChannels) throw new MuxFault(`more than ${maxChannels} channels are in use`);
    if (this.#lastId >= highestChannel) throw new MuxFault("the connection has used up its channels");
    this.#lastId += 1;
    this.#send(frameKind.open, this.#lastId);
    return this.#add(this.#lastId, false);
  }

  close(): void {
    this.#end(null);
  }

  wantTurn(channel: Channel): void {
    this.#turns.add(channel);
    this.#giveTurns();
  }

  sendData(id: number, bytes: Buffer): void {
    this.#write(encodeFrame(frameKind.data, id, bytes));
  }

  sendEnd(id: number): void {
    this.#send(frameKind.end, id);
  }

  sendReset(id: number): void {
    this.#send(frameKind.reset, id);
  }

  giveRoom(id: number, sizeBytes: number): void {
    const payload = Buffer.allocUnsafe(4);
    payload.writeUInt32BE(sizeBytes);
    this.#send(frameKind.room, id, payload);
  }

  forget(channel: Channel): void {
    this.#channels.delete(channel.id);
    this.#turns.delete(channel);
  }

  holdChanged(by: 1 | -1): void {
    this.#held += by;
    if (this.#held === 0) this.#stream.unref?.();
    else if (this.#held === 1 && by === 1) this.#stream.ref?.();
  }

  #add(id: number, allowHalfOpen: boolean): Channel {
    const channel = new Channel(this, id, { allowHalfOpen });
    this.#channels.set(id, channel);
    return channel;
  }

  #receive(read: (chunk: Buffer) => void, chunk: Buffer): void {
    if (this.#isClosed) return;
    if (!this.#isGreeted) this.#beginning = Buffer.concat([this.#beginning, chunk.subarray(0, quotedBytes)]);
    try {
      read(chunk);
    } catch (error) {
      // Other errors come from listeners of a channel.
      if (!(error instanceof MuxFault)) throw error;
      this.#end(this.#isGreeted ? error : noMux(this.#beginning));
    }
  }

  #control(kind: FrameKind, id: number, payload: Buffer): void {
    if (!this.#isGreeted) this.#greeted(kind, id, payload);
    else if (kind === frameKind.hello) throw new MuxFault("the other side said hello twice");
    else if (kind === frameKind.open) this.#accept(id);
    else this.#controlChannel(kind, id, payload);
  }

  #controlChannel(kind: FrameKind, id: number, payload: Buffer): void {
    const channel = this.#channelOf(id);
    if (channel === undefined) return;
    if (kind === frameKind.reset) channel.receiveReset();
    else if (kind === frameKind.end) this.#requireFrame(channel.receiveEnd(), `channel ${id} ended twice`);
    else
      this.#requireFrame(
        channel.receiveRoom(payload.readUInt32BE()),
        `channel ${id} was given more room than there is`,
      );
  }

  #greeted(kind: FrameKind, id: number, payload: Buffer): void {
    if (kind !== frameKind.hello || id !== muxMagic) throw noMux(this.#beginning);
    this.#isGreeted = true;
    this.#beginning = Buffer.alloc(0);
    const version = payload.readUInt8();
    if (version !== muxVersion)
      throw new MuxFault(`the other side speaks version ${version} of the mux, not ${muxVersion}`);
  }

  #accept(id: number): void {
    if (this.#onChannel === null) throw new MuxFault("the other side opened a channel, which only we may");
    if (id <= this.#lastId) throw new MuxFault(`channel ${id} was opened out of turn`);
    this.#lastId = id;
    if (this.#channels.size >= maxChannels) this.sendReset(id);
    else this.#onChannel(this.#add(id, true));
  }

  #data(id: number, part: Buffer): void {
    if (!this.#isGreeted) throw noMux(this.#beginning);
    const channel = this.#channelOf(id);
    if (channel !== undefined)
      this.#requireFrame(channel.receive(part), `channel ${id} sent more than there is room for`);
  }

  /** Returns a channel; undefined when it is closed, because the other side may not know yet. */
  #channelOf(id: number): Channel | undefined {
    if (id === 0 || id > this.#lastId) throw new MuxFault(`there is no channel ${id}`);
    return this.#channels.get(id);
  }

  #requireFrame(holds: boolean, problem: string): void {
    if (!holds) throw new MuxFault(problem);
  }

  #giveTurns(): void {
    for (const channel of this.#turns) {
      if (this.#stream.writableNeedDrain || this.#isClosed) return;
      this.#turns.delete(channel);
      // Adding it again puts it at the end of the queue.
      if (channel.sendNext()) this.#turns.add(channel);
    }
  }

  #send(kind: FrameKind, id: number, payload?: Buffer): void {
    this.#write(encodeFrame(kind, id, payload));
    // MX3: data waits for its turn, but a side that never reads could make these answers pile up.
    if (this.#stream.writableLength > maxWaitingBytes) this.#end(new Error("the other side does not read"));
  }

  #write(buffers: readonly Buffer[]): void {
    if (this.#isClosed || !this.#stream.writable) return;
    if (buffers.length > 1) this.#stream.cork();
    for (const buffer of buffers) this.#stream.write(buffer);
    if (buffers.length > 1) this.#stream.uncork();
  }

  #end(error: Error | null): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const reason = error === null ? "the connection was closed" : `the connection broke: ${error.message}`;
    for (const channel of [...this.#channels.values()]) {
      channel.destroy(Object.assign(new Error(reason), { code: "ECONNRESET" }));
    }
    this.#stream.destroy();
    this.#settle(error);
  }
}

/**
 * A program that answers instead of a mux usually prints the reason, so the error quotes it without
 * control characters.
 */
function noMux(received: Buffer): MuxFault {
  const text = received
    .toString("latin1", 0, quotedBytes)
    .replace(/[^\x20-\x7e]+/g, " ")
    .trim();
  return new MuxFault(`the other side is not a mux: it sent ${JSON.stringify(text)}`);
}
