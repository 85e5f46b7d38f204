import { readdirSync, readFileSync } from "node:fs";
import { constants } from "node:os";
import { systemCode } from "../faults.ts";
import type { ProcessFacts } from "./strays.ts";

/**
 * Sends a signal to a process, or to a group when `pid` is negative; false when there is none such.
 */
export function signal(pid: number, name: NodeJS.Signals): boolean {
  try {
    process.kill(pid, name);
    return true;
  } catch (error) {
    // EPERM: what is left of a group is another user's (or, on macOS, a zombie): nothing of ours.
    if (systemCode(error) === "ESRCH" || systemCode(error) === "EPERM") return false;
    throw error;
  }
}

/**
 * When a process started, in the kernel's ticks: with the pid it names one process for ever. Null
 * when it is gone or a zombie.
 */
export function startTicks(pid: number): string | null {
  const fields = statOf(pid);
  return fields === null || fields[0] === "Z" || fields[0] === "X" ? null : (fields[19] ?? null);
}

/** What the kernel says of a process, from its state on; null when it is gone. */
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

/** Whether there is a process of this number, ours or another user's. */
export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return systemCode(error) !== "ESRCH";
  }
}

/** Whether a process has children; true where the kernel does not say. */
export function hasChildren(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, "latin1").trim() !== "";
  } catch {
    return startTicks(pid) !== null; // Kernels may be built without this file.
  }
}

/**
 * Every living process but our own; zombies are none. `markName` is the variable of the environment
 * that marks.
 */
export function lookAtProcesses(markName: string): ProcessFacts[] {
  return readdirSync("/proc")
    .filter((entry) => /^\d+$/.test(entry) && Number(entry) !== process.pid)
    .flatMap((entry) => factsOf(Number(entry), markName));
}

/** What is known of one process, also of a zombie; nothing when it is gone. */
export function factsOf(pid: number, markName: string, withZombies = false): ProcessFacts[] {
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

/** The guest's own process and those above it, up to init. */
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
    return []; // Gone meanwhile, or another user's: not ours in either case.
  }
}

/** The number of a signal, as shells add it to 128. */
export function signalNumber(name: string): number {
  return constants.signals[name as NodeJS.Signals] ?? 0;
}

/** The signal that an exit code of 128 and more stands for; null when it stands for none. */
export function signalOfExitCode(exitCode: number): string | null {
  if (exitCode <= 128) return null;
  const found = Object.entries(constants.signals).find(([, number]) => number === exitCode - 128);
  return found?.[0] ?? null;
}
