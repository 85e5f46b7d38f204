// A user for each job, in a container whose guest is root with SETUID, SETGID and CHOWN alone.
// N1. A launch is over when no process has its group any more, which nothing it started can take
// off. Once it is its user's only one, all processes of that user are killed at once: the kernel
// lets none be made meanwhile.
// N2. What others must not read is on no command line: those of all users can be read. A script is
// in the environment for as long as its shell takes to read it, the environment comes by the
// program's own memory.
import { type ChildProcess, spawn } from "node:child_process";
import { accessSync, constants, fchownSync, readdirSync, readFileSync } from "node:fs";
import { isAbsolute, join } from "node:path";
import { messageOf } from "../faults.ts";
import { isWithin } from "../files/volume.ts";
import { createGraceTimer } from "./grace.ts";
import {
  type Ending,
  environmentFor,
  type Isolation,
  type Launch,
  type Launched,
  neverStarted,
  noStart,
} from "./isolation.ts";
import { signalNumber } from "./processes.ts";
import type { Reaper } from "./reaper.ts";
import { houseUser, type User, type Users } from "./users.ts";

export interface UsersIsolationOptions {
  readonly root: string;
  readonly toolPath: string;
  /** Environment for every launch. */
  readonly env: Readonly<Record<string, string>>;
  readonly users: Users;
  readonly reaper: Reaper;
}

/** For so many rounds the other launches of a user are spared; then they are ended with it. */
const mostRounds = 50;

/** Isolation by users. What a launch may write is the holders' to say (holders.ts). */
export function createUsersIsolation(options: UsersIsolationOptions): Isolation {
  return {
    name: "users",
    launch: (launch) => start(options, launch),
    // A container ends with its guest, and everything in it.
    endLeftovers: async () => undefined,
    explainNoStart: (launch, ending) => noStart(launch.argv, ending.problem ?? "unknown reason"),
  };
}

function start(options: UsersIsolationOptions, launch: Launch): Launched {
  const { users, reaper } = options;
  const user = launch.user ?? { uid: houseUser, groups: [] };
  const env = environmentOf(options, launch);
  const lack = lackOf(options, launch.argv[0] ?? "", env.PATH ?? "");
  if (lack !== null) return neverStarted(lack);
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
  const clears = launch.clears === true && user.uid !== houseUser;
  const kill = async (): Promise<void> => {
    const isAlone = clears && users.launches(user.uid) === 1;
    if (isAlone || (pid !== undefined && !(await reaper.signal(user.uid, "KILL", [-pid]))))
      await reaper.killAll(user.uid);
  };
  const timer = createGraceTimer(() => void kill());
  let over = false;
  const ended = endOf(options, child, { uid: user.uid, group, clears }).finally(() => {
    over = true;
    timer.clear();
    end();
  });
  const stop = (graceMs: number): void => {
    if (over) return;
    if (graceMs > 0 && pid !== undefined) void reaper.signal(user.uid, "TERM", [-pid]);
    timer.shorten(graceMs);
  };
  return { stdin: child.stdin, stdout: child.stdout, stderr: child.stderr, ended, stop };
}

function environmentOf(
  { toolPath, env }: UsersIsolationOptions,
  { scratch, env: asked }: Launch,
): Record<string, string> {
  const base = { PATH: toolPath, HOME: join(scratch, "home"), TMPDIR: scratch, LANG: "C.UTF-8" };
  return environmentFor(base, env, asked);
}

/**
 * Why the program cannot be there, as far as root may look: what is on the volume is its user's to
 * see.
 */
function lackOf({ root }: UsersIsolationOptions, command: string, path: string): string | null {
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

/** What the system's loader and libraries read: never in a program that is still root. */
const loaderName = /^(LD_|GLIBC_|GCONV_|LOCPATH$|NLSPATH$|MALLOC_)/;
const heldName = "WAVESMITH_HELD_";
const scriptName = "WAVESMITH_SCRIPT";
/** The kernel ends what agents run before it ends the guest. */
const killedFirst = 500;

/** Becomes the user, and then the program; takes from `env` what the first step must not have. */
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
  const begin = `echo ${killedFirst} > /proc/self/oom_score_adj; umask 002; cd -- "$1" || exit 126; shift; unset PWD OLDPWD; `;
  const groups = user.groups.length === 0 ? "--clear-groups" : `--groups=${user.groups.join(",")}`;
  const become = ["/usr/bin/setpriv", `--reuid=${user.uid}`, `--regid=${group}`, groups];
  return [...become, "/bin/sh", "-c", `${begin}${restore}exec "$@"`, "sh", cwd, ...hidden(argv, env)];
}

/** The same command with a shell's script in its environment instead (N2). */
function hidden(argv: readonly string[], env: Record<string, string>): readonly string[] {
  const at = argv.indexOf("-c");
  const script = argv[at + 1];
  if (argv[0] !== "sh" || at < 1 || script === undefined || !argv.slice(1, at).every((one) => /^-[a-z]+$/.test(one)))
    return argv;
  env[scriptName] = script;
  // Taken off before the script begins, and read whole: no program that it starts can change what
  // is still to come.
  return [...argv.slice(0, at + 1), `eval "unset ${scriptName}; $${scriptName}"`, ...argv.slice(at + 2)];
}

async function endOf(
  { users, reaper }: UsersIsolationOptions,
  child: ChildProcess,
  { uid, group, clears }: { uid: number; group: number; clears: boolean },
): Promise<Ending> {
  const ending = await new Promise<Ending>((resolve) => {
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
    if (round > mostRounds && uid !== houseUser) break;
    // Stopped first: what makes others faster than they are killed comes to an end at the limit of
    // processes.
    await reaper.signal(uid, "STOP", left);
    await reaper.signal(uid, "KILL", membersOf(uid, group));
  }
  do await reaper.killAll(uid);
  while (membersOf(uid, null).length > 0);
  return ending;
}

/** The living processes of a user; with `group`, of that launch. */
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
    return null; // Gone meanwhile.
  }
}
