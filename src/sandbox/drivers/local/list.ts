import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import type { ProjectId } from "../../../domain/ids.ts";
import type { SandboxInfo } from "../../port.ts";
import { type LocalDriverOptions, placesOf } from "./launch.ts";
import { isRecordRunning, listRecords, type SandboxRecord } from "./record.ts";
import { folderDiskBytes } from "./volume.ts";

/** Lists the sandboxes of this installation, and the volumes of removed ones. */
export async function listLocalSandboxes(options: LocalDriverOptions): Promise<SandboxInfo[]> {
  const records = listRecords(join(options.dataDir, "sandboxes"));
  const recorded = new Set<string>(records.map(({ projectId }) => projectId));
  const left = volumesOf(options).filter((projectId) => !recorded.has(projectId));
  const infos = records
    .filter((record) => record.installationId === options.installationId)
    .map((record) => infoOf(options, record));
  return Promise.all([...infos, ...left.map((projectId) => leftOf(options, projectId))]);
}

function volumesOf({ dataDir }: LocalDriverOptions): ProjectId[] {
  const volumes = join(dataDir, "volumes");
  if (!existsSync(volumes)) return [];
  const entries = readdirSync(volumes, { withFileTypes: true });
  return entries
    .filter((entry) => entry.isDirectory() && /^[\w-]+$/.test(entry.name))
    .map(({ name }) => name as ProjectId);
}

/** Describes the volume of a removed sandbox. */
async function leftOf(options: LocalDriverOptions, projectId: ProjectId): Promise<SandboxInfo> {
  const { volume } = placesOf(options.dataDir, projectId);
  return {
    projectId,
    sandboxId: null,
    state: "removed",
    startedAt: null,
    volumePath: volume,
    diskBytes: await folderDiskBytes(volume),
    outOfMemory: false,
  };
}

async function infoOf(options: LocalDriverOptions, record: SandboxRecord): Promise<SandboxInfo> {
  const { volume } = placesOf(options.dataDir, record.projectId);
  const running = isRecordRunning(record);
  return {
    projectId: record.projectId,
    sandboxId: record.sandboxId,
    state: running ? "running" : "stopped",
    startedAt: running ? record.startedAt : null,
    volumePath: existsSync(volume) ? volume : null,
    diskBytes: existsSync(volume) ? await folderDiskBytes(volume) : null,
    outOfMemory: false,
  };
}
