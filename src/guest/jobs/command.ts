// Short commands and archives: programs that belong to one request and end with it.
import { closeSync } from "node:fs";
import type { Readable, Writable } from "node:stream";
import { GuestFault } from "../faults.ts";
import type { ProgramEnding } from "../isolation/isolation.ts";
import { admitProgram, commandOwner, type GuestParts, nextMarker, ownerOf, workingFolder } from "../parts.ts";
import type { ExecResult, ExecSpec } from "../protocol.ts";
import { closeChildEnd } from "./pipes.ts";
import { openTextAsFile } from "./stage.ts";

const stopGraceMs = 1_000;
const maxErrorBytes = 4 * 1024;

export interface GuestCommand {
  readonly argv: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly writable: readonly string[];
  /** Text, a stream to write to, or no input. */
  readonly stdin: { readonly text: string } | "stream" | null;
}

export interface RunningCommand {
  readonly stdin: Writable | null;
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** Resolves once nothing of it is left and its scratch folder is removed. */
  readonly ended: Promise<ProgramEnding>;
  readonly cwd: string;
  stop(graceMs: number): void;
}

/** Starts a command in its own isolation. The caller must read both streams to their end. */
export async function startCommand(parts: GuestParts, command: GuestCommand): Promise<RunningCommand> {
  const { user, writable } = await admitProgram(parts, command);
  const cwd = await workingFolder(parts, command.cwd);
  const scratch = await parts.scratch.create(user);
  const stdout = await parts.pipes.forOutput();
  const stderr = await parts.pipes.forOutput();
  try {
    const input = await openInput(parts, command.stdin);
    const launched = parts.isolation.launch({
      argv: command.argv,
      cwd,
      env: command.env,
      writable,
      scratch: scratch.path,
      marker: nextMarker(ownerOf(parts.volume, commandOwner)),
      stdio: [input.childEnd, stdout.childEnd, stderr.childEnd],
      user,
    });
    input.close();
    const ended = launched.ended.then(async (ending) => {
      input.stream?.destroy();
      await scratch.remove();
      return ending;
    });
    return { stdin: input.stream, stdout: stdout.stream, stderr: stderr.stream, ended, cwd, stop: launched.stop };
  } catch (error) {
    stdout.stream.destroy();
    stderr.stream.destroy();
    await scratch.remove();
    throw error;
  } finally {
    closeChildEnd(stdout);
    closeChildEnd(stderr);
  }
}

/** Runs a short command; the signal stops it when the caller disconnects. */
export async function executeCommand(parts: GuestParts, spec: ExecSpec, signal: AbortSignal): Promise<ExecResult> {
  const startedAtMs = performance.now();
  const command = await startCommand(parts, { ...spec, stdin: spec.stdin === undefined ? null : { text: spec.stdin } });
  let timedOut = false;
  const timer = setTimeout(() => {
    timedOut = true;
    command.stop(stopGraceMs);
  }, spec.timeoutMs);
  const abandon = (): void => command.stop(0);
  signal.addEventListener("abort", abandon);
  if (signal.aborted) abandon();
  const [ending, stdout, stderr] = await Promise.all([
    command.ended,
    collectText(command.stdout, spec.maxBytes, command.ended),
    collectText(command.stderr, spec.maxBytes, command.ended),
  ]);
  clearTimeout(timer);
  signal.removeEventListener("abort", abandon);
  const result = {
    signal: ending.signal,
    timedOut,
    truncated: stdout.truncated || stderr.truncated,
    stdout: stdout.text,
    durationMs: Math.round(performance.now() - startedAtMs),
  };
  if (ending.ran) return { ...result, exitCode: ending.exitCode, stderr: stderr.text };
  const { exitCode, error } = parts.isolation.explainNoStart(
    { argv: spec.argv, cwd: command.cwd },
    ending,
    stderr.text,
  );
  if (exitCode === null) throw new GuestFault(422, "not-started", error);
  return { ...result, exitCode, stderr: `${error}\n` };
}

/** Waits for a command that reads or writes an archive; fails if the command failed. */
export async function awaitCommand(parts: GuestParts, command: RunningCommand, argv: readonly string[]): Promise<void> {
  const [ending, stderr] = await Promise.all([
    command.ended,
    collectText(command.stderr, maxErrorBytes, command.ended),
  ]);
  if (ending.ran && ending.exitCode === 0) return;
  const why = ending.ran
    ? stderr.text.trim() || `exit code ${ending.exitCode}`
    : parts.isolation.explainNoStart({ argv, cwd: command.cwd }, ending, stderr.text).error;
  throw new GuestFault(422, "archive", `${argv[0]} failed: ${why}`);
}

async function collectText(
  stream: Readable,
  maxBytes: number,
  ended: Promise<unknown>,
): Promise<{ text: string; truncated: boolean }> {
  const chunks: Buffer[] = [];
  let kept = 0;
  let truncated = false;
  const cut = ended.then(() => setTimeout(() => stream.destroy(), stopGraceMs));
  await new Promise<void>((resolve) => {
    stream.on("data", (chunk: Buffer) => {
      const part = chunk.subarray(0, maxBytes - kept);
      truncated ||= part.length < chunk.length;
      kept += part.length;
      // Copied, because a view would keep the whole chunk in memory.
      if (part.length > 0) chunks.push(part.length < chunk.length ? Buffer.from(part) : part);
    });
    stream.on("error", () => undefined); // "close" follows, and the output read so far is kept.
    stream.on("close", resolve);
  });
  clearTimeout(await cut);
  return { text: Buffer.concat(chunks).toString("utf8"), truncated };
}

interface CommandInput {
  readonly childEnd: number | "ignore";
  readonly stream: Writable | null;
  /** Closes our copy of the program's end. */
  close(): void;
}

async function openInput(parts: GuestParts, stdin: GuestCommand["stdin"]): Promise<CommandInput> {
  if (stdin === null) return { childEnd: "ignore", stream: null, close: () => undefined };
  if (stdin === "stream") {
    const pipe = await parts.pipes.forInput();
    return { childEnd: pipe.childEnd, stream: pipe.stream, close: () => closeChildEnd(pipe) };
  }
  const childEnd = await openTextAsFile(parts.volume.own, stdin.text);
  return { childEnd, stream: null, close: () => closeSync(childEnd) };
}
