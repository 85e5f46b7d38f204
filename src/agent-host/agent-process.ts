import { type ChildProcess, spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { withoutTraces } from "./traces.ts";

/** How the agent's process ended. */
interface Exit {
  readonly code: number | null;
  readonly signal: string | null;
}

export interface AgentProcess {
  readonly output: ReadableStream<Uint8Array>;
  readonly input: WritableStream<Uint8Array>;
  readonly exit: Promise<Exit>;
  /** Returns the end of what it printed on stderr, without stack traces. */
  lastWords(): string;
  /** Ends it and everything it started: SIGTERM first, SIGKILL after `graceMs`. */
  end(graceMs: number): Promise<void>;
}

const lastWordsBytes = 4_096;

/**
 * Starts an agent in its own process group. `noise` receives what it prints besides messages:
 * stderr, and other lines of stdout.
 */
export function startAgent(
  command: string,
  options: { cwd: string; env: Record<string, string>; noise: (text: string) => void },
): AgentProcess {
  const child = spawn("sh", ["-c", command], {
    cwd: options.cwd,
    env: options.env,
    detached: true,
    stdio: ["pipe", "pipe", "pipe"],
  });
  let words = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    words = (words + text).slice(-lastWordsBytes);
    options.noise(text);
  });
  // The agent may end while a message is being written; its exit says what happened.
  child.stdin.on("error", () => undefined);
  const exit = new Promise<Exit>((resolve) => {
    child.once("error", () => resolve({ code: 127, signal: null }));
    child.once("exit", (code, signal) => resolve({ code, signal }));
  });
  return {
    output: messagesOnly(Readable.toWeb(child.stdout) as ReadableStream<Uint8Array>, options.noise),
    input: Writable.toWeb(child.stdin) as WritableStream<Uint8Array>,
    exit,
    lastWords: () => withoutTraces(words).trim(),
    end: (graceMs) => endGroup(child, exit, graceMs),
  };
}

/** Passes on lines that can be JSON-RPC messages; agents print other lines, which are noise. */
function messagesOnly(stream: ReadableStream<Uint8Array>, noise: (text: string) => void): ReadableStream<Uint8Array> {
  const decoder = new TextDecoder();
  const encoder = new TextEncoder();
  let rest: string[] = [];
  const pass = (line: string, controller: TransformStreamDefaultController<Uint8Array>): void => {
    if (/^\s*\{/.test(line) && line.includes('"jsonrpc"')) controller.enqueue(encoder.encode(`${line}\n`));
    else if (line.trim() !== "") noise(line);
  };
  return stream.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        const [first = "", ...others] = decoder.decode(chunk, { stream: true }).split("\n");
        // A message may have many megabytes, so its pieces are joined once, at its end.
        rest.push(first);
        for (const line of others) {
          pass(rest.join(""), controller);
          rest = [line];
        }
      },
      flush: (controller) => pass(rest.join(""), controller),
    }),
  );
}

async function endGroup(child: ChildProcess, exit: Promise<Exit>, graceMs: number): Promise<void> {
  if (child.pid === undefined) return;
  signalGroup(child.pid, "SIGTERM");
  const deadline = performance.now() + graceMs;
  while (performance.now() < deadline && signalGroup(child.pid, 0)) await delay(50);
  // Adapters end before the program they started, so the whole group is killed.
  signalGroup(child.pid, "SIGKILL");
  await exit;
}

/** Sends a signal to a process group; returns false if the group is gone. */
function signalGroup(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(-pid, signal);
  } catch {
    return false; // The group is gone.
  }
}
