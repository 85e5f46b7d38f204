import { getSandbox, noSandboxOf } from "../../api/find-sandbox.ts";
import type { ExecStreams } from "../../api/sandbox-exec.ts";
import { defaultTenant } from "../../coordinator/build/request/project.ts";
import type { Context, Server } from "../context.ts";
import { withApp } from "../data/with-app.ts";
import { watchInterrupts } from "../interrupts.ts";
import { exit as exits } from "../output/exit-codes.ts";
import { isUsed } from "../parts.ts";
import { openServerSocket } from "../server/server-socket.ts";

/** The part of a stream that is used here; `process.stdin` is one. */
type InputStream = AsyncIterable<Buffer | string> & { readonly isTTY?: boolean };

const interrupted = 130;

/**
 * `sandbox exec NAME -- CMD…`: runs a command in the sandbox, in the joined tree. Streams its
 * output and returns its exit code; Ctrl-C ends it. A sandbox started for it is stopped again.
 */
export async function sandboxExec(
  context: Context,
  name: string,
  argv: readonly string[],
  input: InputStream = process.stdin,
): Promise<number> {
  const interrupts = watchInterrupts(process);
  const cancelled = new AbortController();
  interrupts.on((count) => (count === 1 ? cancelled.abort("Ctrl-C") : process.exit(interrupted)));
  const { out, warn } = context;
  out.onClosed(() => cancelled.abort("its reader has gone"));
  const streams: ExecStreams = {
    ...{ input: input.isTTY === true ? null : input, warn, signal: cancelled.signal },
    async stdout(data) {
      out.raw(data);
      // Wait for the reader instead of buffering a long output here.
      await out.drained();
    },
    async stderr(data) {
      out.rawError(data);
      await out.drained();
    },
  };
  try {
    const server = await context.server();
    const code = await (server === null
      ? runHere(context, name, { argv, streams })
      : runThere(server, name, { argv, streams }));
    return interrupts.count > 0 ? interrupted : (code ?? exits.failed);
  } finally {
    interrupts.dispose();
  }
}

interface Command {
  readonly argv: readonly string[];
  readonly streams: ExecStreams;
}

async function runHere(context: Context, name: string, command: Command): Promise<number | null> {
  if (!isUsed(await context.config())) throw noSandboxOf(name);
  return withApp(context, async ({ ports }) => {
    const { runCommandInSandbox } = await import("../../api/sandbox-exec.ts");
    return runCommandInSandbox(ports, await getSandbox(ports, name, { tenant: defaultTenant }), command);
  });
}

async function runThere(server: Server, name: string, { argv, streams }: Command): Promise<number | null> {
  const { input, stdout, stderr, warn, signal } = streams;
  const path = `/projects/${encodeURIComponent(name)}/sandbox/exec?stdin=${input !== null}`;
  const socket = await openServerSocket(server, path);
  signal.addEventListener("abort", () => socket.say({ cancel: String(signal.reason) }), { once: true });
  socket.say({ argv });
  const forward = async (): Promise<void> => {
    for await (const chunk of input ?? []) await socket.send(Buffer.from(chunk as Uint8Array));
    socket.say({ end: true });
  };
  forward().catch(() => undefined); // The connection is lost; reading from it reports that.
  try {
    return await socket.read({
      output: (data) => (data[0] === 2 ? stderr : stdout)(data.subarray(1)),
      said: ({ warning }) => typeof warning === "string" && warn(warning),
    });
  } finally {
    socket.close();
  }
}
