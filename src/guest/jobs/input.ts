// Numbered stdin: acknowledged input is on the volume and reaches the program once, in order.
import { type FileHandle, open } from "node:fs/promises";
import type { Writable } from "node:stream";
import { GuestFault } from "../faults.ts";
import { createChanges, waitUntil } from "./changes.ts";

const maxInputBytes = 256 * 1024 * 1024;
const chunkBytes = 64 * 1024;

export interface JobInput {
  /**
   * Resolves once the bytes are stored. A number already taken is acknowledged and dropped. Fails
   * with 409 for a gap or for input after the end.
   */
  accept(seq: number, bytes: Buffer, end: boolean): Promise<void>;
  /** Feeds a program from where the previous one stopped, until the input or the program ends. */
  feed(stream: Writable): Promise<void>;
  close(): Promise<void>;
}

/** Creates the input of one job, stored in a new file at `path` once there is any. */
export function createJobInput(path: string): JobInput {
  const changes = createChanges();
  let file: FileHandle | null = null;
  let lastSeq: number | null = null;
  let kept = 0;
  let fed = 0;
  let ended = false;
  let lastWrite: Promise<void> = Promise.resolve();

  const keep = async (seq: number, bytes: Buffer, end: boolean): Promise<void> => {
    if (lastSeq !== null && seq <= lastSeq) return;
    if (lastSeq !== null && seq > lastSeq + 1)
      throw conflict("stdin-gap", `expected number ${lastSeq + 1}, got ${seq}`);
    if (ended) throw conflict("stdin-ended", "the input has ended");
    if (kept + bytes.length > maxInputBytes) throw new GuestFault(413, "too-large", "a job's input is at most 256 MiB");
    file ??= await open(path, "wx+", 0o600);
    await file.write(bytes, 0, bytes.length, kept);
    await file.datasync();
    kept += bytes.length;
    lastSeq = seq;
    ended = end;
    changes.announce();
  };
  return {
    accept: (seq, bytes, end) => {
      const accepted = lastWrite.then(() => keep(seq, bytes, end));
      lastWrite = accepted.catch(() => undefined); // The caller gets the error; the next one starts fresh.
      return accepted;
    },
    feed: async (stream) => {
      const gone = new AbortController();
      stream.on("error", () => gone.abort()); // EPIPE: the program has stopped reading, which is fine.
      stream.on("close", () => gone.abort());
      while (!gone.signal.aborted) {
        await waitUntil(changes, () => fed < kept || ended, { waitMs: 3_600_000, signal: gone.signal });
        if (file === null || fed >= kept) {
          if (ended) break;
          continue;
        }
        const { bytesRead, buffer } = await file.read(Buffer.alloc(chunkBytes), 0, chunkBytes, fed);
        fed += bytesRead;
        if (!stream.write(buffer.subarray(0, bytesRead))) await drained(stream, gone.signal);
      }
      stream.end();
    },
    close: async () => {
      await lastWrite;
      ended = true;
      changes.announce();
      await file?.close();
      file = null;
    },
  };
}

function drained(stream: Writable, gone: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    stream.once("drain", resolve);
    gone.addEventListener("abort", () => resolve(), { once: true });
  });
}

function conflict(code: string, message: string): GuestFault {
  return new GuestFault(409, code, message);
}
