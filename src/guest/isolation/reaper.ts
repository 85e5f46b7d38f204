// Root here may not signal other users' processes: a program does it that is that user only in
// effect, and really another one to whom nothing else belongs. So it reaches the user's processes
// and no others, and they do not reach it. One always waits, since a user whose processes take the
// last number there is would leave none for it.
import { type ChildProcess, spawn } from "node:child_process";
import { reaperUser } from "./users.ts";

type SignalName = "TERM" | "STOP" | "KILL";

export interface Reaper {
  /** Kills every process of the user at once; settles when that was done. */
  killAll(uid: number): Promise<void>;
  /**
   * Signals processes, or groups by a negative number, of the user. False when no process is left
   * to do it.
   */
  signal(uid: number, name: SignalName, pids: readonly number[]): Promise<boolean>;
  /** Runs fixed shell text as the user; its exit code, null when no process is left for it. */
  run(
    user: { uid: number; gid: number; groups?: readonly number[] },
    script: string,
    args: readonly string[],
  ): Promise<number | null>;
  close(): void;
}

// Perl is part of every Debian, and sets the one without the other. To kill -1 leaves out who does
// it.
const become = `$< = ${reaperUser}; $> = $uid; die "not user $uid" if $> != $uid || $< != ${reaperUser};`;
const waiting = `my $uid = <STDIN>; exit if !defined $uid; chomp $uid; ${become} kill "KILL", -1;`;
const signalling = `my ($uid, $name, @pids) = @ARGV; ${become} kill $name, @pids;`;

/** Starts the first that waits. */
export function createReaper(toolPath: string): Reaper {
  const env = { PATH: toolPath };
  const options = { cwd: "/", env } as const;
  const spare = (): ChildProcess => {
    const child = spawn("perl", ["-e", waiting], { ...options, stdio: ["pipe", "ignore", "ignore"] });
    child.on("error", () => undefined); // No process is left: another is tried when it is needed.
    child.stdin?.on("error", () => undefined); // It has ended, which its end tells.
    child.unref();
    return child;
  };
  let next = spare();
  let turn: Promise<unknown> = Promise.resolve();
  const killOnce = async (uid: number): Promise<void> => {
    while (next.pid === undefined || next.exitCode !== null) {
      next = spare();
      if (next.pid === undefined) await new Promise((resolve) => setTimeout(resolve, 50));
    }
    const mine = next;
    const ended = new Promise((resolve) => mine.on("exit", resolve));
    mine.stdin?.end(`${uid}\n`);
    await ended;
    next = spare();
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
      const mine = turn.then(() => killOnce(uid));
      turn = mine;
      return mine;
    },
    signal: async (uid, name, pids) =>
      pids.length === 0 || (await exitOf("perl", ["-e", signalling, ...[uid, name, ...pids].map(String)])) !== null,
    close: () => next.kill("SIGKILL"),
  };
}
