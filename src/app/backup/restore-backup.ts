import { createWriteStream } from "node:fs";
import { chmod, mkdir, mkdtemp, readdir, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { PoolClient } from "pg";
import type { Config } from "../../config.ts";
import { WavesmithError } from "../../domain/errors.ts";
import { openDatabase } from "../../store/connection/connection.ts";
import { appliedMigrations } from "../../store/copy/dump-rows.ts";
import { finishLoad, hasRows, loadRows } from "../../store/copy/load-rows.ts";
import { moveWaitingSource, type WaitingSource } from "../../store/copy/waiting-sources.ts";
import { knownMigrations, migrate, withFirstMigrations } from "../../store/migrate.ts";
import { openRepositories, type WholeRepositories } from "../../workspace/authority/whole-repository.ts";
import { openUploads } from "../../workspace/authority/whole-upload.ts";
import { checkArchive, readAll, readArchive } from "./archive.ts";
import { type BackupManifest, keptFiles, keptFolders, manifestName, manifestSchema } from "./manifest.ts";

export interface RestoredBackup {
  readonly createdAt: string;
  readonly projects: number;
}

/**
 * Restores a backup into an unused data directory and an empty database. Fails with `usage` for a
 * file that is damaged or of a newer version, and with `conflict` where there is something already.
 */
export async function restoreBackup(config: Config, path: string, migrationsFolder: string): Promise<RestoredBackup> {
  await checkArchive(path);
  const manifest = await readManifest(path);
  requireKnown(manifest, knownMigrations(migrationsFolder));
  await requireUnused(config.dataDir);
  await mkdir(config.dataDir, { recursive: true, mode: 0o700 });
  const scratch = await mkdtemp(join(config.dataDir, ".restore-"));
  const made = { rows: false };
  const database = await openDatabase({
    dataDir: config.dataDir,
    ...(config.databaseUrl === null ? {} : { databaseUrl: config.databaseUrl }),
    applicationName: `wavesmith restore ${process.pid}`,
    patienceMs: config.databaseWaitMs,
  });
  try {
    await requireEmpty(database.pool, manifest);
    await withFirstMigrations(migrationsFolder, manifest.migrations.length, (folder) => migrate(database.pool, folder));
    const client = await database.pool.connect();
    try {
      await client.query("begin");
      await restoreEntries({ path, manifest, client, config, scratch });
      await finishLoad(client);
      await client.query("commit");
      made.rows = true;
    } finally {
      client.release(true);
    }
    await migrate(database.pool, migrationsFolder);
  } finally {
    await database.close();
    await rm(scratch, { recursive: true, force: true });
    // Without rows, repositories and files mean nothing; the next try finds the directory unused.
    if (!made.rows) await clear(config);
  }
  return { createdAt: manifest.createdAt, projects: Object.keys(manifest.repositories).length };
}

async function readManifest(path: string): Promise<BackupManifest> {
  let manifest: BackupManifest | null = null;
  await readArchive(path, async (name, content) => {
    if (name !== manifestName) return;
    const value: unknown = JSON.parse((await readAll(content)).toString());
    const parsed = manifestSchema.safeParse(value);
    if (!parsed.success) throw newer(path);
    manifest = parsed.data;
  });
  if (manifest === null) throw new WavesmithError("usage", `${path} is not a backup: it has no ${manifestName}`);
  return manifest;
}

const newer = (what: string): WavesmithError =>
  new WavesmithError("usage", `${what} was made by a newer version of Wavesmith`, {
    remedy: "restore it with that version, or a later one",
  });

function requireKnown({ migrations }: BackupManifest, known: readonly string[]): void {
  if (migrations.some((hash, at) => known[at] !== hash)) throw newer("the backup");
}

const unusedRemedy = "restore into a new data directory: --data DIR";
/** Entries that a person or `restore` itself may have created before. */
const harmless = new Set([".gitignore", "postgres.log"]);

async function requireUnused(dataDir: string): Promise<void> {
  const names = await readdir(dataDir).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return [];
    throw error;
  });
  if (names.every((name) => harmless.has(name))) return;
  throw new WavesmithError("conflict", `the data directory ${dataDir} is not empty`, { remedy: unusedRemedy });
}

async function requireEmpty(
  pool: Awaited<ReturnType<typeof openDatabase>>["pool"],
  { migrations }: BackupManifest,
): Promise<void> {
  const applied = await appliedMigrations(pool);
  const client = await pool.connect();
  const isUsed = await hasRows(client).finally(() => client.release());
  // A try that failed may have left tables without rows.
  if (!isUsed && applied.length <= migrations.length) return;
  throw new WavesmithError("conflict", "the database of DATABASE_URL is not empty", {
    remedy: "create another database for the restored data",
  });
}

interface Restoring {
  readonly path: string;
  readonly manifest: BackupManifest;
  readonly client: PoolClient;
  readonly config: Config;
  readonly scratch: string;
}

async function restoreEntries({ path, manifest, client, config, scratch }: Restoring): Promise<void> {
  const { dataDir, environment } = config;
  const repositories = openRepositories(dataDir, environment);
  const tables = new Map(manifest.tables.map((table) => [table.name, table]));
  const uploaded: WaitingSource[] = [];
  await readArchive(path, async (name, content) => {
    const [kind, first = "", second = null] = name.split("/");
    if (kind === "rows") {
      const table = tables.get(first);
      if (table === undefined) throw unknown(name);
      await loadRows(client, table, (await readAll(content)).toString());
    } else if (kind === "repositories") {
      await restoreRepository({ name, content, manifest, scratch, repositories });
    } else if (kind === "uploads") {
      uploaded.push(await restoreUpload(name, content, { config, scratch }));
    } else if (kind === "files") {
      await restoreFile({ name, content, dataDir, folder: second === null ? null : first, file: second ?? first });
    } else if (name !== manifestName) throw unknown(name);
  });
  // After the rows of their builds.
  for (const source of uploaded) await moveWaitingSource(client, source, uploadPath(dataDir, source));
}

const unknown = (name: string): WavesmithError => newer(`the backup, with its entry ${JSON.stringify(name)},`);

async function restoreRepository(given: {
  name: string;
  content: Readable;
  manifest: BackupManifest;
  scratch: string;
  repositories: WholeRepositories;
}): Promise<void> {
  const projectId = /^repositories\/([A-Za-z0-9][\w-]*)\.pack$/.exec(given.name)?.[1];
  const refs = projectId === undefined ? undefined : given.manifest.repositories[projectId];
  if (projectId === undefined || refs === undefined) throw unknown(given.name);
  const pack = join(given.scratch, `${projectId}.pack`);
  await pipeline(given.content, createWriteStream(pack, { mode: 0o600 }));
  await given.repositories.create(projectId, refs, pack);
  await rm(pack);
}

const uploadPath = (dataDir: string, { projectId, id }: WaitingSource): string =>
  join(dataDir, "uploads", projectId, `${id}.git`);

async function restoreUpload(
  name: string,
  content: Readable,
  { config, scratch }: Pick<Restoring, "config" | "scratch">,
): Promise<WaitingSource> {
  const [, projectId, id] = /^uploads\/([A-Za-z0-9][\w-]*)\/(src_[0-9a-f]{24})\.bundle$/.exec(name) ?? [];
  if (projectId === undefined || id === undefined) throw unknown(name);
  const bundle = join(scratch, `${id}.bundle`);
  await pipeline(content, createWriteStream(bundle, { mode: 0o600 }));
  await openUploads(scratch, config.environment).unpack(bundle, uploadPath(config.dataDir, { projectId, id }));
  await rm(bundle);
  return { projectId, id };
}

async function restoreFile(given: {
  name: string;
  content: Readable;
  dataDir: string;
  folder: string | null;
  file: string;
}): Promise<void> {
  const { folder, file } = given;
  const isKnown = folder === null ? keptFiles.includes(file) : keptFolders.includes(folder);
  if (!isKnown || !/^[\w][\w.-]*$/.test(file)) throw unknown(given.name);
  const path = folder === null ? join(given.dataDir, file) : join(given.dataDir, folder, file);
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  await pipeline(given.content, createWriteStream(path, { mode: 0o600 }));
  await chmod(path, 0o600);
}

async function clear({ dataDir, databaseUrl }: Config): Promise<void> {
  const names = [
    "repositories",
    "uploads",
    ...keptFiles,
    ...keptFolders,
    ...(databaseUrl === null ? ["postgres"] : []),
  ];
  for (const name of names) await rm(join(dataDir, name), { recursive: true, force: true });
}
