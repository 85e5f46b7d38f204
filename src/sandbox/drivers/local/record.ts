import { readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ProjectId, SandboxId } from "../../../domain/ids.ts";
import type { NetworkPolicy } from "../../../domain/network.ts";
import { machineBootId, processStart } from "../../host/processes.ts";
import type { SandboxDriver } from "../../port.ts";

/**
 * What is known of a project's sandbox, kept in its run folder. `starting` is written before
 * anything is started (W9): whoever finds it after a crash looks for the process by its mark.
 */
export interface SandboxRecord {
  readonly state: "starting" | "running" | "stopped";
  readonly driver: SandboxDriver["name"];
  readonly installationId: string;
  readonly projectId: ProjectId;
  readonly sandboxId: SandboxId;
  readonly network: NetworkPolicy;
  readonly protocol: number;
  /** Hash of the guest's program: another version of us would speak to a guest it does not know. */
  readonly program: string;
  readonly pid: number | null;
  readonly pidStart: string | null;
  readonly machineBoot: string;
  /** Of `local-unsafe`, the folder for temporary files; removed when the sandbox stops. */
  readonly temporary: string | null;
  /** The guest's, once it answered. */
  readonly bootId: string | null;
  readonly startedAt: string | null;
}

const fileName = "record.json";

export function readRecord(runFolder: string): SandboxRecord | null {
  try {
    return JSON.parse(readFileSync(join(runFolder, fileName), "utf8")) as SandboxRecord;
  } catch (error) {
    // Cut short by a power failure: nothing of that boot runs any more, and starting writes a new
    // one.
    if (error instanceof SyntaxError || (error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
}

export function writeRecord(runFolder: string, record: SandboxRecord): void {
  const draft = join(runFolder, `${fileName}.${process.pid}`);
  writeFileSync(draft, `${JSON.stringify(record, null, 2)}\n`, { mode: 0o600 });
  renameSync(draft, join(runFolder, fileName));
}

/** The records below the folder of run folders; none when it does not exist. */
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

/** Whether the process that was recorded still is the one with that id. */
export function isRunning(record: SandboxRecord): boolean {
  return (
    record.state === "running" &&
    record.pid !== null &&
    record.pidStart !== null &&
    record.machineBoot === machineBootId() &&
    processStart(record.pid) === record.pidStart
  );
}
