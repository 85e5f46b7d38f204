import { existsSync, statSync } from "node:fs";
import { chown, lchown, mkdtemp, open, readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { WavesmithError } from "../../domain/errors.ts";
import type { Binaries } from "./binaries.ts";
import { databaseFailure } from "./failure.ts";
import type { ClusterPlace } from "./place.ts";
import { runProgram } from "./run-program.ts";
import type { ServerUser } from "./server-identity.ts";
import { hasName, namedUser } from "./server-user.ts";

/** The segment size of a new cluster; older ones have segments of 16 MiB. */
export const walSegmentMiB = 1;

const draftPrefix = "postgres.draft-";

/**
 * Returns how to name the cluster to a Postgres program: by its working directory, which we enter
 * while still root. So the cluster may be below folders that its user cannot enter, and its path
 * may have any length.
 */
export function clusterArgument(clusterDir: string): string {
  return existsSync("/proc/self/cwd") ? "/proc/self/cwd" : clusterDir;
}

/**
 * Creates the cluster if there is none. It is created in a separate folder and renamed, so an
 * existing cluster is complete. Removes the leftovers of an interrupted attempt. initdb keeps
 * `lock` even if we are killed.
 */
export async function ensureCluster(
  place: ClusterPlace,
  binaries: Binaries,
  user: ServerUser,
  lock: number,
): Promise<void> {
  if (existsSync(join(place.clusterDir, "PG_VERSION"))) {
    const copiedByRoot = user.switched && statSync(place.clusterDir).uid === 0;
    return copiedByRoot ? handOver(place.clusterDir, user) : undefined;
  }
  for (const name of await readdir(place.dataDir)) {
    if (name.startsWith(draftPrefix)) await rm(join(place.dataDir, name), { recursive: true, force: true });
  }
  const draft = await mkdtemp(join(place.dataDir, draftPrefix));
  try {
    await initialise(draft, { place, binaries, user, lock });
    await publish(draft, place);
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
}

async function initialise(
  draft: string,
  { place, binaries, user, lock }: { place: ClusterPlace; binaries: Binaries; user: ServerUser; lock: number },
): Promise<void> {
  const maker = user.switched ? (namedUser() ?? user) : user;
  if (maker.switched) await chown(draft, maker.uid, maker.gid);
  const options = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-instructions"];
  // Its log takes a few segments at least, of 16 MB each unless they are made smaller.
  options.push(`--wal-segsize=${walSegmentMiB}`, "-c", "min_wal_size=2MB", "-c", "wal_recycle=off");
  const wrapper = wrapperForNameless(user);
  const argv = [...wrapper, binaries.initdb, "-D", clusterArgument(draft), ...options] as [string, ...string[]];
  const { code, output } = await runProgram({ argv, user: maker, cwd: draft, descriptor: lock });
  if (code !== 0 && wrapper.length > 0 && !output.includes("initdb:")) throw needsName(user, output);
  if (code !== 0) throw await databaseFailure(`initdb failed for ${place.clusterDir}`, place, output);
  if (maker.uid !== user.uid) await handOver(draft, user);
}

/** Returns a wrapper for initdb, which needs a user with a name: a user namespace provides one. */
function wrapperForNameless(user: ServerUser): string[] {
  if (user.switched || hasName()) return [];
  const lender = namedUser();
  return lender === null ? [] : ["unshare", "--user", `--map-user=${lender.uid}`];
}

function needsName(user: ServerUser, output: string): WavesmithError {
  return new WavesmithError(
    "environment",
    `Postgres cannot be set up: user ${user.uid} has no name (${output.trim()})`,
    {
      remedy: `add user ${user.uid} to /etc/passwd, or set DATABASE_URL to a Postgres server`,
    },
  );
}

async function handOver(folder: string, user: ServerUser): Promise<void> {
  const entries = await readdir(folder, { withFileTypes: true, recursive: true });
  await Promise.all(entries.map((entry) => lchown(join(entry.parentPath, entry.name), user.uid, user.gid)));
  await chown(folder, user.uid, user.gid);
}

async function publish(draft: string, place: ClusterPlace): Promise<void> {
  try {
    await rename(draft, place.clusterDir);
  } catch (error) {
    if (existsSync(join(place.clusterDir, "PG_VERSION"))) return; // without flock two processes may do this at once; one wins
    throw new WavesmithError("database", `${place.clusterDir} is in the way: it is not a Postgres cluster`, {
      remedy: "move it away, or choose another data directory with --data",
      cause: error,
    });
  }
  const folder = await open(place.dataDir, "r");
  await folder.sync().finally(() => folder.close());
}
