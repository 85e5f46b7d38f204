// Named pipes for the standard streams of programs. Node's own are sockets, and opening /dev/stdout
// or /dev/stdin fails on those; and one pipe for both streams keeps the order in which a program
// wrote to them.
import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { closeSync, constants, openSync, unlinkSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { Socket } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { systemCode } from "../faults.ts";

const madeAtOnce = 64;

export interface Pipe {
  /** For the program; to be closed here once it has been started. */
  readonly childEnd: number;
  /** Our end: reads what a program writes, or writes what it reads. */
  readonly stream: Socket;
}

export interface Pipes {
  /** A pipe that a program writes to. */
  forOutput(): Promise<Pipe>;
  /** A pipe that a program reads from. */
  forInput(): Promise<Pipe>;
}

/**
 * Makes pipes in `folder`, which must be able to hold them for a moment. Needs `mkfifo` on the PATH
 * given.
 */
export function createPipes(folder: string, toolPath: string): Pipes {
  const ready: string[] = [];
  const make = async (): Promise<void> => {
    // Many at once, since each call of mkfifo costs as much as starting a program.
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const paths = Array.from({ length: madeAtOnce }, () => join(folder, `pipe-${randomBytes(8).toString("hex")}`));
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
      // Somebody tidied up the system's folder for temporary files.
      ready.length = 0;
      return usePath(await take(), use);
    }
  };
  return { forOutput: () => open(openForOutput), forInput: () => open(openForInput) };
}

/** Closes the program's end here; the stream sees the end once no program holds it. */
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

// Opening an end of a pipe waits for the other one, unless it is there already or waiting is
// declined. Our ends decline to wait, the program's ends must not: not waiting would also hold for
// its reads and writes.

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
