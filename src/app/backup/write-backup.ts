import { randomBytes } from "node:crypto";
import { mkdir, readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import type { Pool } from "pg";
import type { Config } from "../../config.ts";
import { openRowsSnapshot, type RowsSnapshot } from "../../store/copy/dump-rows.ts";
import { openRepositories, type Refs, type WholeRepositories } from "../../workspace/authority/whole-repository.ts";
import { openUploads } from "../../workspace/authority/whole-upload.ts";
import { type ArchiveWriter, writeArchive } from "./archive.ts";
import { type BackupManifest, keptFiles, keptFolders, manifestName } from "./manifest.ts";

// BK2. Rows and refs are those of one moment: the refs are read before and after the rows' snapshot
// is opened, until nothing moved in between. So a backup is like a machine after a power cut, and
// builds that were running continue from it in the same way.

const mostTries = 100;

export interface WrittenBackup {
  readonly sizeBytes: number;
  readonly projects: number;
}

/** Writes a backup of a data directory and its database, while builds continue. */
export async function writeBackup({ dataDir, environment }: Config, pool: Pool, path: string): Promise<WrittenBackup> {
  const repositories = openRepositories(dataDir, environment);
  const { rows, refs } = await openMoment(pool, repositories);
  const scratch = join(dataDir, `.backup-${randomBytes(6).toString("hex")}`);
  try {
    await mkdir(scratch, { mode: 0o700 });
    const manifest: BackupManifest = {
      format: 1,
      createdAt: new Date().toISOString(),
      migrations: [...rows.migrations],
      tables: rows.tables.map(({ name, columns, refersTo }) => ({
        ...{ name, columns: [...columns], refersTo: [...refersTo] },
      })),
      repositories: refs,
    };
    const sizeBytes = await writeArchive(path, async (writer) => {
      await writer.addText(manifestName, `${JSON.stringify(manifest, null, 1)}\n`);
      await addFiles(writer, dataDir);
      for (const [projectId, own] of Object.entries(refs)) {
        const pack = join(scratch, `${projectId}.pack`);
        await repositories.pack(projectId, own, pack);
        await writer.addFile(`repositories/${projectId}.pack`, pack);
        await rm(pack);
      }
      await addUploads(writer, rows.sources, { dataDir, scratch, environment });
      let part = 0;
      for await (const { table, text } of rows.chunks()) {
        part += 1;
        await writer.addText(`rows/${table.name}/${String(part).padStart(8, "0")}.jsonl`, text);
      }
    });
    return { sizeBytes, projects: Object.keys(refs).length };
  } finally {
    await rows.close();
    await rm(scratch, { recursive: true, force: true });
  }
}

async function openMoment(
  pool: Pool,
  repositories: WholeRepositories,
): Promise<{ rows: RowsSnapshot; refs: Record<string, Refs> }> {
  for (let tries = 1; ; tries += 1) {
    const before = await readAllRefs(repositories);
    const rows = await openRowsSnapshot(pool);
    const refs = await readAllRefs(repositories).catch(async (error: unknown) => {
      await rows.close();
      throw error;
    });
    // If they never stand still, later refs are right: rows name no commit that is not there yet.
    if (isDeepStrictEqual(before, refs) || tries >= mostTries) return { rows, refs };
    await rows.close();
  }
}

async function readAllRefs(repositories: WholeRepositories): Promise<Record<string, Refs>> {
  const refs: Record<string, Refs> = {};
  for (const projectId of await repositories.projects()) refs[projectId] = await repositories.readRefs(projectId);
  return refs;
}

async function addFiles(writer: ArchiveWriter, dataDir: string): Promise<void> {
  for (const name of keptFiles)
    if (await isFile(join(dataDir, name))) await writer.addFile(`files/${name}`, join(dataDir, name));
  for (const folder of keptFolders)
    for (const name of await readdir(join(dataDir, folder)).catch(() => [])) // absent: there are none
      if (!name.startsWith(".") && (await isFile(join(dataDir, folder, name))))
        await writer.addFile(`files/${folder}/${name}`, join(dataDir, folder, name));
}

async function addUploads(
  writer: ArchiveWriter,
  sources: RowsSnapshot["sources"],
  { dataDir, scratch, environment }: Pick<Config, "dataDir" | "environment"> & { scratch: string },
): Promise<void> {
  const uploads = openUploads(scratch, environment);
  for (const { projectId, id } of sources) {
    const gitDir = join(dataDir, "uploads", projectId, `${id}.git`);
    // Without it, the build fails when it starts, here as there.
    if ((await stat(gitDir).catch(() => null)) === null) continue;
    const file = join(scratch, `${id}.bundle`);
    await uploads.pack(gitDir, file);
    await writer.addFile(`uploads/${projectId}/${id}.bundle`, file);
    await rm(file);
  }
}

const isFile = async (path: string): Promise<boolean> => (await stat(path).catch(() => null))?.isFile() === true;
