// `node guest.mjs files --root DIR`: a process of the guest's that reaches files as their users.
// One request at a time, because a process has one user; so no other request of the guest's is ever
// made as a job's user.
import { closeSync } from "node:fs";
import { Readable } from "node:stream";
import { parseArgs } from "node:util";
import { faultOf } from "../faults.ts";
import { createFiles, type OwnFiles, readPart } from "./files.ts";
import { openVolume, type Volume } from "./volume.ts";

/** What the guest asks. `uid` is whose files they are. */
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

/** Serves the process that forked it, until that is gone. */
export async function serveFiles(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({ args: [...args], options: { root: { type: "string" } } });
  if (values.root === undefined) throw new Error("--root is needed");
  const { root } = values;
  const volume = await openVolume(root);
  const files = createFiles(volume, "beside");
  process.setgroups?.([]);
  let turn: Promise<void> = Promise.resolve();
  process.on("disconnect", () => process.exit(0));
  process.on("message", (request: FileRequest) => {
    turn = turn.then(async () => {
      const answer = await as(request.uid, () => act({ files, volume }, request.asked)).then(
        (value): FileAnswer => ({ id: request.id, value }),
        (error: unknown): FileAnswer => {
          const { status, code, message } = faultOf(error);
          return { id: request.id, fault: { status, code, message } };
        },
      );
      process.send?.(answer);
    });
  });
  process.send?.({ id: 0, value: null } satisfies FileAnswer);
}

async function as<T>(uid: number, act: () => Promise<T>): Promise<T> {
  process.setegid?.(uid);
  process.seteuid?.(uid);
  try {
    return await act();
  } finally {
    process.seteuid?.(0);
    process.setegid?.(0);
  }
}

async function act({ files, volume }: { files: OwnFiles; volume: Volume }, asked: FileCall): Promise<unknown> {
  switch (asked.call) {
    case "open": {
      const { descriptor, sizeBytes, etag } = await files.read(asked.path, asked.maxBytes);
      return { descriptor, sizeBytes, etag };
    }
    case "part":
      return readPart(asked.descriptor, asked.at, asked.size);
    case "close":
      return closeSync(asked.descriptor);
    case "write":
      return files.write(asked.path, Readable.from([asked.bytes]), asked);
    case "remove":
      return files.remove(asked.path, asked.recursive);
    case "make":
      return volume.locateOrMake(asked.path);
    case "stat":
      return files.stat(asked.path);
    case "list":
      return files.list(asked.path);
  }
}
