// The stream of a container's standard streams: what we write goes in as it is, what comes out
// comes in frames of both outputs. The library's own way of taking them apart reads without being
// asked to and never ends.

import type { Socket } from "node:net";
import { Duplex } from "node:stream";

const headerBytes = 8;
const complaintBytes = 4_000;
/** What a frame of standard error is marked with. */
const errorKind = 2;

/**
 * Standard input and output of a program in a container. Nothing is read from the engine that
 * nobody reads from here. Ending it ends the program's input.
 */
export class StandardStreams extends Duplex {
  readonly #socket: Socket;
  #header: Buffer = Buffer.alloc(0);
  #left = 0;
  #isError = false;
  #complaint = "";

  constructor(socket: Socket) {
    super({ allowHalfOpen: true });
    this.#socket = socket;
    socket.on("data", (chunk: Buffer) => {
      if (!this.#receive(chunk)) socket.pause();
    });
    socket.on("end", () => this.push(null));
    socket.on("error", (error) => this.destroy(error));
    // Without an end before: the engine has gone.
    socket.on("close", () => {
      if (!this.readableEnded) this.push(null);
    });
    socket.pause();
  }

  /** The last of what the program said on its standard error. */
  complaint(): string {
    return this.#complaint.trim();
  }

  /** Whether it keeps our process alive. */
  ref(): void {
    this.#socket.ref();
  }

  unref(): void {
    this.#socket.unref();
  }

  override _read(): void {
    this.#socket.resume();
  }

  override _write(chunk: Buffer, encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#socket.write(chunk, encoding, done);
  }

  override _writev(chunks: { chunk: Buffer }[], done: (error?: Error | null) => void): void {
    this.#socket.write(Buffer.concat(chunks.map(({ chunk }) => chunk)), done);
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#socket.end(() => done());
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#socket.destroy();
    done(error);
  }

  /** False when what was read is not taken any further for now. */
  #receive(chunk: Buffer): boolean {
    let goesOn = true;
    for (let at = 0; at < chunk.length; ) {
      if (this.#left === 0) {
        at = this.#readHeader(chunk, at);
        continue;
      }
      const part = chunk.subarray(at, at + this.#left);
      at += part.length;
      this.#left -= part.length;
      if (this.#isError) this.#complaint = (this.#complaint + part.toString("utf8")).slice(-complaintBytes);
      else if (!this.push(part)) goesOn = false;
    }
    return goesOn;
  }

  #readHeader(chunk: Buffer, at: number): number {
    const end = Math.min(chunk.length, at + headerBytes - this.#header.length);
    this.#header = Buffer.concat([this.#header, chunk.subarray(at, end)]);
    if (this.#header.length < headerBytes) return end;
    this.#isError = this.#header.readUInt8(0) === errorKind;
    this.#left = this.#header.readUInt32BE(4);
    this.#header = Buffer.alloc(0);
    return end;
  }
}
