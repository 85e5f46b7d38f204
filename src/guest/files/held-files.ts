// The files of a volume whose folders belong to different users: each file is accessed as the user
// whose folder it lies in.
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { GuestFault } from "../faults.ts";
import type { Volume } from "./confined-volume.ts";
import type { FileAnswer, FileCall, FileRequest } from "./file-worker.ts";
import { createFiles, type Files, type OpenFile } from "./files.ts";

/** The largest file that may be written into a user's folder; larger content goes as an archive. */
const maxWriteBytes = 64 * 1024 * 1024;

export interface FileWorker {
  ask<T>(uid: number, call: FileCall): Promise<T>;
  close(): void;
}

/**
 * Starts the process that accesses files as the users who own them. It takes requests at once and
 * answers them when it is up.
 */
export function startFileWorker(root: string, onGone: (reason: string) => void): FileWorker {
  const child = fork(fileURLToPath(import.meta.url), ["files", "--root", root], {
    serialization: "advanced",
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  const waiting = new Map<number, { resolve: (value: unknown) => void; reject: (error: Error) => void }>();
  let last = 0;
  let isClosed = false;
  child.on("message", (answer: FileAnswer) => {
    const caller = waiting.get(answer.id);
    waiting.delete(answer.id);
    if ("fault" in answer) {
      const { status, code, message } = answer.fault;
      caller?.reject(new GuestFault(status, code, message));
    } else caller?.resolve(answer.value);
  });
  const gone = (): void => {
    for (const { reject } of waiting.values())
      reject(new GuestFault(503, "ending", "the guest is shutting down its file access"));
    waiting.clear();
    if (!isClosed) onGone("the process that accesses files has ended");
  };
  child.on("exit", gone);
  child.on("error", gone);
  return {
    ask: (uid, call) =>
      new Promise((resolve, reject) => {
        last += 1;
        waiting.set(last, { resolve: resolve as (value: unknown) => void, reject });
        child.send({ id: last, uid, asked: call } satisfies FileRequest);
      }),
    close: () => {
      isClosed = true;
      child.disconnect();
    },
  };
}

/** Tells which user owns which folder. */
export interface FileHolders {
  /**
   * Returns the user in whose folder a path lies; null where root owns it. With `itself`, also when
   * the path is such a folder.
   */
  holderOf(path: string, itself?: boolean): number | null;
  /** Removes an entry of a folder owned by root, whatever users own its contents. */
  drop(path: string): Promise<void>;
}

/** Gives access to the files of a volume, each as the user who owns its folder. */
export function createHeldFiles(volume: Volume, holders: FileHolders, worker: FileWorker): Files {
  const own = createFiles(volume);
  return {
    read: async (path, maxBytes) => {
      const uid = holders.holderOf(path);
      if (uid === null) return own.read(path, maxBytes);
      const opened = await worker.ask<{ descriptor: number; sizeBytes: number; etag: string }>(uid, {
        call: "open",
        path,
        maxBytes,
      });
      return heldFile(worker, uid, opened);
    },
    write: async (path, body, options) => {
      const uid = holders.holderOf(path);
      if (uid === null) return own.write(path, body, options);
      const { mode, ifMatch, mustBeNew } = options;
      return worker.ask<string>(uid, { call: "write", path, bytes: await readBody(body), mode, ifMatch, mustBeNew });
    },
    remove: async (path, recursive) => {
      const uid = holders.holderOf(path);
      if (uid !== null) return worker.ask<void>(uid, { call: "remove", path, recursive });
      return recursive ? holders.drop(path) : own.remove(path, false);
    },
    stat: async (path) => {
      const uid = holders.holderOf(path);
      return uid === null ? own.stat(path) : worker.ask(uid, { call: "stat", path });
    },
    list: async (path) => {
      const uid = holders.holderOf(path, true);
      return uid === null ? own.list(path) : worker.ask(uid, { call: "list", path });
    },
  };
}

function heldFile(
  worker: FileWorker,
  uid: number,
  { descriptor, sizeBytes, etag }: { descriptor: number; sizeBytes: number; etag: string },
): OpenFile {
  return {
    sizeBytes,
    etag,
    part: async (at, size) => Buffer.from(await worker.ask<Uint8Array>(uid, { call: "part", descriptor, at, size })),
    // Nobody waits for the answer: a worker that is gone holds no file open.
    close: () => void worker.ask(uid, { call: "close", descriptor }).catch(() => undefined),
  };
}

async function readBody(body: AsyncIterable<Buffer>): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.length;
    if (size > maxWriteBytes) throw new GuestFault(413, "too-large", "the file is larger than 64 MiB: send an archive");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
