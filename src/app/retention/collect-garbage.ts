import { rm } from "node:fs/promises";
import { join } from "node:path";
import { removeUnusedSandbox } from "../../api/sandbox-use.ts";
import type { Config } from "../../config.ts";
import type { Ports } from "../../coordinator/port.ts";
import { messageOf } from "../../domain/errors.ts";
import { endedBuildStatuses } from "../../domain/status.ts";
import { expireSnapshots } from "../../sandbox-lifecycle/snapshots/expire-snapshots.ts";
import type { Database } from "../../store/connection/connection.ts";
import { sessionOf } from "../../store/connection/session.ts";
import { withTransaction } from "../../store/connection/transaction.ts";
import { removeBuildRows } from "../../store/copy/remove-rows.ts";
import { removeOldEvents, removeOutput } from "../../store/statements/old-builds.ts";
import { openRepositories, type WholeRepositories } from "../../workspace/authority/whole-repository.ts";
import { findGarbage, type Garbage } from "./find-garbage.ts";

// RT2. A ref goes before the row that names it, so a crash leaves nothing that nobody would find
// again. A build's row is locked meanwhile, so that nobody retries it at that moment.

/** Held by everything that reads or prunes whole repositories. */
export const repositoriesLock = "whole repositories";

export interface Collecting {
  readonly config: Config;
  readonly pool: Database["pool"];
  readonly ports: Ports;
}

/**
 * Removes what has outlived its retention settings, and returns it. If something cannot be removed
 * now, warns and leaves it for the next time. Returns null if another process is already
 * collecting.
 */
export function collectGarbage(collecting: Collecting): Promise<Garbage[] | null> {
  return collecting.ports.store.alone(repositoriesLock, () => collectAlone(collecting), { wait: false });
}

async function collectAlone(collecting: Collecting): Promise<Garbage[]> {
  const { config, pool, ports } = collecting;
  const now = ports.clock.now();
  const repositories = openRepositories(config.dataDir, config.environment);
  const removed: Garbage[] = [];
  for (const one of await findGarbage({ config, pool, store: ports.store, now })) {
    const isGone = await removeOne({ ...collecting, repositories }, one, now).catch((error: unknown) => {
      ports.log.warn(`the ${one.kind} ${one.id} of project ${one.project} cannot be removed: ${messageOf(error)}`);
      return false;
    });
    if (isGone) removed.push(one);
  }
  if (config.retention.logsMs !== null)
    await removeOldEvents(sessionOf(pool), new Date(now.getTime() - config.retention.logsMs));
  for (const projectId of new Set(
    removed.filter(({ refs }) => Object.keys(refs).length > 0).map((one) => one.projectId),
  ))
    await repositories.prune(projectId);
  return removed;
}

type Removing = Collecting & { readonly repositories: WholeRepositories };

async function removeOne(removing: Removing, one: Garbage, now: Date): Promise<boolean> {
  const { config, pool, ports, repositories } = removing;
  switch (one.kind) {
    case "snapshot":
      return (await expireSnapshots(ports)).expired.includes(one.id) || (await isSnapshotGone(ports, one.id));
    case "volume": {
      const row = await ports.store.sandboxes.get({ id: one.id });
      await removeUnusedSandbox(ports, row, { volume: true });
      return true;
    }
    case "output":
      await removeOutput(sessionOf(pool), one.id, new Date(now.getTime() - (config.retention.logsMs ?? 0)));
      await rm(join(config.dataDir, "logs", `${one.id}.log`), { force: true });
      return true;
    case "upload":
      await rm(join(config.dataDir, "uploads", one.projectId, one.id), { recursive: true, force: true });
      return true;
    case "branches":
      return whileEnded(pool, one.id, () => repositories.removeRefs(one.projectId, one.refs));
    case "build": {
      const isGone = await whileEnded(pool, one.id, async (client) => {
        await repositories.removeRefs(one.projectId, one.refs);
        await removeBuildRows(client, one.id);
      });
      for (const file of [`logs/${one.id}.log`, `plans/${one.id}.yaml`])
        if (isGone) await rm(join(config.dataDir, file), { force: true });
      return isGone;
    }
  }
}

const isSnapshotGone = async ({ store }: Ports, id: string): Promise<boolean> =>
  (await store.snapshots.find({ id, state: "kept" })) === null;

/** Runs `work` while nobody can retry the build. Returns false if somebody already has. */
function whileEnded(
  pool: Database["pool"],
  buildId: string,
  work: (client: Parameters<typeof removeBuildRows>[0]) => Promise<void>,
): Promise<boolean> {
  return withTransaction(pool, async (client) => {
    const locked = "select status from builds where id = $1 for update";
    const { rows } = await client.query<{ status: (typeof endedBuildStatuses)[number] }>(locked, [buildId]);
    if (rows[0] === undefined || !endedBuildStatuses.includes(rows[0].status)) return false;
    await work(client);
    return true;
  });
}
