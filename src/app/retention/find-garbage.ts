import { execFile } from "node:child_process";
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import type { GarbageItem } from "../../api/garbage.ts";
import type { Config } from "../../config.ts";
import type { Database } from "../../store/connection/connection.ts";
import { sessionOf } from "../../store/connection/session.ts";
import type { Store } from "../../store/port.ts";
import { findOldBuilds, findUnusedSandboxes, type OldBuild } from "../../store/statements/old-builds.ts";
import { openRepositories, type Refs, type WholeRepositories } from "../../workspace/authority/whole-repository.ts";
import { findOldUploads } from "./old-uploads.ts";

// RT1. Only what is over goes: never anything of a build that runs or waits, of a project's newest
// build or of its newest completed one, and never a restore point of a build that stays.

/** One thing that has outlived its retention setting, with what its removal needs. */
export interface Garbage extends GarbageItem {
  readonly projectId: string;
  /** The refs that go with it. */
  readonly refs: Refs;
}

interface Places {
  readonly config: Config;
  readonly pool: Database["pool"];
  readonly store: Store;
  readonly now: Date;
}

/** Finds everything that may go now, with its size. Changes nothing. */
export async function findGarbage({ config, pool, store, now }: Places): Promise<Garbage[]> {
  const { retention, dataDir, environment } = config;
  const session = sessionOf(pool);
  const repositories = openRepositories(dataDir, environment);
  const oldFor = async (limitMs: number | null) =>
    limitMs === null ? [] : findOldBuilds(session, new Date(now.getTime() - limitMs));
  const builds = await oldFor(retention.buildsMs);
  const gone = new Set(builds.map(({ id }) => id));
  const staying = async (limitMs: number | null) => (await oldFor(limitMs)).filter(({ id }) => !gone.has(id));
  const refsOf = createRefReader(repositories);
  const garbage: Garbage[] = [];
  for (const build of builds) {
    const refs = await refsOf(build, ["refs/heads/wavesmith/ID/", "refs/tags/wavesmith-restore/ID/"]);
    const bytes = build.logBytes + (await repositories.sizeOf(build.projectId, refs));
    garbage.push({ ...nameOf(build), kind: "build", bytes, refs });
  }
  for (const build of await staying(retention.logsMs))
    if (build.logBytes > 0) garbage.push({ ...nameOf(build), kind: "output", bytes: build.logBytes, refs: {} });
  for (const build of await staying(retention.branchesMs)) {
    const refs = await refsOf(build, ["refs/heads/wavesmith/ID/task/"]);
    if (Object.keys(refs).length === 0) continue;
    garbage.push({ ...nameOf(build), kind: "branches", bytes: await repositories.sizeOf(build.projectId, refs), refs });
  }
  for (const { path, ...upload } of await findOldUploads({ config, store, now }))
    garbage.push({ ...upload, kind: "upload", bytes: await sizeOfFolder(path), refs: {} });
  return [...garbage, ...(await findVolumes({ config, pool, store, now })), ...(await findSnapshots({ store, now }))];
}

const nameOf = ({ id, project, projectId }: OldBuild) => ({ id, project, projectId });

/** Reads each repository once. */
function createRefReader(repositories: WholeRepositories) {
  const known = new Map<string, Promise<Refs>>();
  let present: Promise<ReadonlySet<string>> | null = null;
  return async ({ id, projectId }: OldBuild, prefixes: readonly string[]): Promise<Refs> => {
    present ??= repositories.projects().then((projects) => new Set(projects));
    if (!(await present).has(projectId)) return {}; // it never came to a commit
    const all = known.get(projectId) ?? repositories.readRefs(projectId);
    known.set(projectId, all);
    const own = prefixes.map((prefix) => prefix.replace("ID", id));
    return Object.fromEntries(
      Object.entries(await all).filter(([ref]) => own.some((prefix) => ref.startsWith(prefix))),
    );
  };
}

async function findVolumes({ config, pool, now }: Places): Promise<Garbage[]> {
  const { volumesMs } = config.retention;
  if (volumesMs === null) return [];
  const unused = await findUnusedSandboxes(sessionOf(pool), new Date(now.getTime() - volumesMs));
  return Promise.all(
    unused.map(async ({ id, project, projectId }) => ({
      ...{ kind: "volume" as const, id, project, projectId, refs: {} },
      bytes: await sizeOfFolder(join(config.dataDir, "volumes", projectId)),
    })),
  );
}

async function sizeOfFolder(path: string): Promise<number | null> {
  if ((await stat(path).catch(() => null)) === null) return null; // its driver keeps it elsewhere
  const { stdout } = await promisify(execFile)("du", ["-sk", path]).catch(() => ({ stdout: "" })); // files come and go
  return stdout === "" ? null : Number.parseInt(stdout, 10) * 1024;
}

async function findSnapshots({ store, now }: Pick<Places, "store" | "now">): Promise<Garbage[]> {
  const kept = await store.snapshots.list({ state: "kept" }, { by: "expiresAt" });
  const expired = kept.filter(({ expiresAt }) => expiresAt <= now);
  const projects = await store.projects.list({ id: expired.map(({ projectId }) => projectId) });
  return expired.map(({ id, projectId, sizeBytes }) => ({
    ...{ kind: "snapshot" as const, id, projectId, bytes: sizeBytes, refs: {} },
    project: projects.find((project) => project.id === projectId)?.name ?? projectId,
  }));
}
