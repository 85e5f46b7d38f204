// Standard streams of a container: input is sent as it is, and both outputs come back in frames.
// Dockerode's own demultiplexer ignores backpressure and never ends.

import type { Socket } from "node:net";
import { Duplex } from "node:stream";

const headerBytes = 8;
const complaintBytes = 4_000;
/** The stream number of standard error. */
const errorKind = 2;

/**
 * Standard input and output of a program in a container. It reads from the engine only on demand.
 * Ending it ends the program's input.
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
    // Closed without an end: the engine has gone.
    socket.on("close", () => {
      if (!this.readableEnded) this.push(null);
    });
    socket.pause();
  }

  /** Returns the last output on standard error. */
  complaint(): string {
    return this.#complaint.trim();
  }

  /** Keeps our process alive while the socket is open. */
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

  /** Returns false when the reader wants no more for now. */
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
