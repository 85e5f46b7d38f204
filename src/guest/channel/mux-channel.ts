// One channel of a mux: a stream that Node's HTTP accepts as a socket.
// MC1. The buffer for data from the other side never exceeds the room granted to it; room is
// granted again only for data that was read.
// MC2. A channel never sends more than the other side has room for, and one frame at a time:
// channels take turns.
import { Duplex } from "node:stream";
import { largestPayloadBytes } from "./mux-frames.ts";

/** How many bytes either side may send on a channel before the other one has read them. */
export const channelRoomBytes = 256 * 1024;
/** Smaller parts are copied, because a view keeps its whole chunk in memory. */
const copiedBytes = 16 * 1024;
/** More parts than this are joined into one, because each costs memory besides its bytes. */
const maxParts = 512;

/** The part of its mux that a channel uses. */
export interface ChannelLink {
  /** Asks for a turn to send; the mux calls `sendNext` when it comes. */
  wantTurn(channel: Channel): void;
  sendData(id: number, bytes: Buffer): void;
  sendEnd(id: number): void;
  sendReset(id: number): void;
  giveRoom(id: number, sizeBytes: number): void;
  /** Removes a channel that is closed. */
  forget(channel: Channel): void;
  /** Counts the channels that keep the process alive. */
  holdChanged(by: 1 | -1): void;
}

type Done = (error?: Error | null) => void;

export class Channel extends Duplex {
  readonly id: number;
  /** Part of a socket's interface; HTTP's pool compares it. */
  timeout = 0;
  readonly #link: ChannelLink;
  #received: Buffer[] = [];
  #receivedBytes = 0;
  /**
   * How many bytes the other side may still send, and how many were read since room was last
   * granted.
   */
  #givenRoom = channelRoomBytes;
  #readBytes = 0;
  #isWanted = false;
  #hasRemoteEnded = false;
  #hasRemoteGone = false;
  #room = channelRoomBytes;
  #sending: { bytes: Buffer; done: Done } | null = null;
  #hasEnded = false;
  #timer: NodeJS.Timeout | null = null;
  #isHeld = true;

  constructor(link: ChannelLink, id: number, options: { allowHalfOpen: boolean }) {
    super({ ...options, readableHighWaterMark: largestPayloadBytes, writableHighWaterMark: largestPayloadBytes });
    this.id = id;
    this.#link = link;
    link.holdChanged(1);
  }

  /**
   * Takes bytes from the other side; returns false when it exceeded its room or had already ended.
   */
  receive(part: Buffer): boolean {
    this.#givenRoom -= part.length;
    if (this.#givenRoom < 0 || this.#hasRemoteEnded) return false;
    this.#received.push(part.length < copiedBytes ? Buffer.from(part) : part);
    this.#receivedBytes += part.length;
    if (this.#received.length > maxParts) this.#received = [Buffer.concat(this.#received)];
    this.#deliver();
    return true;
  }

  /** Handles the end of the other side's data; returns false when it had already ended. */
  receiveEnd(): boolean {
    if (this.#hasRemoteEnded) return false;
    this.#hasRemoteEnded = true;
    this.#deliver();
    return true;
  }

  /** Handles a reset by the other side. Data it sent before its end can still be read. */
  receiveReset(): void {
    this.#hasRemoteGone = true;
    if (!this.#hasRemoteEnded) {
      this.destroy(Object.assign(new Error("the other side closed the channel"), { code: "ECONNRESET" }));
      return;
    }
    if (this.readableEnded) this.destroy();
    else this.once("end", () => this.destroy());
    this.#finishSending();
  }

  /** Handles room granted by the other side; returns false when it grants more than allowed. */
  receiveRoom(sizeBytes: number): boolean {
    this.#room += sizeBytes;
    if (this.#sending !== null) this.#link.wantTurn(this);
    return this.#room <= channelRoomBytes;
  }

  /** Sends at most one frame; returns whether more could be sent now. */
  sendNext(): boolean {
    const { bytes = null } = this.#sending ?? {};
    const size = Math.min(bytes?.length ?? 0, this.#room, largestPayloadBytes);
    if (bytes === null || size === 0) return false;
    this.#room -= size;
    this.#touch();
    this.#link.sendData(this.id, bytes.subarray(0, size));
    if (size === bytes.length) {
      this.#finishSending();
      return false;
    }
    this.#sending!.bytes = bytes.subarray(size);
    return this.#room > 0;
  }

  override _read(): void {
    this.#isWanted = true;
    this.#deliver();
  }

  override _write(bytes: Buffer, _encoding: BufferEncoding, done: Done): void {
    this.#sending = { bytes, done };
    if (this.#hasRemoteGone || bytes.length === 0) this.#finishSending();
    else this.#link.wantTurn(this);
  }

  override _writev(chunks: { chunk: Buffer; encoding: BufferEncoding }[], done: Done): void {
    this._write(Buffer.concat(chunks.map(({ chunk }) => chunk)), "utf8", done);
  }

  override _final(done: Done): void {
    this.#hasEnded = true;
    if (!this.#hasRemoteGone) this.#link.sendEnd(this.id);
    done();
  }

  override _destroy(error: Error | null, done: Done): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.unref();
    const isWhole = this.#hasEnded && this.#hasRemoteEnded;
    if (!isWhole && !this.#hasRemoteGone) this.#link.sendReset(this.id);
    this.#received = [];
    this.#link.forget(this);
    const sending = this.#sending;
    this.#sending = null;
    sending?.done(error ?? new Error("the channel was closed"));
    done(error);
  }

  // The rest of a socket's interface, which HTTP uses.

  /** Emits `timeout` when nothing was sent or received for `timeoutMs`; 0 means never. */
  setTimeout(timeoutMs: number, listener?: () => void): this {
    this.timeout = timeoutMs;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = timeoutMs > 0 ? setTimeout(() => this.emit("timeout"), timeoutMs).unref() : null;
    if (listener !== undefined && timeoutMs > 0) this.once("timeout", listener);
    else if (listener !== undefined) this.removeListener("timeout", listener);
    return this;
  }

  /** Closes the channel once everything written is sent, without reading any more. */
  destroySoon(): void {
    if (this.writable) this.end();
    if (this.writableFinished) this.destroy();
    else this.once("finish", () => this.destroy());
  }

  setNoDelay(): this {
    return this;
  }

  setKeepAlive(): this {
    return this;
  }

  ref(): this {
    if (!this.#isHeld && !this.destroyed) this.#hold(true);
    return this;
  }

  unref(): this {
    if (this.#isHeld) this.#hold(false);
    return this;
  }

  #hold(isHeld: boolean): void {
    this.#isHeld = isHeld;
    this.#link.holdChanged(isHeld ? 1 : -1);
  }

  #touch(): void {
    this.#timer?.refresh();
  }

  #deliver(): void {
    while (this.#isWanted && this.#received.length > 0) {
      const part = this.#received.shift()!;
      this.#receivedBytes -= part.length;
      this.#readBytes += part.length;
      this.#touch();
      this.#isWanted = this.push(part);
    }
    this.#giveRoom();
    if (!this.#hasRemoteEnded || this.#receivedBytes > 0 || this.#isDelivered) return;
    this.#isDelivered = true;
    this.push(null);
    // Without this read, a pool, which never reads data, would not see the end.
    this.read(0);
  }

  #isDelivered = false;

  #giveRoom(): void {
    if (this.#readBytes < channelRoomBytes / 2 || this.#hasRemoteEnded || this.destroyed) return;
    this.#givenRoom += this.#readBytes;
    this.#link.giveRoom(this.id, this.#readBytes);
    this.#readBytes = 0;
  }

  #finishSending(): void {
    const sending = this.#sending;
    this.#sending = null;
    sending?.done();
  }
}
