// Several small things asked for in one request: most of what a request costs is the request.
import { Readable } from "node:stream";
import { faultOf, GuestFault } from "../faults.ts";
import { type Files, readWhole } from "../files/files.ts";
import type { Jobs } from "../jobs/jobs.ts";
import type { Ports } from "../jobs/ports.ts";
import type { BatchAnswer, BatchCall } from "../protocol.ts";

export interface BatchContext {
  readonly files: Files;
  readonly jobs: Jobs;
  readonly ports: Ports;
}

/** Does all of them at once; each has its own answer, in the order of the calls. */
export function doTogether(context: BatchContext, calls: readonly BatchCall[]): Promise<BatchAnswer[]> {
  return Promise.all(
    calls.map((call) =>
      act(context, call).then(
        (value): BatchAnswer => ({ value }),
        (error: unknown): BatchAnswer => {
          const { status, code, message } = faultOf(error);
          return { fault: { status, code, message } };
        },
      ),
    ),
  );
}

async function act({ files, jobs, ports }: BatchContext, asked: BatchCall): Promise<unknown> {
  switch (asked.call) {
    case "stat":
      return files.stat(asked.path);
    case "read":
      return read(files, asked);
    case "write":
      await files.write(asked.path, Readable.from([Buffer.from(asked.text)]), {
        mode: null,
        ifMatch: null,
        mustBeNew: false,
      });
      return null;
    case "remove":
      await files.remove(asked.path, asked.recursive);
      return null;
    case "ports":
      return { ports: await ports.allocate(asked.count) };
    case "forget":
      await jobs.forget(asked.key);
      return null;
  }
}

async function read(files: Files, asked: { path: string; maxBytes: number }): Promise<string> {
  const bytes = await readWhole(await files.read(asked.path, asked.maxBytes));
  if (bytes === null) throw new GuestFault(409, "changed", `${asked.path} became shorter while it was read`);
  return bytes.toString("base64");
}
