// Root may not signal other users' processes here, so a helper does: its effective user is the
// target, and its real user is one that owns nothing else. It can signal only that user's
// processes, and they cannot signal it. One helper is always waiting, because a user that takes
// every last process id would leave none for it.
import { type ChildProcess, spawn } from "node:child_process";
import { setTimeout as delay } from "node:timers/promises";
import { reaperUser } from "./users.ts";

type SignalName = "TERM" | "STOP" | "KILL";

export interface Reaper {
  /** Kills every process of the user at once; resolves when that is done. */
  killAll(uid: number): Promise<void>;
  /**
   * Signals processes of the user, or groups by a negative number. Returns false when no process
   * could be started for it.
   */
  signal(uid: number, name: SignalName, pids: readonly number[]): Promise<boolean>;
  /**
   * Runs a fixed shell script as the user; returns its exit code, or null when no process could be
   * started.
   */
  run(
    user: { uid: number; gid: number; groups?: readonly number[] },
    script: string,
    args: readonly string[],
  ): Promise<number | null>;
  close(): void;
}

// Perl is part of every Debian and can set the effective user alone. `kill -1` spares the caller.
const become = `$< = ${reaperUser}; $> = $uid; die "not user $uid" if $> != $uid || $< != ${reaperUser};`;
const waiting = `my $uid = <STDIN>; exit if !defined $uid; chomp $uid; ${become} kill "KILL", -1;`;
const signalling = `my ($uid, $name, @pids) = @ARGV; ${become} kill $name, @pids;`;

/** Creates the reaper and starts the first waiting helper. */
export function createReaper(toolPath: string): Reaper {
  const env = { PATH: toolPath };
  const options = { cwd: "/", env } as const;
  const startHelper = (): ChildProcess => {
    const child = spawn("perl", ["-e", waiting], { ...options, stdio: ["pipe", "ignore", "ignore"] });
    child.on("error", () => undefined); // No process could be started: another attempt follows when it is needed.
    child.stdin?.on("error", () => undefined); // The helper has ended; its "exit" event reports it.
    child.unref();
    return child;
  };
  let next = startHelper();
  let lastHelper: Promise<unknown> = Promise.resolve();
  const killOnce = async (uid: number): Promise<void> => {
    while (next.pid === undefined || next.exitCode !== null) {
      next = startHelper();
      if (next.pid === undefined) await delay(50);
    }
    const current = next;
    const ended = new Promise((resolve) => current.on("exit", resolve));
    current.stdin?.end(`${uid}\n`);
    await ended;
    next = startHelper();
  };
  const exitOf = (program: string, args: readonly string[]): Promise<number | null> =>
    new Promise((resolve) => {
      const child = spawn(program, args, { ...options, stdio: "ignore" });
      child.on("error", () => resolve(null));
      child.on("exit", (code) => resolve(code ?? 1));
    });
  return {
    run: ({ uid, gid, groups = [] }, script, args) => {
      const own = groups.length === 0 ? "--clear-groups" : `--groups=${groups.join(",")}`;
      return exitOf("setpriv", [`--reuid=${uid}`, `--regid=${gid}`, own, "sh", "-c", script, "sh", ...args]);
    },
    killAll: (uid) => {
      const current = lastHelper.then(() => killOnce(uid));
      lastHelper = current;
      return current;
    },
    signal: async (uid, name, pids) =>
      pids.length === 0 || (await exitOf("perl", ["-e", signalling, ...[uid, name, ...pids].map(String)])) !== null,
    close: () => next.kill("SIGKILL"),
  };
}
