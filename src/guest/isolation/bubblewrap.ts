// Runs each launch in its own bubblewrap: pid namespace, private /tmp, read-only view, cleared
// environment.
// BW1. A launch is over when the first process of its pid namespace is gone; the kernel releases it
// last.
// BW2. The guest's environment and arguments cannot be read from inside (/proc/1 shows bwrap's own,
// so both are kept empty).
// BW3. The guest's own folder and its socket are hidden; no launch can create a user namespace.
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { messageOf } from "../faults.ts";
import { isWithin } from "../files/confined-volume.ts";
import { createGraceTimer } from "./grace.ts";
import {
  environmentFor,
  explainSystemError,
  type Isolation,
  type Launch,
  type Launched,
  type NoStart,
  type ProgramEnding,
} from "./isolation.ts";
import { hasChildren, signalOfExitCode, signalProcess, startTicks } from "./processes.ts";

const preparePauseMs = 5;

export interface BubblewrapOptions {
  /** The absolute path of bwrap. */
  readonly bwrap: string;
  /** The volume's root and the guest's own folder in it. */
  readonly root: string;
  readonly own: string;
  /** Folders that no launch may see, such as the socket's. */
  readonly hidden: readonly string[];
  /**
   * Folders with tools that stay visible even where `hidden` or the private /tmp would cover them.
   */
  readonly tools: readonly string[];
  readonly toolPath: string;
  /** Environment for every launch. */
  readonly env: Readonly<Record<string, string>>;
}

interface FirstProcess {
  readonly pid: number;
  readonly ticks: string | null;
}

/**
 * Runs bubblewrap once to check that it works; fails with its error message when namespaces are
 * denied.
 */
export async function createBubblewrap(options: BubblewrapOptions): Promise<Isolation> {
  const { stdout } = await promisify(execFile)(options.bwrap, ["--help"], { env: {} });
  const fixed = fixedArguments(stdout.includes("--disable-userns"));
  const trial = ["--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--clearenv"];
  const command = [...fixed, ...trial, "--setenv", "PATH", options.toolPath, "--", "true"];
  await promisify(execFile)(options.bwrap, command, { env: {} });
  return {
    name: "bubblewrap",
    launch: (launch) => launchInBubblewrap(options, [...fixed, ...launchArguments(options, launch)], launch),
    // When the guest dies, its launches die with it (--die-with-parent).
    endLeftovers: async () => undefined,
    explainNoStart,
  };
}

function fixedArguments(canDisableUserNamespaces: boolean): string[] {
  const namespaces = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"];
  const inner = canDisableUserNamespaces ? ["--disable-userns"] : [];
  return [...namespaces, ...inner, "--die-with-parent", "--new-session", "--cap-drop", "ALL"];
}

/** Mounts come in the order given: later ones cover earlier ones. */
function launchArguments(options: BubblewrapOptions, launch: Launch): string[] {
  const { root, own } = options;
  const hidden = options.hidden.filter((folder) => !isWithin("/tmp", folder) && !isWithin(own, folder));
  const isCovered = (tool: string): boolean => ["/tmp", ...hidden].some((folder) => isWithin(folder, tool));
  const parentsFirst = [...launch.writable].sort((a, b) => a.length - b.length);
  const base = { PATH: options.toolPath, HOME: "/tmp/home", TMPDIR: "/tmp", LANG: "C.UTF-8" };
  const environment = environmentFor(base, options.env, launch.env);
  return [
    ...["--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--bind", launch.scratch, "/tmp"],
    ...hidden.flatMap((folder) => ["--tmpfs", folder]),
    ...options.tools.filter(isCovered).flatMap((folder) => ["--ro-bind-try", folder, folder]),
    ...["--ro-bind", root, root],
    ...parentsFirst.flatMap((folder) => ["--bind", folder, folder]),
    ...coverArguments(launch),
    ...["--tmpfs", own, "--remount-ro", own],
    ...hidden.flatMap((folder) => ["--remount-ro", folder]),
    ...["--chdir", launch.cwd, "--clearenv"],
    ...Object.entries(environment).flatMap(([name, value]) => ["--setenv", name, value]),
  ];
}

/** Mounts an empty folder of the launch's scratch folder over each folder that it must not see. */
function coverArguments({ hidden = [], scratch }: Launch): string[] {
  return hidden.flatMap((folder, index) => {
    const cover = join(scratch, `hidden-${index}`);
    mkdirSync(cover, { recursive: true, mode: 0o700 });
    return ["--bind", cover, folder];
  });
}

function launchInBubblewrap(options: BubblewrapOptions, bwrapArguments: string[], launch: Launch): Launched {
  let child: ChildProcess;
  try {
    const [program = "", ...before] = [...(launch.enter ?? []), options.bwrap];
    child = spawn(program, [...before, "--args", "3", "--json-status-fd", "4", "--", ...launch.argv], {
      env: {},
      stdio: [...launch.stdio, "pipe", "pipe"],
    });
  } catch (error) {
    return neverStarted(messageOf(error));
  }
  sendArguments(child, bwrapArguments);
  const status = readStatus(child);
  let isOver = false;
  const timer = createGraceTimer(() => {
    void status.first.then((first) => {
      const pid = first?.pid ?? child.pid;
      if (!isOver && pid !== undefined) signalProcess(pid, "SIGKILL");
    });
  });
  const ended = endOf(child, status).finally(() => {
    isOver = true;
    timer.clear();
  });
  let isStopping = false;
  const stop = (graceMs: number): void => {
    if (isOver) return;
    if (!isStopping) void status.first.then((first) => (first === null ? undefined : terminate(first, () => isOver)));
    isStopping = true;
    timer.shorten(graceMs);
  };
  return { stdin: child.stdin, stdout: child.stdout, stderr: child.stderr, ended, stop };
}

function sendArguments(child: ChildProcess, bwrapArguments: readonly string[]): void {
  const pipe = child.stdio[3] as NodeJS.WritableStream;
  // bwrap may end before it has read them; its exit code says why.
  pipe.on("error", () => undefined);
  pipe.end(bwrapArguments.map((argument) => `${argument}\0`).join(""));
}

interface Status {
  /** Null when bwrap ended before it created a namespace. */
  readonly first: Promise<FirstProcess | null>;
  /** The program's exit code; null when it never ran or bwrap was killed. */
  exitCode(): number | null;
}

function readStatus(child: ChildProcess): Status {
  let text = "";
  const find = (name: string): number | null => {
    const match = new RegExp(`"${name}": (\\d+)`).exec(text);
    return match === null ? null : Number(match[1]);
  };
  const pipe = child.stdio[4] as NodeJS.ReadableStream;
  const first = new Promise<FirstProcess | null>((resolve) => {
    pipe.on("data", (chunk: Buffer) => {
      text += chunk.toString("latin1");
      const pid = find("child-pid");
      if (pid !== null) resolve({ pid, ticks: startTicks(pid) });
    });
    pipe.on("end", () => resolve(null));
    pipe.on("error", () => resolve(null)); // The pipe closes with the process, whose exit code says why.
  });
  return { first, exitCode: () => find("exit-code") };
}

async function endOf(child: ChildProcess, status: Status): Promise<ProgramEnding> {
  const problem = await new Promise<string | null>((resolve) => {
    let exited = false;
    child.on("error", (error) => resolve(error.message));
    child.on("exit", () => {
      exited = true;
    });
    // The status pipe must be read to its end as well.
    child.stdio[4]?.on("close", () => (exited ? resolve(null) : child.on("exit", () => resolve(null))));
  });
  if (problem !== null) return { exitCode: null, signal: null, ran: false, problem };
  const first = await status.first;
  if (first !== null) await confirmGone(first);
  const reported = status.exitCode();
  if (reported !== null) return { exitCode: reported, signal: signalOfExitCode(reported), ran: true, problem: null };
  if (child.signalCode !== null || child.exitCode === 137) {
    return { exitCode: 137, signal: "SIGKILL", ran: true, problem: null };
  }
  return { exitCode: null, signal: null, ran: false, problem: null };
}

/**
 * Sends SIGTERM to the program's process group. Its leader, the first process, ignores the signal.
 * While bwrap is still preparing the namespace nobody can receive it, so this waits until then.
 */
async function terminate(first: FirstProcess, isOver: () => boolean): Promise<void> {
  while (!isOver()) {
    if (hasChildren(first.pid) && signalProcess(-first.pid, "SIGTERM")) return;
    await delay(preparePauseMs);
  }
}

/** BW1: bwrap itself may end before its namespace is empty. */
async function confirmGone(first: FirstProcess): Promise<void> {
  for (
    let waitMs = 1;
    first.ticks !== null && startTicks(first.pid) === first.ticks;
    waitMs = Math.min(waitMs * 2, 50)
  ) {
    signalProcess(first.pid, "SIGKILL");
    await delay(waitMs);
  }
}

function explainNoStart(launch: Pick<Launch, "argv" | "cwd">, ending: ProgramEnding, output: string): NoStart {
  if (ending.problem !== null) return { exitCode: null, error: `bubblewrap could not be started: ${ending.problem}` };
  const complaint = output.trim().replace(/^bwrap: /, "");
  if (complaint.startsWith("execvp "))
    return explainSystemError(launch.argv, complaint.slice(complaint.lastIndexOf(": ") + 2));
  if (complaint.startsWith("Can't chdir to")) return { exitCode: null, error: `there is no folder ${launch.cwd}` };
  return { exitCode: null, error: `the job's sandbox could not be set up: ${complaint.slice(0, 1_000)}` };
}

function neverStarted(problem: string): Launched {
  const ended = Promise.resolve({ exitCode: null, signal: null, ran: false, problem });
  return { stdin: null, stdout: null, stderr: null, ended, stop: () => undefined };
}
