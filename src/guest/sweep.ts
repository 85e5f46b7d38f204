// Without namespaces: a process group for each launch, and a mark in the environment by which whoever left the group is found.
// S1. A launch is over when two sweeps of /proc in a row found nothing with its mark. A process that scrubs its environment
//     gets away; that is why this isolation calls itself unsafe. Without /proc (macOS) only the group is ended.
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { messageOf } from "./faults.ts";
import { createGraceTimer } from "./grace.ts";
import { type Ending, type Isolation, type Launch, type Launched, type NoStart, noStart } from "./isolation.ts";
import { processesWith, signal, signalNumber } from "./processes.ts";

const markName = "WAVESMITH_JOB";
const sweepPauseMs = 5;

export interface SweepOptions {
  /** The volume's root. */
  readonly root: string;
  readonly toolPath: string;
}

/** Isolation by process groups and sweeps: ends what a well-behaved program leaves, and protects no file. */
export function createSweep(options: SweepOptions): Isolation {
  return {
    name: "sweep",
    launch: (launch) => start(options, launch),
    endLeftovers: (owner) => endMarked((value) => value.startsWith(`${owner}.`)),
    explainNoStart,
  };
}

function start(options: SweepOptions, launch: Launch): Launched {
  let child: ChildProcess;
  try {
    child = spawn(launch.argv[0] ?? "", launch.argv.slice(1), {
      cwd: launch.cwd,
      env: {
        PATH: options.toolPath,
        HOME: join(launch.scratch, "home"),
        TMPDIR: launch.scratch,
        LANG: "C.UTF-8",
        ...launch.env,
        [markName]: launch.marker,
        // By this whoever stops the sandbox finds what a guest that was killed has left.
        WAVESMITH_VOLUME: options.root,
      },
      detached: true,
      stdio: [...launch.stdio],
    });
  } catch (error) {
    return neverStarted(messageOf(error));
  }
  const timer = createGraceTimer(() => signalGroup(child, "SIGKILL"));
  let over = false;
  const ended = endOf(child, launch.marker).finally(() => {
    over = true;
    timer.clear();
  });
  const stop = (graceMs: number): void => {
    if (over) return;
    signalGroup(child, "SIGTERM");
    timer.shorten(graceMs);
  };
  return { stdin: child.stdin, stdout: child.stdout, stderr: child.stderr, ended, stop };
}

async function endOf(child: ChildProcess, marker: string): Promise<Ending> {
  const ending = await new Promise<Ending>((resolve) => {
    child.on("error", (error) => resolve({ exitCode: null, signal: null, ran: false, problem: error.message }));
    child.on("exit", (code, name) => {
      const exitCode = name === null ? code : 128 + signalNumber(name);
      resolve({ exitCode, signal: name, ran: true, problem: null });
    });
  });
  signalGroup(child, "SIGKILL");
  await endMarked((value) => value === marker);
  return ending;
}

function signalGroup(child: ChildProcess, name: NodeJS.Signals): void {
  if (child.pid !== undefined) signal(-child.pid, name);
}

async function endMarked(isMarked: (value: string) => boolean): Promise<void> {
  if (!existsSync("/proc/self/environ")) return;
  for (let emptySweeps = 0; emptySweeps < 2; ) {
    const found = processesWith(markName, isMarked);
    for (const pid of found) signal(pid, "SIGKILL");
    emptySweeps = found.length === 0 ? emptySweeps + 1 : 0;
    if (emptySweeps < 2) await new Promise((resolve) => setTimeout(resolve, sweepPauseMs));
  }
}

function explainNoStart(launch: Pick<Launch, "argv" | "cwd">, ending: Ending): NoStart {
  // The system says "no such file" of a missing folder, too.
  if (!existsSync(launch.cwd)) return { exitCode: null, error: `there is no folder ${launch.cwd}` };
  return noStart(launch.argv, ending.problem ?? "unknown reason");
}

function neverStarted(problem: string): Launched {
  const ended = Promise.resolve({ exitCode: null, signal: null, ran: false, problem });
  return { stdin: null, stdout: null, stderr: null, ended, stop: () => undefined };
}
