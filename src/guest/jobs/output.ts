// The output of a job: one file that only grows, so that an offset always means the same bytes.
// JO1. Each stage may write `limitBytes` directly. Later output is kept only as a rolling tail of
// 64 KiB in memory, which is appended when the stage ends, after a line that says how many bytes
// are missing.
// JO2. A program never waits longer than the disk takes: output that can no longer be written is
// dropped, and the job is notified.
import { type FileHandle, open, stat } from "node:fs/promises";
import type { Readable } from "node:stream";
import { messageOf, systemCode } from "../faults.ts";
import type { ChangeNotifier } from "./changes.ts";

const tailBytes = 64 * 1024;
const pendingLimitBytes = 1024 * 1024;
const drainMs = 2_000;
const headBytes = 4 * 1024;

export interface StageOutput {
  readonly start: number;
  readonly end: number;
  readonly truncated: boolean;
  /** The first 4 KiB, for explaining why a program never ran. */
  readonly head: string;
}

export interface OutputCollector {
  /** How many bytes readers can read now. */
  sizeBytes(): number;
  /** Why writing failed; null while it works. */
  problem(): string | null;
  /** The offset at which the next stage's output begins. */
  position(): number;
  /**
   * Collects all of a program's output; resolves at its end, or soon after `ended` when another
   * process still holds the pipe.
   */
  collect(stream: Readable, limitBytes: number, ended: Promise<unknown>): Promise<StageOutput>;
  /** Closes the file once everything is written. */
  close(): Promise<void>;
}

/** Notified about the output. */
export interface OutputListeners {
  /** Announces that there is more output. */
  readonly changes: ChangeNotifier;
  /** Called once, when the disk is full or gone. */
  readonly onProblem: () => void;
}

/** Opens a new output file. */
export async function createJobOutput(path: string, listeners: OutputListeners): Promise<OutputCollector> {
  const file = await open(path, "wx", 0o600);
  const writer = createWriter(file, listeners);
  return {
    sizeBytes: writer.written,
    problem: writer.problem,
    position: writer.accepted,
    collect: (stream, limitBytes, ended) => collectOutput(writer, stream, limitBytes, ended),
    close: async () => {
      await writer.idle();
      await file.close();
      listeners.changes.announce();
    },
  };
}

/** Reads from a file that may still grow. */
export async function readOutput(path: string, offset: number, limitBytes: number): Promise<Buffer> {
  const file = await open(path, "r");
  try {
    const { bytesRead, buffer } = await file.read(Buffer.alloc(limitBytes), 0, limitBytes, offset);
    return buffer.subarray(0, bytesRead);
  } finally {
    await file.close();
  }
}

/** Returns the size of an output file, 0 when it does not exist. */
export async function outputSize(path: string): Promise<number> {
  try {
    return (await stat(path)).size;
  } catch (error) {
    if (systemCode(error) === "ENOENT") return 0;
    throw error;
  }
}

interface Writer {
  accept(bytes: Buffer): void;
  accepted(): number;
  written(): number;
  isFull(): boolean;
  problem(): string | null;
  idle(): Promise<void>;
}

function createWriter(file: FileHandle, { changes, onProblem }: OutputListeners): Writer {
  let pending: Buffer[] = [];
  let accepted = 0;
  let written = 0;
  let problem: string | null = null;
  let flushing: Promise<void> | null = null;

  const flush = async (): Promise<void> => {
    while (pending.length > 0) {
      const batch = Buffer.concat(pending);
      pending = [];
      try {
        await file.appendFile(batch);
        written += batch.length;
      } catch (error) {
        problem = `the job's output could not be written: ${messageOf(error)}`;
        written = (await file.stat().catch(() => ({ size: written }))).size; // On a failing disk the old size is the best estimate.
        accepted = written;
        pending = [];
        onProblem();
      }
      changes.announce();
    }
    flushing = null;
  };
  return {
    accept: (bytes) => {
      if (problem !== null || bytes.length === 0) return;
      pending.push(bytes);
      accepted += bytes.length;
      flushing ??= flush();
    },
    accepted: () => accepted,
    written: () => written,
    isFull: () => accepted - written > pendingLimitBytes,
    problem: () => problem,
    idle: async () => {
      while (flushing !== null) await flushing;
    },
  };
}

async function collectOutput(
  writer: Writer,
  stream: Readable,
  limitBytes: number,
  ended: Promise<unknown>,
): Promise<StageOutput> {
  const start = writer.accepted();
  const keeper = createKeeper(writer, limitBytes);
  // A process that escaped may hold the pipe forever, so this does not wait for it.
  const cut = ended.then(() => setTimeout(() => stream.destroy(), drainMs));
  await new Promise<void>((resolve) => {
    stream.on("data", (chunk: Buffer) => {
      keeper.take(chunk);
      if (!writer.isFull()) return;
      stream.pause();
      void writer.idle().then(() => stream.resume());
    });
    stream.on("error", () => undefined); // "close" follows, and the output read so far is kept.
    stream.on("close", resolve);
  });
  clearTimeout(await cut);
  keeper.finish();
  await writer.idle();
  return { start, end: writer.accepted(), truncated: keeper.truncated(), head: keeper.head() };
}

interface Keeper {
  take(chunk: Buffer): void;
  finish(): void;
  truncated(): boolean;
  head(): string;
}

function createKeeper(writer: Writer, limitBytes: number): Keeper {
  let kept = 0;
  let beyond = 0;
  let tail: Buffer = Buffer.alloc(0);
  let head: Buffer = Buffer.alloc(0);
  return {
    take: (chunk) => {
      if (head.length < headBytes) head = Buffer.concat([head, chunk.subarray(0, headBytes - head.length)]);
      const now = chunk.subarray(0, limitBytes - kept);
      writer.accept(now);
      kept += now.length;
      const later = chunk.subarray(now.length);
      if (later.length === 0) return;
      beyond += later.length;
      tail = lastBytes(tail, later);
    },
    finish: () => {
      const dropped = beyond - tail.length;
      if (dropped > 0) writer.accept(Buffer.from(`\n[${dropped} bytes of output dropped here]\n`));
      writer.accept(dropped > 0 ? fromWholeCharacter(tail) : tail);
    },
    truncated: () => beyond > tail.length || writer.problem() !== null,
    head: () => head.toString("utf8"),
  };
}

/** Returns the last 64 KiB of both, copied, because a view would keep the whole chunk in memory. */
function lastBytes(before: Buffer, chunk: Buffer): Buffer {
  if (chunk.length >= tailBytes) return Buffer.from(chunk.subarray(chunk.length - tailBytes));
  const kept = before.subarray(Math.max(0, before.length + chunk.length - tailBytes));
  return Buffer.concat([kept, chunk]);
}

/** Skips the rest of a UTF-8 character that was cut in two. */
function fromWholeCharacter(bytes: Buffer): Buffer {
  let skipped = 0;
  while (skipped < 3 && ((bytes[skipped] ?? 0) & 0xc0) === 0x80) skipped += 1;
  return bytes.subarray(skipped);
}
