// `node guest.mjs files --root DIR`: a process of the guest that accesses files as the users who
// own them. It handles one request at a time, because a process has one user; so no other request
// of the guest ever runs as a job's user.
import { closeSync } from "node:fs";
import { Readable } from "node:stream";
import { parseArgs } from "node:util";
import { faultOf } from "../faults.ts";
import { openVolume, type Volume } from "./confined-volume.ts";
import { createFiles, type OwnFiles, readFilePart } from "./files.ts";

/** A request of the guest. `uid` is the user who owns the files. */
export type FileCall =
  | { readonly call: "open"; readonly path: string; readonly maxBytes: number }
  | { readonly call: "part"; readonly descriptor: number; readonly at: number; readonly size: number }
  | { readonly call: "close"; readonly descriptor: number }
  | {
      readonly call: "write";
      readonly path: string;
      readonly bytes: Buffer;
      readonly mode: number | null;
      readonly ifMatch: string | null;
      readonly mustBeNew: boolean;
    }
  | { readonly call: "remove"; readonly path: string; readonly recursive: boolean }
  | { readonly call: "make" | "stat" | "list"; readonly path: string };

export interface FileRequest {
  readonly id: number;
  readonly uid: number;
  readonly asked: FileCall;
}

export type FileAnswer =
  | { readonly id: number; readonly value: unknown }
  | {
      readonly id: number;
      readonly fault: { readonly status: number; readonly code: string; readonly message: string };
    };

/** Serves the process that forked it, until that process is gone. */
export async function serveFiles(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({ args: [...args], options: { root: { type: "string" } } });
  if (values.root === undefined) throw new Error("--root is missing");
  process.setgroups?.([]);
  const opened = openVolume(values.root).then((volume) => ({ volume, files: createFiles(volume, "beside") }));
  let lastRequest: Promise<void> = Promise.resolve();
  process.on("disconnect", () => process.exit(0));
  process.on("message", (request: FileRequest) => {
    lastRequest = lastRequest.then(async () => {
      const parts = await opened;
      const answer = await runAs(request.uid, () => performCall(parts, request.asked)).then(
        (value): FileAnswer => ({ id: request.id, value }),
        (error: unknown): FileAnswer => {
          const { status, code, message } = faultOf(error);
          return { id: request.id, fault: { status, code, message } };
        },
      );
      process.send?.(answer);
    });
  });
  await opened;
}

async function runAs<T>(uid: number, action: () => Promise<T>): Promise<T> {
  process.setegid?.(uid);
  process.seteuid?.(uid);
  try {
    return await action();
  } finally {
    process.seteuid?.(0);
    process.setegid?.(0);
  }
}

async function performCall({ files, volume }: { files: OwnFiles; volume: Volume }, call: FileCall): Promise<unknown> {
  switch (call.call) {
    case "open": {
      const { descriptor, sizeBytes, etag } = await files.read(call.path, call.maxBytes);
      return { descriptor, sizeBytes, etag };
    }
    case "part":
      return readFilePart(call.descriptor, call.at, call.size);
    case "close":
      return closeSync(call.descriptor);
    case "write":
      return files.write(call.path, Readable.from([call.bytes]), call);
    case "remove":
      return files.remove(call.path, call.recursive);
    case "make":
      return volume.locateOrMake(call.path);
    case "stat":
      return files.stat(call.path);
    case "list":
      return files.list(call.path);
  }
}
