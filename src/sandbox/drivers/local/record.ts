import { readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ProjectId, SandboxId } from "../../../domain/ids.ts";
import type { NetworkPolicy } from "../../../domain/sandbox/network.ts";
import { machineBootId, processStart } from "../../host/processes.ts";
import type { SandboxDriver } from "../../port.ts";

/**
 * The record of a project's sandbox, in its run folder. `starting` is written before a process
 * starts (W9), so that after a crash the process can be found by its mark.
 */
export interface SandboxRecord {
  readonly state: "starting" | "running" | "stopped";
  readonly driver: SandboxDriver["name"];
  readonly installationId: string;
  readonly projectId: ProjectId;
  readonly sandboxId: SandboxId;
  readonly network: NetworkPolicy;
  readonly protocol: number;
  /**
   * The hash of the guest's program, because another version of us may not understand that guest.
   */
  readonly program: string;
  readonly pid: number | null;
  readonly pidStart: string | null;
  readonly machineBoot: string;
  /** The folder for temporary files of `local-unsafe`; removed when the sandbox stops. */
  readonly temporary: string | null;
  /** The guest's boot id, once it answered. */
  readonly bootId: string | null;
  readonly startedAt: string | null;
}

const fileName = "record.json";

export function readRecord(runFolder: string): SandboxRecord | null {
  try {
    return JSON.parse(readFileSync(join(runFolder, fileName), "utf8")) as SandboxRecord;
  } catch (error) {
    // Truncated by a power failure: nothing of that boot runs any more, and the next start writes a
    // new one.
    if (error instanceof SyntaxError || (error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
}

export function writeRecord(runFolder: string, record: SandboxRecord): void {
  const draft = join(runFolder, `${fileName}.${process.pid}`);
  writeFileSync(draft, `${JSON.stringify(record, null, 2)}\n`, { mode: 0o600 });
  renameSync(draft, join(runFolder, fileName));
}

/** Reads the records in all run folders; none when their folder does not exist. */
export function listRecords(sandboxesFolder: string): SandboxRecord[] {
  try {
    return readdirSync(sandboxesFolder)
      .map((name) => readRecord(join(sandboxesFolder, name)))
      .filter((record) => record !== null);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}

/** Whether the recorded process still runs under its id. */
export function isRecordRunning(record: SandboxRecord): boolean {
  return (
    record.state === "running" &&
    record.pid !== null &&
    record.pidStart !== null &&
    record.machineBoot === machineBootId() &&
    processStart(record.pid) === record.pidStart
  );
}
