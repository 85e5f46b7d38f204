// One way to start a program and to be sure that it, and whatever it made, is gone.
// I1. `ended` settles only when nothing that the launch made is left, however it tried to get away.
// I2. `ended` never rejects: what cannot be started ends with `exitCode: null`.
import type { Readable, Writable } from "node:stream";
import type { User } from "./users.ts";

/** A file descriptor of ours, a pipe to read or write from here, or nothing. */
type Stdio = number | "pipe" | "ignore";

export interface Launch {
  readonly argv: readonly string[];
  /** Absolute, on the volume. */
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  /** Absolute real paths on the volume that may be written. */
  readonly writable: readonly string[];
  /**
   * Absolute real paths on the volume in whose place there is an empty folder of the scratch
   * folder's.
   */
  readonly hidden?: readonly string[];
  /**
   * A command that puts the program after it into the job's network; absent: it has the guest's.
   */
  readonly enter?: readonly string[];
  /** A private folder for temporary files and HOME. */
  readonly scratch: string;
  /** Names the owner and this launch, `<owner>.<launch>`; unlike that of any other launch. */
  readonly marker: string;
  readonly stdio: readonly [Stdio, Stdio, Stdio];
  /** Whom it runs as; null where all of it runs as the guest does. */
  readonly user: User | null;
  /**
   * What its user has left elsewhere is ended with it, unless another launch of the user goes on.
   */
  readonly clears?: boolean;
}

export interface Ending {
  readonly exitCode: number | null;
  readonly signal: string | null;
  /**
   * False: the program itself was never run. Then what is in its output is the isolation's own
   * complaint, and `explainNoStart` says what it means.
   */
  readonly ran: boolean;
  /** Why nothing at all could be started; null when that is in the output. */
  readonly problem: string | null;
}

export interface Launched {
  /** Streams for those of `stdio` that are `pipe`, and null for the others. */
  readonly stdin: Writable | null;
  readonly stdout: Readable | null;
  readonly stderr: Readable | null;
  readonly ended: Promise<Ending>;
  /** SIGTERM now, SIGKILL after `graceMs`; called again it can only shorten the grace. */
  stop(graceMs: number): void;
}

export type IsolationName = "bubblewrap" | "users" | "sweep";

export interface Isolation {
  readonly name: IsolationName;
  launch(launch: Launch): Launched;
  /** Ends what a guest that died may have left of an owner; over when nothing is left. */
  endLeftovers(owner: string): Promise<void>;
  /** What the guest's own record says about a program that never ran. */
  explainNoStart(launch: Pick<Launch, "argv" | "cwd">, ending: Ending, output: string): NoStart;
}

/**
 * The environment of a launch: what the isolation gives, what every program of this sandbox gets,
 * and what the caller asks for, which wins. A name of the caller's also wins over the same one in
 * the other case, as of a proxy.
 */
export function environmentFor(
  base: Readonly<Record<string, string>>,
  shared: Readonly<Record<string, string>>,
  asked: Readonly<Record<string, string>>,
): Record<string, string> {
  const taken = new Set(Object.keys(asked).map((name) => name.toLowerCase()));
  const left = Object.entries(shared).filter(([name]) => !taken.has(name.toLowerCase()));
  return { ...base, ...Object.fromEntries(left), ...asked };
}

/** As shells say it: 127 not found, 126 not executable; null with an error otherwise. */
export interface NoStart {
  readonly exitCode: 126 | 127 | null;
  readonly error: string;
}

/** A launch of which nothing could be started. */
export function neverStarted(problem: string): Launched {
  const ended = Promise.resolve({ exitCode: null, signal: null, ran: false, problem });
  return { stdin: null, stdout: null, stderr: null, ended, stop: () => undefined };
}

/** The one meaning of the system's words for a program that cannot be executed. */
export function noStart(argv: readonly string[], reason: string): NoStart {
  const command = argv[0] ?? "";
  if (/ENOENT|No such file or directory/.test(reason)) return { exitCode: 127, error: `${command}: command not found` };
  if (/EACCES|ENOEXEC|Permission denied|Exec format error|Is a directory/.test(reason)) {
    return { exitCode: 126, error: `${command}: cannot be executed` };
  }
  if (/EAGAIN|Resource temporarily unavailable/.test(reason)) {
    return { exitCode: null, error: `${command} could not be started: the sandbox has no process left to give` };
  }
  return { exitCode: null, error: `${command} could not be started: ${reason.trim()}` };
}
