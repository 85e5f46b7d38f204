import { spawn } from "node:child_process";
import { cutLine } from "./paging.ts";

const keptBytes = 30_000;
const lateOutputMs = 200;

export interface CommandResult {
  readonly output: string;
  /** Null when a signal ended it. */
  readonly exitCode: number | null;
  readonly timedOut: boolean;
}

export interface RunOptions {
  readonly cwd: string;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/**
 * Runs a program; resolves when it and its process group are gone. The middle of long output is
 * left out.
 */
export function runForTool(argv: readonly string[], { cwd, timeoutMs, signal }: RunOptions): Promise<CommandResult> {
  const [program = "sh", ...args] = argv;
  const child = spawn(program, args, { cwd, detached: true, stdio: ["ignore", "pipe", "pipe"] });
  const output = createTail();
  child.stdout.on("data", output.take);
  child.stderr.on("data", output.take);
  let timedOut = false;
  const end = (): void => {
    if (child.pid === undefined) return;
    try {
      process.kill(-child.pid, "SIGKILL");
    } catch {
      // It is gone already.
    }
  };
  const timer = setTimeout(() => {
    timedOut = true;
    end();
  }, timeoutMs);
  signal.addEventListener("abort", end, { once: true });
  return new Promise((resolve) => {
    const finish = (exitCode: number | null): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      end();
      resolve({ output: output.text(), exitCode, timedOut });
    };
    child.once("error", (error) => {
      output.take(Buffer.from(error.message));
      finish(127);
    });
    child.once("exit", (code) => {
      // A background process may hold the output open; do not wait for it.
      const late = setTimeout(finish, lateOutputMs, code);
      child.once("close", () => {
        clearTimeout(late);
        finish(code);
      });
    });
  });
}

/** Keeps the beginning and the end of an output. */
export function createTail() {
  let head = Buffer.alloc(0);
  let tail = Buffer.alloc(0);
  let dropped = 0;
  return {
    take(chunk: Buffer): void {
      const room = Math.max(0, keptBytes / 2 - head.length);
      head = Buffer.concat([head, chunk.subarray(0, room)]);
      tail = Buffer.concat([tail, chunk.subarray(room)]);
      const over = Math.max(0, tail.length - keptBytes / 2);
      dropped += over;
      tail = tail.subarray(over);
    },
    text: (): string =>
      `${head.toString("utf8")}${dropped > 0 ? `\n[${dropped} bytes left out]\n` : ""}${tail.toString("utf8")}`
        .split("\n")
        .map((line) => cutLine(line))
        .join("\n"),
  };
}
