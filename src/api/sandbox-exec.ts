import { setTimeout as delay } from "node:timers/promises";
import type { Ports } from "../coordinator/port.ts";
import { messageOf, WavesmithError } from "../domain/errors.ts";
import type { GuestClient, SandboxEndpoint, StageSpec } from "../sandbox/port.ts";
import { stopSandbox } from "../sandbox-lifecycle/stop-sandbox.ts";
import type { SandboxRow } from "../store/port.ts";
import { startSandbox } from "./sandbox-use.ts";

// A person's command in a sandbox, in the joined tree: of `wavesmith sandbox exec` and of the
// server's WebSocket for it.

const maxMs = 24 * 3_600_000;
/**
 * The volume holds a command's output while it is read; beyond this limit its middle is dropped.
 */
const outputLimitBytes = 1024 ** 3;
const chunkBytes = 256 * 1024;
/** How long to wait for the rest of standard error. */
const restMs = 10_000;

/** The streams of a command. */
export interface ExecStreams {
  /** Its standard input; null: it has none. */
  readonly input: AsyncIterable<Uint8Array | string> | null;
  /** Resolve when the reader wants more. */
  stdout(data: Buffer): Promise<void>;
  stderr(data: Buffer): Promise<void>;
  warn(message: string): void;
  /** Ends the command; its reason is a text. */
  readonly signal: AbortSignal;
}

/**
 * Runs a command in a sandbox to its end and returns its exit code; null if it has none. A sandbox
 * started for it is stopped again.
 */
export async function runCommandInSandbox(
  ports: Ports,
  sandbox: SandboxRow,
  { argv, streams }: { readonly argv: readonly string[]; readonly streams: ExecStreams },
): Promise<number | null> {
  const before = await ports.driver(sandbox.driver).find(sandbox.projectId);
  const endpoint = await startSandbox(ports, sandbox);
  try {
    return await run(endpoint, { argv, streams, key: ports.ids("job") });
  } finally {
    if (before === null) await stopUnused(ports, sandbox, endpoint);
  }
}

/** Stops the sandbox unless someone else has started using it. */
async function stopUnused(ports: Ports, sandbox: SandboxRow, { guest }: SandboxEndpoint): Promise<void> {
  if ((await guest.health()).activeJobs === 0) await stopSandbox(ports, sandbox, "no longer used");
}

interface Command {
  readonly argv: readonly string[];
  readonly streams: ExecStreams;
  readonly key: string;
}

// A job's output is one stream. Standard error goes through a named pipe on the volume to a second
// job, so that both streams stay separate.
async function run({ guest, workspaceRoot }: SandboxEndpoint, command: Command): Promise<number | null> {
  const { key, argv, streams } = command;
  const { input, signal } = streams;
  const errorKey = `${key}-stderr`;
  const folder = `handover/${key}`;
  const pipe = `${workspaceRoot}/${folder}/stderr`;
  await makePipe(guest, folder, pipe);
  const cancel = (): void => {
    guest.cancelJob(key, { reason: String(signal.reason), graceMs: 2_000 }).catch(reportTo(streams));
  };
  signal.addEventListener("abort", cancel, { once: true });
  try {
    await guest.startJob(errorKey, {
      stages: [stage("stderr", ["cat", pipe])],
      writable: ["repo", folder],
      labels: {},
    });
    const script = 'e=$1; shift; exec "$@" 2> "$e"';
    const main = stage("exec", ["sh", "-c", script, "sh", pipe, ...argv], { openStdin: input !== null });
    await guest.startJob(key, { stages: [main], writable: ["repo", "cache", folder], labels: { exec: argv[0] ?? "" } });
    if (signal.aborted) cancel();
    if (input !== null) void forward(guest, key, input);
    await copyBoth(guest, streams, { key, errorKey });
    return await exitCode(guest, key, streams);
  } finally {
    signal.removeEventListener("abort", cancel);
    await tidy(guest, { keys: [key, errorKey], folder }).catch(reportTo(streams));
  }
}

const reportTo =
  ({ warn }: ExecStreams) =>
  (error: unknown): void =>
    warn(messageOf(error));

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
async function forward(guest: GuestClient, key: string, input: AsyncIterable<Uint8Array | string>): Promise<void> {
  let seq = 0;
  try {
    for await (const chunk of input) await guest.writeStdin(key, seq++, Buffer.from(chunk as Uint8Array));
    await guest.writeStdin(key, seq, Buffer.alloc(0), { end: true });
  } catch {
    // The output and exit code report the command's end.
  }
}

async function copyBoth(
  guest: GuestClient,
  { stdout, stderr }: ExecStreams,
  keys: { key: string; errorKey: string },
): Promise<void> {
  const over = new AbortController();
  const errors = copy(guest, keys.errorKey, stderr);
  errors.catch(() => undefined); // awaited below
  try {
    await copy(guest, keys.key, stdout);
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

async function exitCode(guest: GuestClient, key: string, { warn, signal }: ExecStreams): Promise<number | null> {
  const state = await guest.findJob(key);
  const [ended] = state?.stages ?? [];
  if (ended?.truncated === true) warn("its output exceeded 1 GiB: the middle is left out");
  if (ended?.outOfMemory === true) warn("it was killed because the sandbox ran out of memory");
  if (ended?.timedOut === true) warn("it was killed after a day");
  if (!signal.aborted && ended?.exitCode == null && ended?.error != null) warn(ended.error);
  return ended?.exitCode ?? null;
}

async function tidy(guest: GuestClient, { keys, folder }: { keys: readonly string[]; folder: string }): Promise<void> {
  for (const key of keys) {
    await guest.cancelJob(key, { reason: "nobody looks any more", graceMs: 500 });
    await guest.forgetJob(key);
  }
  await guest.remove(folder, { recursive: true });
}
