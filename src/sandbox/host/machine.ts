import { statfs } from "node:fs/promises";
import type { MachineRoom } from "../../domain/sandbox.ts";
import { machineBootId } from "./processes.ts";

/**
 * What this machine has left: memory within a limit on this process, and disk where the data
 * directory is.
 */
export async function machineRoom(dataDir: string): Promise<MachineRoom> {
  const { bavail, bsize } = await statfs(dataDir);
  return { memoryBytes: process.availableMemory(), diskBytes: bavail * bsize };
}

let boot: string | null = null;

/** Another text each time the machine starts. */
export function machineBoot(): string {
  boot ??= machineBootId();
  return boot;
}
