import { link, mkdir, open, readFile, realpath, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Pool, PoolClient } from "pg";
import { WavesmithError } from "../domain/errors.ts";
import type { ProjectId } from "../domain/ids.ts";
import { randomIds } from "../domain/ids.ts";
import { type Queryable, sessionOf } from "./connection/session.ts";
import { ensureInstallation, findInstallation, updateInstallation } from "./installation.ts";
import { findHeads } from "./statements/builds.ts";

// DD1. The commits of a database's builds are in one data directory. Its id is in a file there and
// in the database, so that no command works on the one with the other's repositories. The file
// moves with the directory.
// DD2. A directory without that mark is taken for the database's own when it holds a commit that
// the database knows, and for a new database's when that knows of none.

const markName = "data-directory-id";

export interface DataDirectoryCheck {
  readonly pool: Pool;
  readonly dataDir: string;
  /** Whether the database is in the directory itself. */
  readonly isEmbedded: boolean;
  /** Whether to mark directory and database; a command that only reads does not. */
  readonly claims: boolean;
  /** Whether the directory's repository of a project has this commit. */
  readonly holds: (projectId: ProjectId, sha: string) => Promise<boolean>;
}

/**
 * Checks that the directory belongs to the database, and marks both at their first use. Fails with
 * `environment`, naming the directory to use. Safe to call from many processes at once.
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
    // No other process marks this database meanwhile; readers continue.
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

async function recordOf(on: Queryable): Promise<DirectoryRecord> {
  const row = await findInstallation(sessionOf(on));
  return { id: row?.dataDirId ?? null, path: row?.dataDirPath ?? null };
}

async function agrees(check: DataDirectoryCheck, dataDir: string, { id, path }: DirectoryRecord): Promise<boolean> {
  if (id === null || (await readMark(dataDir)) !== id) return false;
  if (path === dataDir) return true;
  // A copy of a directory with its database is another installation, but a copy of the directory
  // alone would split the work.
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
  const session = sessionOf(client);
  const installation = await ensureInstallation(session);
  await updateInstallation(session, installation.id, { dataDirId: id, dataDirPath: dataDir });
}

async function mayAdopt(
  { holds }: DataDirectoryCheck,
  client: PoolClient,
  { record, mark }: { record: DirectoryRecord; mark: string | null },
): Promise<boolean> {
  if (record.id !== null && mark !== null) return false;
  // The directory that the database knows still exists.
  if (record.path !== null && (await readMark(record.path).catch(() => null)) === record.id) return false;
  const heads = await findHeads(sessionOf(client));
  if (heads.length === 0) return record.id === null;
  for (const { projectId, headSha } of heads) if (await holds(projectId, headSha)) return true;
  return false;
}

async function readMark(dataDir: string): Promise<string | null> {
  const text = await readFile(join(dataDir, markName), "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return "";
    throw error;
  });
  return text.trim() || null;
}

/** Writes the mark and flushes it, before the database relies on it. */
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

/** Whether this directory is a copy: the one that the database knows still has the same mark. */
async function isCopy(dataDir: string, path: string, id: string): Promise<boolean> {
  const mark = await readMark(path).catch(() => null); // it may belong to another user by now
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
