import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Config } from "../../config.ts";
import { endedBuildStatuses } from "../../domain/status.ts";
import type { Store } from "../../store/port.ts";

/** A build reads its source when it starts; the same upload may be used for many builds. */
const keptMs = 30 * 24 * 3_600_000;

/** A source that was uploaded for builds of a project. */
export interface OldUpload {
  readonly projectId: string;
  readonly project: string;
  /** Its name in the project's folder of uploads. */
  readonly id: string;
  readonly path: string;
}

interface Places {
  readonly config: Pick<Config, "dataDir">;
  readonly store: Store;
  readonly now: Date;
}

/** Finds the uploads that are older than 30 days and that no unfinished build names. */
export async function findOldUploads({ config, store, now }: Places): Promise<OldUpload[]> {
  const folder = join(config.dataDir, "uploads");
  const found: Omit<OldUpload, "project">[] = [];
  for (const projectId of await namesIn(folder))
    for (const id of await namesIn(join(folder, projectId))) {
      const path = join(folder, projectId, id);
      const stats = await stat(path).catch(() => null); // another process removed it
      if (stats !== null && now.getTime() - stats.mtimeMs > keptMs) found.push({ projectId, id, path });
    }
  if (found.length === 0) return [];
  const projects = await store.projects.list({ id: found.map((one) => one.projectId) });
  const builds = await store.builds.list({ projectId: projects.map(({ id }) => id) });
  const named = new Set(
    builds.flatMap(({ status, plan: { source } }) =>
      !endedBuildStatuses.includes(status) && source.kind === "git" ? [source.url] : [],
    ),
  );
  const nameOf = new Map<string, string>(projects.map(({ id, name }) => [id, name]));
  return found
    .filter(({ path }) => !named.has(path))
    .map((one) => ({ ...one, project: nameOf.get(one.projectId) ?? one.projectId }));
}

/** Lists a folder; empty if there is none. */
const namesIn = (folder: string): Promise<string[]> =>
  readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT" || error.code === "ENOTDIR") return [];
    throw error;
  });
