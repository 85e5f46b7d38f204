// Isolation by a user for each job, in a container whose guest is root with only SETUID, SETGID and
// CHOWN.
// UI1. A launch is over when no process has its group any more; a process cannot drop that group.
// When it is the user's only launch, all processes of that user are killed at once, and the kernel
// lets none be forked meanwhile.
// UI2. Command lines hold nothing secret, because every user can read them. A script is in the
// environment until its shell has read it, and the environment is in the program's own memory.
// UI3. A launch is root's at first, and root may signal only root's processes. So the end of a
// launch is asked for both as root and as the user, and again until it has come.
import { type ChildProcess, spawn } from "node:child_process";
import { accessSync, constants, fchownSync, readdirSync, readFileSync } from "node:fs";
import { isAbsolute, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { messageOf } from "../faults.ts";
import { isWithin } from "../files/confined-volume.ts";
import { createGraceTimer } from "./grace.ts";
import {
  environmentFor,
  explainSystemError,
  type Isolation,
  type Launch,
  type Launched,
  neverStarted,
  type ProgramEnding,
} from "./isolation.ts";
import { signalNumber, signalProcess } from "./processes.ts";
import type { Reaper } from "./reaper.ts";
import { type User, type Users, wavesmithUser } from "./users.ts";

export interface UsersIsolationOptions {
  readonly root: string;
  readonly toolPath: string;
  /** Environment for every launch. */
  readonly env: Readonly<Record<string, string>>;
  readonly users: Users;
  readonly reaper: Reaper;
}

/** For this many rounds the user's other launches are spared; then they are ended as well. */
const maxRounds = 50;
/** The time between two requests for the end of a launch. */
const killPauseMs = 20;

/** Creates isolation by users. holders.ts decides what a launch may write. */
export function createUsersIsolation(options: UsersIsolationOptions): Isolation {
  return {
    name: "users",
    launch: (launch) => launchAsUser(options, launch),
    // When the guest ends, the container and everything in it ends.
    endLeftovers: async () => undefined,
    explainNoStart: (launch, ending) => explainSystemError(launch.argv, ending.problem ?? "unknown reason"),
  };
}

function launchAsUser(options: UsersIsolationOptions, launch: Launch): Launched {
  const { users, reaper } = options;
  const user = launch.user ?? { uid: wavesmithUser, groups: [] };
  const env = environmentOf(options, launch);
  const problem = findMissingProgram(options, launch.argv[0] ?? "", env.PATH ?? "");
  if (problem !== null) return neverStarted(problem);
  const { group, end } = users.begin(user.uid);
  let child: ChildProcess;
  try {
    for (const fd of launch.stdio) if (typeof fd === "number") fchownSync(fd, user.uid, group);
    const [program, ...args] = commandOf(launch, env, { user, group });
    child = spawn(program!, args, { cwd: "/", env, detached: true, stdio: [...launch.stdio] });
  } catch (error) {
    end();
    return neverStarted(messageOf(error));
  }
  const { pid } = child;
  const clears = launch.clears === true && user.uid !== wavesmithUser;
  let isOver = false;
  /** Signals the launch as root: it is still root's until it has become its user (UI3). */
  const signalAsRoot = (name: "SIGTERM" | "SIGKILL"): void => {
    if (pid !== undefined && child.exitCode === null && child.signalCode === null) signalProcess(-pid, name);
  };
  const kill = async (): Promise<void> => {
    while (!isOver) {
      signalAsRoot("SIGKILL");
      const isAlone = clears && users.launches(user.uid) === 1;
      if (isAlone || (pid !== undefined && !(await reaper.signal(user.uid, "KILL", [-pid]))))
        await reaper.killAll(user.uid);
      await delay(killPauseMs);
    }
  };
  const timer = createGraceTimer(() => void kill());
  const ended = endOf(options, child, { uid: user.uid, group, clears }).finally(() => {
    isOver = true;
    timer.clear();
    end();
  });
  const stop = (graceMs: number): void => {
    if (isOver) return;
    if (graceMs > 0) signalAsRoot("SIGTERM");
    if (graceMs > 0 && pid !== undefined) void reaper.signal(user.uid, "TERM", [-pid]);
    timer.shorten(graceMs);
  };
  return { stdin: child.stdin, stdout: child.stdout, stderr: child.stderr, ended, stop };
}

function environmentOf(
  { toolPath, env }: UsersIsolationOptions,
  { scratch, env: own }: Launch,
): Record<string, string> {
  const base = { PATH: toolPath, HOME: join(scratch, "home"), TMPDIR: scratch, LANG: "C.UTF-8" };
  return environmentFor(base, env, own);
}

/**
 * Says why the program cannot be run, as far as root can see: only its user can look into the
 * volume.
 */
function findMissingProgram({ root }: UsersIsolationOptions, command: string, path: string): string | null {
  const folders = path.split(":");
  if (command.includes("/")) {
    if (!isAbsolute(command) || isWithin(root, command)) return null;
    return canRun(command);
  }
  if (folders.some((folder) => !isAbsolute(folder) || isWithin(root, folder))) return null;
  return folders.some((folder) => canRun(join(folder, command)) === null) ? null : "ENOENT";
}

function canRun(path: string): string | null {
  try {
    accessSync(path, constants.X_OK);
    return null;
  } catch (error) {
    return messageOf(error);
  }
}

/**
 * Variables that the system's loader and libraries read, which must never reach a program that is
 * still root.
 */
const loaderName = /^(LD_|GLIBC_|GCONV_|LOCPATH$|NLSPATH$|MALLOC_)/;
const heldName = "WAVESMITH_HELD_";
const scriptName = "WAVESMITH_SCRIPT";
/** The out-of-memory score of launches, so that the kernel kills them before the guest. */
const launchOomScore = 500;

/**
 * Builds the command that becomes the user and then the program; moves out of `env` what the first
 * step must not have.
 */
function commandOf(
  { argv, cwd }: Launch,
  env: Record<string, string>,
  { user, group }: { user: User; group: number },
): string[] {
  const held = Object.keys(env).filter((name) => loaderName.test(name) && /^\w+$/.test(name));
  for (const name of held) {
    env[`${heldName}${name}`] = env[name]!;
    delete env[name];
  }
  const restore = held.map((name) => `export ${name}="$${heldName}${name}"; unset ${heldName}${name}; `).join("");
  const begin = `echo ${launchOomScore} > /proc/self/oom_score_adj; umask 002; cd -- "$1" || exit 126; shift; unset PWD OLDPWD; `;
  const groups = user.groups.length === 0 ? "--clear-groups" : `--groups=${user.groups.join(",")}`;
  const become = ["/usr/bin/setpriv", `--reuid=${user.uid}`, `--regid=${group}`, groups];
  return [...become, "/bin/sh", "-c", `${begin}${restore}exec "$@"`, "sh", cwd, ...hideScript(argv, env)];
}

/** Returns the same command with a shell script moved into its environment (UI2). */
function hideScript(argv: readonly string[], env: Record<string, string>): readonly string[] {
  const at = argv.indexOf("-c");
  const script = argv[at + 1];
  if (argv[0] !== "sh" || at < 1 || script === undefined || !argv.slice(1, at).every((one) => /^-[a-z]+$/.test(one)))
    return argv;
  env[scriptName] = script;
  // The variable is unset before the script starts, and the script is read whole, so no program
  // that it starts can change the rest.
  return [...argv.slice(0, at + 1), `eval "unset ${scriptName}; $${scriptName}"`, ...argv.slice(at + 2)];
}

async function endOf(
  { users, reaper }: UsersIsolationOptions,
  child: ChildProcess,
  { uid, group, clears }: { uid: number; group: number; clears: boolean },
): Promise<ProgramEnding> {
  const ending = await new Promise<ProgramEnding>((resolve) => {
    child.on("error", (error) => resolve({ exitCode: null, signal: null, ran: false, problem: error.message }));
    child.on("exit", (code, name) => {
      const exitCode = name === null ? code : 128 + signalNumber(name);
      resolve({ exitCode, signal: name, ran: true, problem: null });
    });
  });
  if (child.pid === undefined) return ending;
  const isAlone = (): boolean => users.launches(uid) === 1;
  for (let round = 0; !(clears && isAlone()); round += 1) {
    const left = membersOf(uid, group);
    if (left.length === 0 && membersOf(uid, group).length === 0) return ending;
    if (round > maxRounds && uid !== wavesmithUser) break;
    // Stopped first, so that a program that forks faster than it is killed ends at the process
    // limit.
    await reaper.signal(uid, "STOP", left);
    await reaper.signal(uid, "KILL", membersOf(uid, group));
  }
  do await reaper.killAll(uid);
  while (membersOf(uid, null).length > 0);
  return ending;
}

/** Lists the living processes of a user, or with `group` of one launch. */
function membersOf(uid: number, group: number | null): number[] {
  return readdirSync("/proc").flatMap((entry) => {
    if (!/^\d+$/.test(entry)) return [];
    const status = statusOf(entry);
    if (status === null || /^State:\s+[ZX]/m.test(status)) return [];
    const isMember =
      new RegExp(`^Uid:\\s+${uid}\\s`, "m").test(status) &&
      (group === null || new RegExp(`^Gid:\\s+${group}\\s`, "m").test(status));
    return isMember ? [Number(entry)] : [];
  });
}

function statusOf(pid: string): string | null {
  try {
    return readFileSync(`/proc/${pid}/status`, "latin1");
  } catch {
    return null; // The process is gone.
  }
}
