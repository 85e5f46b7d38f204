import { existsSync, readFileSync } from "node:fs";
import { statfs } from "node:fs/promises";
import type { MachineRoom } from "../../domain/sandbox/sandbox.ts";
import { machineBootId } from "./processes.ts";

/**
 * Returns the free memory within the limit on this process, and the free disk at the data
 * directory.
 */
export async function machineRoom(dataDir: string): Promise<MachineRoom> {
  const { bavail, bsize } = await statfs(dataDir);
  return { memoryBytes: process.availableMemory(), diskBytes: bavail * bsize };
}

let boot: string | null = null;

/** Changes each time the machine starts. */
export function machineBoot(): string {
  boot ??= machineBootId();
  return boot;
}

/** The facts about this machine that decide whether sandboxes work; tests pass their own. */
export interface HostFacts {
  readonly platform: NodeJS.Platform;
  readonly isRoot: boolean;
  /** Reads the first word of a file, such as a kernel setting; null when the file is missing. */
  readonly setting: (path: string) => string | null;
  readonly osRelease: string;
  readonly inContainer: boolean;
}

export function readHostFacts(): HostFacts {
  const text = (path: string) => (existsSync(path) ? readFileSync(path, "utf8") : null);
  return {
    platform: process.platform,
    isRoot: process.geteuid?.() === 0,
    setting: (path) => text(path)?.trim() ?? null,
    osRelease: text("/etc/os-release") ?? "",
    inContainer: /^Seccomp:\s*2/m.test(text("/proc/self/status") ?? "") || existsSync("/run/.containerenv"),
  };
}
