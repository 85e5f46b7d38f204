// One channel of a mux: a stream that Node's HTTP takes for a socket.
// C1. No more is kept of what the other side sends than the room it was given: room is given again
// only for what was read.
// C2. No more is sent than the other side has room for, and one frame of a channel at a time:
// channels take turns.
import { Duplex } from "node:stream";
import { largestPayloadBytes } from "./mux-frames.ts";

/** How much either side may send on a channel before the other one has read it. */
export const channelRoomBytes = 256 * 1024;
/** Small parts are copied, since a view keeps the whole chunk it lies in. */
const copiedBytes = 16 * 1024;
/** So many parts are joined to one: each costs memory besides its bytes. */
const mostParts = 512;

/** What a channel needs of its mux. */
export interface ChannelLink {
  /** Asks for a turn to send; `sendNext` is called when it comes. */
  wantTurn(channel: Channel): void;
  sendData(id: number, bytes: Buffer): void;
  sendEnd(id: number): void;
  sendReset(id: number): void;
  giveRoom(id: number, sizeBytes: number): void;
  /** The channel is over. */
  forget(channel: Channel): void;
  /** Whether the channel keeps the process alive has changed. */
  holdChanged(by: 1 | -1): void;
}

type Done = (error?: Error | null) => void;

export class Channel extends Duplex {
  readonly id: number;
  /** As of a socket; HTTP's pool compares it. */
  timeout = 0;
  readonly #link: ChannelLink;
  #received: Buffer[] = [];
  #receivedBytes = 0;
  /** What the other side may still send, and what was read since it was last told. */
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

  /** Takes bytes from the other side; false when it had no room for them, or had ended before. */
  receive(part: Buffer): boolean {
    this.#givenRoom -= part.length;
    if (this.#givenRoom < 0 || this.#hasRemoteEnded) return false;
    this.#received.push(part.length < copiedBytes ? Buffer.from(part) : part);
    this.#receivedBytes += part.length;
    if (this.#received.length > mostParts) this.#received = [Buffer.concat(this.#received)];
    this.#deliver();
    return true;
  }

  /** The other side sends no more; false when it had said so before. */
  receiveEnd(): boolean {
    if (this.#hasRemoteEnded) return false;
    this.#hasRemoteEnded = true;
    this.#deliver();
    return true;
  }

  /** The other side has gone. What it had sent before its end can still be read. */
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

  /** The other side has room for more; false when it claims more than there can be. */
  receiveRoom(sizeBytes: number): boolean {
    this.#room += sizeBytes;
    if (this.#sending !== null) this.#link.wantTurn(this);
    return this.#room <= channelRoomBytes;
  }

  /** Sends one frame at most; whether there is more that could be sent now. */
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

  // What HTTP asks of a socket besides being a stream.

  /** Emits `timeout` when nothing was sent or received for so long; 0 is never. */
  setTimeout(timeoutMs: number, listener?: () => void): this {
    this.timeout = timeoutMs;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = timeoutMs > 0 ? setTimeout(() => this.emit("timeout"), timeoutMs).unref() : null;
    if (listener !== undefined && timeoutMs > 0) this.once("timeout", listener);
    else if (listener !== undefined) this.removeListener("timeout", listener);
    return this;
  }

  /** Ends the channel once all that was written is sent, and reads no more. */
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
    // Without this nobody who waits for no data, such as a pool, would see the end.
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
