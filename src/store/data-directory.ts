import { link, mkdir, open, readFile, realpath, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Pool, PoolClient } from "pg";
import { WavesmithError } from "../domain/errors.ts";
import type { ProjectId } from "../domain/ids.ts";
import { randomIds } from "../domain/ids.ts";

// D1. The commits of a database's builds are in one data directory. Its id is in a file there and
// in the database, so that no command works on the one with the other's repositories. The file
// moves with the directory.
// D2. A directory without that mark is taken for the database's own when it holds a commit that the
// database knows, and for a new database's when that knows of none.

const markName = "data-directory-id";

export interface DataDirectoryCheck {
  readonly pool: Pool;
  readonly dataDir: string;
  /** The database lies in the directory itself. */
  readonly isEmbedded: boolean;
  /** Whether to mark directory and database; a command that only reads leaves them as they are. */
  readonly claims: boolean;
  /** Whether the directory's repository of a project has this commit. */
  readonly holds: (projectId: ProjectId, sha: string) => Promise<boolean>;
}

/**
 * Sees to it that the directory is the one of the database, and marks both at their first use.
 * Fails with `environment`, naming the directory to use. Safe to call from many processes at once.
 */
export async function checkDataDirectory(check: DataDirectoryCheck): Promise<void> {
  if (check.claims) await mkdir(check.dataDir, { recursive: true });
  const dataDir = await realpath(check.dataDir);
  const record = await recordOf(check.pool);
  if (record.id === null && !check.claims) return; // nothing has been built with this database
  if (await agrees(check, dataDir, record)) return;
  const client = await check.pool.connect();
  try {
    await client.query("begin");
    // Nobody else marks this database meanwhile; readers go on.
    await client.query("lock table installations in share row exclusive mode");
    await settle(check, dataDir, client);
    await client.query("commit");
  } finally {
    client.release(true);
  }
}

interface DirectoryRecord {
  readonly id: string | null;
  readonly path: string | null;
}

async function recordOf(on: Pool | PoolClient): Promise<DirectoryRecord> {
  const { rows } = await on.query<DirectoryRecord>(
    "select data_dir_id as id, data_dir_path as path from installations order by created_at, id limit 1",
  );
  return rows[0] ?? { id: null, path: null };
}

async function agrees(check: DataDirectoryCheck, dataDir: string, { id, path }: DirectoryRecord): Promise<boolean> {
  if (id === null || (await readMark(dataDir)) !== id) return false;
  if (path === dataDir) return true;
  // A copy of a directory with its database is another installation; a copy of the directory alone
  // splits the work.
  if (!check.isEmbedded && path !== null && (await isCopy(dataDir, path, id))) throw copied(dataDir, path);
  return !check.claims;
}

async function settle(check: DataDirectoryCheck, dataDir: string, client: PoolClient): Promise<void> {
  const { isEmbedded, claims } = check;
  const record = await recordOf(client);
  const mark = await readMark(dataDir);
  const isMarked = mark !== null && mark === record.id;
  const isOwn = isEmbedded || isMarked || (await mayAdopt(check, client, { record, mark }));
  if (!isOwn) throw record.id === null ? withoutWork(dataDir) : another(dataDir, { id: record.id, path: record.path });
  if (!claims) return;
  const id = mark ?? record.id ?? randomIds("data-directory");
  if (mark === null) await writeMark(dataDir, id);
  await client.query("insert into installations (id) select $1 where not exists (select from installations)", [
    randomIds("installation"),
  ]);
  await client.query(
    `update installations set data_dir_id = $1, data_dir_path = $2
     where id = (select id from installations order by created_at, id limit 1)`,
    [id, dataDir],
  );
}

async function mayAdopt(
  { holds }: DataDirectoryCheck,
  client: PoolClient,
  { record, mark }: { record: DirectoryRecord; mark: string | null },
): Promise<boolean> {
  if (record.id !== null && mark !== null) return false;
  // The one that the database knows is there.
  if (record.path !== null && (await readMark(record.path).catch(() => null)) === record.id) return false;
  const { rows } = await client.query<{ project_id: ProjectId; head_sha: string }>(
    `select distinct on (project_id) project_id, head_sha from builds where head_sha is not null
     order by project_id, position desc`,
  );
  if (rows.length === 0) return record.id === null;
  for (const { project_id, head_sha } of rows) if (await holds(project_id, head_sha)) return true;
  return false;
}

async function readMark(dataDir: string): Promise<string | null> {
  const text = await readFile(join(dataDir, markName), "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return "";
    throw error;
  });
  return text.trim() || null;
}

/** On the disk before the database counts on it. */
async function writeMark(dataDir: string, id: string): Promise<void> {
  const path = join(dataDir, markName);
  const unfinished = `${path}.${process.pid}`;
  const file = await open(unfinished, "w", 0o644);
  await file.writeFile(`${id}\n`);
  await file.sync().finally(() => file.close());
  await link(unfinished, path).finally(() => rm(unfinished));
  const folder = await open(dataDir, "r");
  await folder.sync().finally(() => folder.close());
}

/**
 * Whether the directory that the database knows is there still, beside this one with the same mark.
 */
async function isCopy(dataDir: string, path: string, id: string): Promise<boolean> {
  const mark = await readMark(path).catch(() => null); // It may be another user's by now.
  if (mark !== id) return false;
  const [one, other] = await Promise.all([stat(dataDir), stat(path)]);
  return one.ino !== other.ino || one.dev !== other.dev;
}

const refused = (message: string, remedy: string): WavesmithError =>
  new WavesmithError("environment", message, { remedy });

const another = (dataDir: string, { id, path }: { id: string; path: string | null }): WavesmithError =>
  refused(
    `the database keeps its projects' work in the data directory ${path}, and this command uses ${dataDir}`,
    `use --data ${path}, or another DATABASE_URL; if ${dataDir} has taken its place and has its repositories: echo ${id} > ${join(dataDir, markName)}`,
  );

const withoutWork = (dataDir: string): WavesmithError =>
  refused(
    `the database has builds, and none of their commits are in the data directory ${dataDir}`,
    "use the data directory in which they were built (--data), or another DATABASE_URL",
  );

const copied = (dataDir: string, path: string): WavesmithError =>
  refused(
    `the data directory ${dataDir} is a copy of ${path}, with which the database works`,
    `use --data ${path}; if ${dataDir} is to take its place, move ${path} away first`,
  );
