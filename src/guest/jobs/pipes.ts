// Named pipes for the standard streams of programs. Node's own are sockets, on which opening
// /dev/stdout or /dev/stdin fails. One pipe for both output streams also keeps their order.
import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { closeSync, constants, openSync, unlinkSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { Socket } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { systemCode } from "../faults.ts";

const pipesPerCall = 16;

export interface Pipe {
  /** The program's end; close it here once the program has started. */
  readonly childEnd: number;
  /** Our end: reads what the program writes, or writes what it reads. */
  readonly stream: Socket;
}

export interface Pipes {
  /** A pipe that a program writes to. */
  forOutput(): Promise<Pipe>;
  /** A pipe that a program reads from. */
  forInput(): Promise<Pipe>;
}

/** Creates pipes in `folder`, where each exists for a moment. Needs `mkfifo` on the given PATH. */
export function createPipes(folder: string, toolPath: string): Pipes {
  const ready: string[] = [];
  const make = async (): Promise<void> => {
    // Many at once, because each call of mkfifo costs a process start.
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const paths = Array.from({ length: pipesPerCall }, () => join(folder, `pipe-${randomBytes(8).toString("hex")}`));
    await promisify(execFile)("mkfifo", ["-m", "600", "--", ...paths], { env: { PATH: toolPath } });
    ready.push(...paths);
  };
  const take = async (): Promise<string> => {
    for (;;) {
      const path = ready.pop();
      if (path !== undefined) return path;
      await make();
    }
  };
  const open = async (use: (path: string) => Pipe): Promise<Pipe> => {
    try {
      return usePath(await take(), use);
    } catch (error) {
      if (systemCode(error) !== "ENOENT") throw error;
      // Another program cleaned up the system's temporary folder.
      ready.length = 0;
      return usePath(await take(), use);
    }
  };
  return { forOutput: () => open(openForOutput), forInput: () => open(openForInput) };
}

/** Closes our copy of the program's end; the stream ends once no program holds it. */
export function closeChildEnd(pipe: Pipe): void {
  closeSync(pipe.childEnd);
}

function usePath(path: string, use: (path: string) => Pipe): Pipe {
  try {
    return use(path);
  } finally {
    unlinkSync(path);
  }
}

// Opening an end of a pipe waits for the other end unless it is open already or O_NONBLOCK is set.
// Our ends set it; the program's must not, because it would also apply to the program's reads and
// writes.

function openForOutput(path: string): Pipe {
  const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  const childEnd = openSync(path, constants.O_WRONLY);
  return { childEnd, stream: new Socket({ fd: reader, readable: true, writable: false }) };
}

function openForInput(path: string): Pipe {
  const both = openSync(path, constants.O_RDWR | constants.O_NONBLOCK);
  try {
    const childEnd = openSync(path, constants.O_RDONLY);
    const writer = openSync(path, constants.O_WRONLY | constants.O_NONBLOCK);
    return { childEnd, stream: new Socket({ fd: writer, readable: false, writable: true }) };
  } finally {
    closeSync(both);
  }
}
