import { readdirSync, readFileSync } from "node:fs";
import { constants } from "node:os";
import { systemCode } from "../faults.ts";
import type { ProcessFacts } from "./strays.ts";

/**
 * Sends a signal to a process, or to a group when `pid` is negative; returns false when there is
 * none.
 */
export function signalProcess(pid: number, name: NodeJS.Signals): boolean {
  try {
    process.kill(pid, name);
    return true;
  } catch (error) {
    // EPERM: the rest of the group belongs to another user (or, on macOS, is a zombie).
    if (systemCode(error) === "ESRCH" || systemCode(error) === "EPERM") return false;
    throw error;
  }
}

/**
 * Returns when a process started, in the kernel's ticks; with the pid this identifies a process
 * forever. Null when it is gone or a zombie.
 */
export function startTicks(pid: number): string | null {
  const fields = statOf(pid);
  return fields === null || fields[0] === "Z" || fields[0] === "X" ? null : (fields[19] ?? null);
}

/** Returns the fields of /proc/PID/stat from the state on; null when the process is gone. */
function statOf(pid: number): string[] | null {
  try {
    // The second field is the command in brackets and may hold anything, spaces and brackets too.
    const text = readFileSync(`/proc/${pid}/stat`, "latin1");
    return text.slice(text.lastIndexOf(") ") + 2).split(" ");
  } catch (error) {
    if (systemCode(error) === "ENOENT" || systemCode(error) === "ESRCH") return null;
    throw error;
  }
}

/** Whether a process with this pid exists, whatever its user. */
export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return systemCode(error) !== "ESRCH";
  }
}

/** Whether a process has children; true when the kernel does not say. */
export function hasChildren(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, "latin1").trim() !== "";
  } catch {
    return startTicks(pid) !== null; // Kernels may be built without this file.
  }
}

/**
 * Lists every living process except our own and zombies. `markName` is the environment variable
 * that marks launches.
 */
export function lookAtProcesses(markName: string): ProcessFacts[] {
  return readdirSync("/proc")
    .filter((entry) => /^\d+$/.test(entry) && Number(entry) !== process.pid)
    .flatMap((entry) => processFacts(Number(entry), markName));
}

/** Returns the facts of one process, zombies only when asked; empty when it is gone. */
export function processFacts(pid: number, markName: string, withZombies = false): ProcessFacts[] {
  const fields = statOf(pid);
  const [state = "X", parent, , session] = fields ?? [];
  if (fields === null || state === "X" || (state === "Z" && !withZombies)) return [];
  let mark: string | null | undefined;
  return [
    {
      pid,
      parent: Number(parent),
      session: Number(session),
      ticks: Number(fields[19]),
      mark: () => {
        mark = mark === undefined ? markOf(pid, markName) : mark;
        return mark;
      },
    },
  ];
}

/** Returns the guest's own process and its ancestors, up to init. */
export function ownLineage(): Set<number> {
  const lineage = new Set<number>();
  for (let pid = process.pid; pid > 0 && !lineage.has(pid); pid = Number(statOf(pid)?.[1] ?? 0)) lineage.add(pid);
  return lineage;
}

function markOf(pid: number, name: string): string | null {
  const entry = environmentOf(pid).find((each) => each.startsWith(`${name}=`));
  return entry === undefined ? null : entry.slice(name.length + 1);
}

function environmentOf(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/environ`, "latin1").split("\0");
  } catch {
    return []; // It is gone, or another user's process: not ours in either case.
  }
}

/** Returns the number of a signal, which shells add to 128. */
export function signalNumber(name: string): number {
  return constants.signals[name as NodeJS.Signals] ?? 0;
}

/** Returns the signal that an exit code above 128 stands for; null when there is none. */
export function signalOfExitCode(exitCode: number): string | null {
  if (exitCode <= 128) return null;
  const match = Object.entries(constants.signals).find(([, number]) => number === exitCode - 128);
  return match?.[0] ?? null;
}
