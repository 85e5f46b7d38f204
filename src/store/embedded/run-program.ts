import { type ChildProcess, spawn } from "node:child_process";
import type { ServerUser } from "./server-identity.ts";

/** Postgres gets nothing of our environment: no preloads, no PG… variables, no secrets. */
export const cleanEnvironment = {
  PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/run/current-system/sw/bin",
  LC_ALL: "C",
  TZ: "UTC",
};

/** Returns spawn's options for `user`, who need not be able to reach the working directory. */
export function identityOf(user: ServerUser): { uid?: number; gid?: number } {
  return user.switched ? { uid: user.uid, gid: user.gid } : {};
}

export interface ProgramRun {
  readonly argv: readonly [string, ...string[]];
  readonly user?: ServerUser;
  readonly cwd?: string;
  /** An open file that the program gets as descriptor 3. */
  readonly descriptor?: number;
}

export interface ProgramEnd {
  /** Null when it was killed or could not be spawned. */
  readonly code: number | null;
  /** Its output, or why it could not be spawned. */
  readonly output: string;
  readonly spawnError: NodeJS.ErrnoException | null;
}

/** Runs a small program to its end; never rejects. */
export function runProgram(run: ProgramRun): Promise<ProgramEnd> {
  return new Promise<ProgramEnd>((settle, fail) => {
    const child = begin(run);
    let output = "";
    const keep = (chunk: Buffer) => {
      output = (output + chunk.toString()).slice(-8_000);
    };
    child.stdout?.on("data", keep);
    child.stderr?.on("data", keep);
    child.once("error", fail);
    child.once("close", (code) => settle({ code, output, spawnError: null }));
  }).catch((error: NodeJS.ErrnoException) => ({ code: null, output: error.message, spawnError: error }));
}

function begin({ argv, user, cwd, descriptor }: ProgramRun): ChildProcess {
  return spawn(argv[0], argv.slice(1), {
    stdio: ["ignore", "pipe", "pipe", ...(descriptor === undefined ? [] : [descriptor])],
    env: cleanEnvironment,
    ...(user === undefined ? {} : identityOf(user)),
    ...(cwd === undefined ? {} : { cwd }),
  });
}
