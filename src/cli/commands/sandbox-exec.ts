import { setTimeout as delay } from "node:timers/promises";
import { messageOf, WavesmithError } from "../../domain/errors.ts";
import type { Context } from "../context.ts";
import { withSandbox } from "../data/find-sandbox.ts";
import { watchInterrupts } from "../interrupts.ts";
import { exit as exits } from "../output/exit-codes.ts";
import type { App, GuestClient, SandboxEndpoint, SandboxRow, StageSpec } from "../parts.ts";

/** The part of a stream that is used here; `process.stdin` is one. */
type InputStream = AsyncIterable<Buffer | string> & { readonly isTTY?: boolean };

const maxMs = 24 * 3_600_000;
/**
 * The volume holds a command's output while it is read; beyond this limit its middle is dropped.
 */
const outputLimitBytes = 1024 ** 3;
const chunkBytes = 256 * 1024;
/** How long to wait for the rest of standard error. */
const restMs = 10_000;
const interrupted = 130;

/**
 * `sandbox exec NAME -- CMD…`: runs a command in the sandbox, in the joined tree. Streams its
 * output and returns its exit code; Ctrl-C ends it. A sandbox started for it is stopped again.
 */
export function sandboxExec(
  context: Context,
  name: string,
  argv: readonly string[],
  input: InputStream = process.stdin,
): Promise<number> {
  return withSandbox(context, name, async (app, sandbox) => {
    const before = await app.ports.driver(sandbox.driver).find(sandbox.projectId);
    const { startSandbox } = await import("../../api/sandbox-use.ts");
    const endpoint = await startSandbox(app.ports, sandbox);
    try {
      return await run(context, endpoint, { argv, input, key: app.ports.ids("job") });
    } finally {
      if (before === null) await stopUnused(app, sandbox, endpoint);
    }
  });
}

/** Stops the sandbox unless someone else has started using it. */
async function stopUnused(app: App, sandbox: SandboxRow, { guest }: SandboxEndpoint): Promise<void> {
  if ((await guest.health()).activeJobs > 0) return;
  const { stopSandbox } = await import("../../sandbox-lifecycle/stop-sandbox.ts");
  await stopSandbox(app.ports, sandbox, "no longer used");
}

interface Command {
  readonly argv: readonly string[];
  readonly input: InputStream;
  readonly key: string;
}

// A job's output is one stream. Standard error goes through a named pipe on the volume to a second
// job, so that both streams stay separate.
async function run(context: Context, { guest, workspaceRoot }: SandboxEndpoint, command: Command): Promise<number> {
  const { key, argv } = command;
  const errorKey = `${key}-stderr`;
  const folder = `handover/${key}`;
  const pipe = `${workspaceRoot}/${folder}/stderr`;
  await makePipe(guest, folder, pipe);
  const interrupts = watchInterrupts(process);
  const cancel = (reason: string): void => {
    guest.cancelJob(key, { reason, graceMs: 2_000 }).catch((error: unknown) => context.warn(messageOf(error)));
  };
  interrupts.on((count) => (count === 1 ? cancel("Ctrl-C") : process.exit(interrupted)));
  context.out.onClosed(() => cancel("its reader has gone"));
  try {
    await guest.startJob(errorKey, {
      stages: [stage("stderr", ["cat", pipe])],
      writable: ["repo", folder],
      labels: {},
    });
    const script = 'e=$1; shift; exec "$@" 2> "$e"';
    const main = stage("exec", ["sh", "-c", script, "sh", pipe, ...argv], { openStdin: command.input.isTTY !== true });
    await guest.startJob(key, { stages: [main], writable: ["repo", "cache", folder], labels: { exec: argv[0] ?? "" } });
    if (command.input.isTTY !== true) void forward(guest, key, command.input);
    await copyBoth(context, guest, { key, errorKey });
    return await exitCode(context, guest, key, interrupts.count > 0);
  } finally {
    interrupts.dispose();
    await tidy(guest, { keys: [key, errorKey], folder }).catch((error: unknown) => context.warn(messageOf(error)));
  }
}

const stage = (name: string, argv: readonly string[], more: { openStdin?: boolean } = {}): StageSpec => ({
  name,
  argv,
  cwd: "repo",
  env: {},
  stdin: null,
  timeoutMs: maxMs,
  outputLimitBytes,
  ...more,
});

async function makePipe(guest: GuestClient, folder: string, pipe: string): Promise<void> {
  const made = await guest.exec({
    argv: ["mkfifo", "-m", "600", pipe],
    cwd: "repo",
    env: {},
    // As for the command, so that both belong to one user where jobs have users of their own.
    writable: ["repo", folder],
    timeoutMs: 60_000,
    maxBytes: 4096,
  });
  if (made.exitCode === 0) return;
  throw new WavesmithError(
    "guest-protocol",
    `cannot create a pipe for standard error in the sandbox: ${made.stderr.trim()}`,
  );
}

/** Forwards standard input until the command ends. */
async function forward(guest: GuestClient, key: string, input: InputStream): Promise<void> {
  let seq = 0;
  try {
    for await (const chunk of input) await guest.writeStdin(key, seq++, Buffer.from(chunk as Buffer));
    await guest.writeStdin(key, seq, Buffer.alloc(0), { end: true });
  } catch {
    // The output and exit code report the command's end.
  }
}

async function copyBoth(context: Context, guest: GuestClient, keys: { key: string; errorKey: string }): Promise<void> {
  const { out } = context;
  const over = new AbortController();
  const errors = copy(guest, keys.errorKey, async (data) => {
    out.rawError(data);
    await out.drained();
  });
  errors.catch(() => undefined); // awaited below
  try {
    await copy(guest, keys.key, async (data) => {
      out.raw(data);
      // Wait for the reader instead of buffering a long output here.
      await out.drained();
    });
    // The pipe has no writer any more, so its reader ends by itself, unless the command never
    // opened it.
    const late = delay(restMs, undefined, { signal: over.signal }).then(() =>
      guest.cancelJob(keys.errorKey, { reason: "the command has ended", graceMs: 100 }),
    );
    late.catch(() => undefined); // aborted in time
    await errors;
  } finally {
    over.abort();
  }
}

async function copy(guest: GuestClient, key: string, write: (data: Buffer) => Promise<void>): Promise<void> {
  for (let offset = 0; ; ) {
    const chunk = await guest.readOutput(key, { offset, limitBytes: chunkBytes, waitMs: 5_000 });
    offset = chunk.nextOffset;
    if (chunk.data.length > 0) await write(chunk.data);
    else if (chunk.ended) return;
  }
}

async function exitCode(context: Context, guest: GuestClient, key: string, isInterrupted: boolean): Promise<number> {
  const state = await guest.findJob(key);
  const [ended] = state?.stages ?? [];
  if (ended?.truncated === true) context.warn("its output exceeded 1 GiB: the middle is left out");
  if (ended?.outOfMemory === true) context.warn("it was killed because the sandbox ran out of memory");
  if (ended?.timedOut === true) context.warn("it was killed after a day");
  if (isInterrupted) return interrupted;
  if (ended?.exitCode == null && ended?.error != null) context.warn(ended.error);
  return ended?.exitCode ?? exits.failed;
}

async function tidy(guest: GuestClient, { keys, folder }: { keys: readonly string[]; folder: string }): Promise<void> {
  for (const key of keys) {
    await guest.cancelJob(key, { reason: "nobody looks any more", graceMs: 500 });
    await guest.forgetJob(key);
  }
  await guest.remove(folder, { recursive: true });
}
