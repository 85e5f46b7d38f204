import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";

const onLinux = process.platform === "linux";

/** Changes when the machine restarts, so that a process id from before proves nothing. */
export function machineBootId(): string {
  return onLinux
    ? readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()
    : run("sysctl", "-n", "kern.boottime");
}

/**
 * Returns the start of the process as an opaque string that tells a reused id apart; null when the
 * process is gone or a zombie.
 */
export function processStart(pid: number): string | null {
  if (!onLinux) return run("ps", "-o", "lstart=", "-p", String(pid)) || null;
  const stat = readOrNull(`/proc/${pid}/stat`);
  if (stat === null) return null;
  // The command's name is in brackets and may hold anything, including spaces and brackets.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return fields[0] === "Z" || fields[0] === "X" ? null : (fields[19] ?? null);
}

/**
 * Finds processes whose command line holds these arguments in a row. Zombies have no command line
 * and are not found.
 */
export function findProcesses(args: readonly string[]): number[] {
  if (!onLinux) {
    return run("ps", "-axww", "-o", "pid=,command=")
      .split("\n")
      .filter((line) => line.includes(args.join(" ")))
      .map((line) => Number.parseInt(line, 10));
  }
  const wanted = `\0${args.join("\0")}\0`;
  return allProcesses().filter((pid) => readOrNull(`/proc/${pid}/cmdline`)?.includes(wanted) === true);
}

/** Finds processes with this in their environment, as far as we may read it (Linux only). */
export function findProcessesByEnvironment(name: string, value: string): number[] {
  if (!onLinux) return [];
  const wanted = `\0${name}=${value}\0`;
  return allProcesses().filter((pid) => `\0${readOrNull(`/proc/${pid}/environ`) ?? ""}`.includes(wanted));
}

/** Sends SIGKILL; a process that is already gone is fine. */
export function killProcess(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

function allProcesses(): number[] {
  return readdirSync("/proc")
    .map(Number)
    .filter((pid) => Number.isInteger(pid) && pid !== process.pid);
}

function readOrNull(path: string): string | null {
  try {
    return readFileSync(path, "utf8");
  } catch {
    // It has ended or belongs to another user, so it is not one of our running processes.
    return null;
  }
}

function run(program: string, ...args: string[]): string {
  try {
    return execFileSync(program, args, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
  } catch {
    // `ps -p` exits 1 without output when the process is gone.
    return "";
  }
}
