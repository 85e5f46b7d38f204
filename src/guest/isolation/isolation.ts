// Starts a program and ensures that it, and everything it started, is gone at the end.
// I1. `ended` resolves only when nothing that the launch created is left, however it tried to
// escape.
// I2. `ended` never rejects: a program that cannot be started ends with `exitCode: null`.
import type { Readable, Writable } from "node:stream";
import type { User } from "./users.ts";

/** One of our file descriptors, a pipe to read or write here, or nothing. */
type Stdio = number | "pipe" | "ignore";

export interface Launch {
  readonly argv: readonly string[];
  /** Absolute, on the volume. */
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  /** Absolute real paths on the volume that the program may write. */
  readonly writable: readonly string[];
  /** Absolute real paths on the volume that an empty folder replaces for this launch. */
  readonly hidden?: readonly string[];
  /**
   * A command prefix that runs the program in the job's network; absent: it has the guest's
   * network.
   */
  readonly enter?: readonly string[];
  /** A private folder for temporary files and HOME. */
  readonly scratch: string;
  /** Identifies the owner and the launch as `<owner>.<launch>`; unique among launches. */
  readonly marker: string;
  readonly stdio: readonly [Stdio, Stdio, Stdio];
  /** The user it runs as; null where everything runs as the guest's user. */
  readonly user: User | null;
  /**
   * Whether other processes of its user are killed at its end, unless another launch of the user is
   * running.
   */
  readonly clears?: boolean;
}

export interface ProgramEnding {
  readonly exitCode: number | null;
  readonly signal: string | null;
  /**
   * False when the program never ran. Then its output is an error message of the isolation, and
   * `explainNoStart` interprets it.
   */
  readonly ran: boolean;
  /** Why nothing could be started; null when the output says it. */
  readonly problem: string | null;
}

export interface Launched {
  /** The streams for the entries of `stdio` that are `pipe`; null for the others. */
  readonly stdin: Writable | null;
  readonly stdout: Readable | null;
  readonly stderr: Readable | null;
  readonly ended: Promise<ProgramEnding>;
  /**
   * Sends SIGTERM now and SIGKILL after `graceMs`; further calls can only shorten the grace period.
   */
  stop(graceMs: number): void;
}

export type IsolationName = "bubblewrap" | "users" | "sweep";

export interface Isolation {
  readonly name: IsolationName;
  launch(launch: Launch): Launched;
  /** Ends processes of an owner that a dead guest may have left; resolves when none is left. */
  endLeftovers(owner: string): Promise<void>;
  /** Explains, for the guest's record, why a program never ran. */
  explainNoStart(launch: Pick<Launch, "argv" | "cwd">, ending: ProgramEnding, output: string): NoStart;
}

/**
 * The environment of a launch: the isolation's variables, those of every program in this sandbox,
 * and the caller's, which win. The caller's also win over the same name in another case, such as
 * `HTTP_PROXY` over `http_proxy`.
 */
export function environmentFor(
  base: Readonly<Record<string, string>>,
  shared: Readonly<Record<string, string>>,
  own: Readonly<Record<string, string>>,
): Record<string, string> {
  const taken = new Set(Object.keys(own).map((name) => name.toLowerCase()));
  const left = Object.entries(shared).filter(([name]) => !taken.has(name.toLowerCase()));
  return { ...base, ...Object.fromEntries(left), ...own };
}

/**
 * The exit code that shells use: 127 not found, 126 not executable; null with an error otherwise.
 */
export interface NoStart {
  readonly exitCode: 126 | 127 | null;
  readonly error: string;
}

/** Returns a launch that could not be started. */
export function neverStarted(problem: string): Launched {
  const ended = Promise.resolve({ exitCode: null, signal: null, ran: false, problem });
  return { stdin: null, stdout: null, stderr: null, ended, stop: () => undefined };
}

/** Translates the system's error for a program that cannot be executed. */
export function explainSystemError(argv: readonly string[], reason: string): NoStart {
  const command = argv[0] ?? "";
  if (/ENOENT|No such file or directory/.test(reason)) return { exitCode: 127, error: `${command}: command not found` };
  if (/EACCES|ENOEXEC|Permission denied|Exec format error|Is a directory/.test(reason)) {
    return { exitCode: 126, error: `${command}: cannot be executed` };
  }
  if (/EAGAIN|Resource temporarily unavailable/.test(reason)) {
    return { exitCode: null, error: `${command} could not be started: the sandbox has reached its limit of processes` };
  }
  return { exitCode: null, error: `${command} could not be started: ${reason.trim()}` };
}
