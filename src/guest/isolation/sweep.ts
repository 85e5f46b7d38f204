// Isolation without namespaces: a session for each launch, a mark in the environment, and sweeps of
// /proc for processes that left the session (strays.ts).
// SW1. A launch is over when two sweeps of /proc in a row find none of its processes. Without /proc
// (macOS) only its process group is ended.
// SW2. Processes are stopped before they are killed. Stopped processes keep their pids, so a
// program that forks faster than it can be killed reaches the process limit and stops.
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { messageOf } from "../faults.ts";
import { createGraceTimer } from "./grace.ts";
import {
  environmentFor,
  explainSystemError,
  type Isolation,
  type Launch,
  type Launched,
  type NoStart,
  neverStarted,
  type ProgramEnding,
} from "./isolation.ts";
import { lookAtProcesses, ownLineage, processFacts, signalNumber, signalProcess } from "./processes.ts";
import { adoptedOf, type LaunchFacts, membersOf, nameOf, type ProcessFacts } from "./strays.ts";

const markName = "WAVESMITH_JOB";
const killPauseMs = 5;
const lookIntervalMs = 2_000;
const maxRounds = 100;
/** The out-of-memory score of launches, so that the kernel kills them before the guest. */
const launchOomScore = "500";

export interface SweepOptions {
  /** The volume's root. */
  readonly root: string;
  readonly toolPath: string;
  /** Environment for every launch. */
  readonly env: Readonly<Record<string, string>>;
  /** Whether the guest has its pid namespace to itself. */
  readonly contained: boolean;
}

/**
 * Creates isolation by sessions and sweeps: it ends everything a launch leaves, but protects no
 * files.
 */
export function createSweep(options: SweepOptions): Isolation {
  const running = new Set<LaunchFacts>();
  if (options.contained) setInterval(() => lookAround(running), lookIntervalMs).unref();
  return {
    name: "sweep",
    launch: (launch) => launchInSession({ options, running }, launch),
    endLeftovers: (owner) => {
      const left = { isMark: (mark: string) => mark.startsWith(`${owner}.`), first: null, known: new Set<string>() };
      return endAll(() => membersOf(left, lookAtProcesses(markName)));
    },
    explainNoStart,
  };
}

interface Sweep {
  readonly options: SweepOptions;
  /** The launches that have not ended. */
  readonly running: Set<LaunchFacts>;
}

function launchInSession(sweep: Sweep, launch: Launch): Launched {
  const { options, running } = sweep;
  let child: ChildProcess;
  try {
    child = spawn(launch.argv[0] ?? "", launch.argv.slice(1), {
      cwd: launch.cwd,
      env: {
        ...environmentFor(baseEnvironment(options, launch), options.env, launch.env),
        [markName]: launch.marker,
        // With this, the driver that stops the sandbox finds processes that a killed guest left
        // behind.
        WAVESMITH_VOLUME: options.root,
      },
      detached: true,
      stdio: [...launch.stdio],
    });
  } catch (error) {
    return neverStarted(messageOf(error));
  }
  if (options.contained && child.pid !== undefined) preferForOomKill(child.pid);
  const facts = launchFacts(launch, child);
  running.add(facts);
  const timer = createGraceTimer(() => signalGroup(child, "SIGKILL"));
  let isOver = false;
  const ended = endOf(sweep, child, facts).finally(() => {
    isOver = true;
    timer.clear();
  });
  const stop = (graceMs: number): void => {
    if (isOver) return;
    // Look while the parents live: once they are gone, nobody knows whose children these were.
    if (hasProc()) lookAround([facts]);
    signalGroup(child, "SIGTERM");
    timer.shorten(graceMs);
  };
  return { stdin: child.stdin, stdout: child.stdout, stderr: child.stderr, ended, stop };
}

function baseEnvironment({ toolPath }: SweepOptions, { scratch }: Launch): Record<string, string> {
  return { PATH: toolPath, HOME: join(scratch, "home"), TMPDIR: scratch, LANG: "C.UTF-8" };
}

function launchFacts({ marker }: Launch, { pid }: ChildProcess): LaunchFacts {
  const [first = null] = pid === undefined || !hasProc() ? [] : processFacts(pid, markName, true);
  return { isMark: (mark) => mark === marker, first, known: new Set() };
}

/** Records which processes belong to the launches now, for when nothing shows it any more. */
function lookAround(launches: Iterable<LaunchFacts>): void {
  const all = [...launches];
  if (all.length === 0) return;
  const table = lookAtProcesses(markName);
  for (const launch of all) {
    const members = membersOf(launch, table).map(nameOf);
    launch.known.clear();
    for (const name of members) launch.known.add(name);
  }
}

/** Tells the kernel to kill this process first when memory runs out. */
function preferForOomKill(pid: number): void {
  try {
    writeFileSync(`/proc/${pid}/oom_score_adj`, launchOomScore);
  } catch {
    // It has already ended or changed its user; then the kernel chooses by size.
  }
}

async function endOf({ options, running }: Sweep, child: ChildProcess, facts: LaunchFacts): Promise<ProgramEnding> {
  const ending = await new Promise<ProgramEnding>((resolve) => {
    child.on("error", (error) => resolve({ exitCode: null, signal: null, ran: false, problem: error.message }));
    child.on("exit", (code, name) => {
      const exitCode = name === null ? code : 128 + signalNumber(name);
      resolve({ exitCode, signal: name, ran: true, problem: null });
    });
  });
  signalGroup(child, "SIGKILL");
  const left = (): ProcessFacts[] => {
    const table = lookAtProcesses(markName);
    const members = membersOf(facts, table);
    if (!options.contained) return members;
    const others = [...running].filter((one) => one !== facts);
    const found = new Set(members);
    return [...members, ...adoptedOf(facts, others, { table, own: ownLineage() }).filter((one) => !found.has(one))];
  };
  // If it never ran, there is nothing to look for.
  if (child.pid !== undefined) await endAll(left).finally(() => running.delete(facts));
  running.delete(facts);
  return ending;
}

function signalGroup(child: ChildProcess, name: NodeJS.Signals): void {
  if (child.pid !== undefined) signalProcess(-child.pid, name);
}

async function endAll(look: () => ProcessFacts[]): Promise<void> {
  if (!hasProc()) return;
  for (let emptySweeps = 0; emptySweeps < 2; ) {
    const found = stopAll(look);
    for (const { pid } of found) signalProcess(pid, "SIGKILL");
    emptySweeps = found.length === 0 ? emptySweeps + 1 : 0;
    if (found.length > 0) await delay(killPauseMs);
    else await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Stops every process found, until none of them can fork any more (SW2); returns them. */
function stopAll(look: () => ProcessFacts[]): ProcessFacts[] {
  const names = new Set<string>();
  for (let round = 0; ; round += 1) {
    const found = look();
    const fresh = found.filter((one) => !names.has(nameOf(one)));
    if (fresh.length === 0 || round === maxRounds) return found;
    for (const one of fresh) {
      signalProcess(one.pid, "SIGSTOP");
      names.add(nameOf(one));
    }
  }
}

function hasProc(): boolean {
  return existsSync("/proc/self/environ");
}

function explainNoStart(launch: Pick<Launch, "argv" | "cwd">, ending: ProgramEnding): NoStart {
  // The system also reports "no such file" for a missing folder.
  if (!existsSync(launch.cwd)) return { exitCode: null, error: `there is no folder ${launch.cwd}` };
  return explainSystemError(launch.argv, ending.problem ?? "unknown reason");
}
