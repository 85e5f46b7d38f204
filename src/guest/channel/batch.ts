// Several small calls in one request, because most of the cost of a call is the request.
import { Readable } from "node:stream";
import { faultOf, GuestFault } from "../faults.ts";
import { type Files, readWhole } from "../files/files.ts";
import type { Jobs } from "../jobs/jobs.ts";
import type { PortSource } from "../jobs/ports.ts";
import type { BatchAnswer, BatchCall } from "../protocol.ts";

export interface BatchContext {
  readonly files: Files;
  readonly jobs: Jobs;
  readonly ports: PortSource;
}

/** Performs all calls at once; returns their answers in the order of the calls. */
export function performBatch(context: BatchContext, calls: readonly BatchCall[]): Promise<BatchAnswer[]> {
  return Promise.all(
    calls.map((call) =>
      performCall(context, call).then(
        (value): BatchAnswer => ({ value }),
        (error: unknown): BatchAnswer => {
          const { status, code, message } = faultOf(error);
          return { fault: { status, code, message } };
        },
      ),
    ),
  );
}

async function performCall({ files, jobs, ports }: BatchContext, call: BatchCall): Promise<unknown> {
  switch (call.call) {
    case "stat":
      return files.stat(call.path);
    case "read":
      return readBase64(files, call);
    case "write":
      await files.write(call.path, Readable.from([Buffer.from(call.text)]), {
        mode: null,
        ifMatch: null,
        mustBeNew: false,
      });
      return null;
    case "remove":
      await files.remove(call.path, call.recursive);
      return null;
    case "ports":
      return { ports: await ports.allocate(call.count) };
    case "forget":
      await jobs.forget(call.key);
      return null;
  }
}

async function readBase64(files: Files, call: { path: string; maxBytes: number }): Promise<string> {
  const bytes = await readWhole(await files.read(call.path, call.maxBytes));
  if (bytes === null) throw new GuestFault(409, "changed", `${call.path} was truncated while it was read`);
  return bytes.toString("base64");
}
