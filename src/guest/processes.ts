import { readdirSync, readFileSync } from "node:fs";
import { constants } from "node:os";
import { systemCode } from "./faults.ts";

/** Sends a signal to a process, or to a group when `pid` is negative; false when there is none such. */
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

/** When a process started, in the kernel's ticks: with the pid it names one process for ever. Null when it is gone or a zombie. */
export function startTicks(pid: number): string | null {
  try {
    // The second field is the command in brackets and may hold anything, spaces and brackets too.
    const fields = readFileSync(`/proc/${pid}/stat`, "latin1")
      .replace(/^.*\) /s, "")
      .split(" ");
    return fields[0] === "Z" || fields[0] === "X" ? null : (fields[19] ?? null);
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

/** The processes whose environment holds `name` with a value that matches. Read in one go, so that none slips past. */
export function processesWith(name: string, isMatch: (value: string) => boolean): number[] {
  return readdirSync("/proc")
    .filter((entry) => /^\d+$/.test(entry))
    .map(Number)
    .filter((pid) => pid !== process.pid && environmentOf(pid).some((entry) => matches(entry, name, isMatch)));
}

function matches(entry: string, name: string, isMatch: (value: string) => boolean): boolean {
  return entry.startsWith(`${name}=`) && isMatch(entry.slice(name.length + 1));
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
