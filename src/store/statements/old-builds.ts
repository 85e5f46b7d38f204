import { and, eq, gt, inArray, isNull, lt, notInArray, or, sql } from "drizzle-orm";
import { endedBuildStatuses } from "../../domain/status.ts";
import type { StoreSession } from "../connection/session.ts";
import { builds, jobs, logChunks, outbox, projects, sandboxes, webhookDeliveries } from "../schema.ts";

export interface OldBuild {
  readonly id: string;
  readonly projectId: string;
  readonly project: string;
  readonly endedAt: Date;
  /** The size of what its agents and gates printed. */
  readonly logBytes: number;
}

/**
 * Finds the builds that ended before this moment, oldest first, with their output. A project's
 * newest build and its newest completed one are never old: they can be retried and rolled back.
 */
export async function findOldBuilds(session: StoreSession, before: Date): Promise<OldBuild[]> {
  const newest = (extra: ReturnType<typeof sql>) =>
    sql`(select distinct on (project_id) id from builds ${extra} order by project_id, position desc)`;
  const bytes = sql<number>`coalesce((select sum(octet_length(${logChunks.text})) from ${logChunks}
    join ${jobs} on ${jobs.key} = ${logChunks.jobKey} where ${jobs.buildId} = ${builds.id}), 0)`.mapWith(Number);
  const rows = await session.once((db) =>
    db
      .select({
        id: sql<string>`${builds.id}`,
        projectId: sql<string>`${builds.projectId}`,
        project: projects.name,
        endedAt: builds.endedAt,
        logBytes: bytes,
      })
      .from(builds)
      .innerJoin(projects, eq(projects.id, builds.projectId))
      .where(
        and(
          inArray(builds.status, [...endedBuildStatuses]),
          lt(builds.endedAt, before),
          notInArray(builds.id, newest(sql``)),
          notInArray(builds.id, newest(sql`where status = 'completed'`)),
        ),
      )
      .orderBy(builds.position),
  );
  return rows.flatMap(({ endedAt, ...row }) => (endedAt === null ? [] : [{ ...row, endedAt }]));
}

/**
 * Removes the output of a build that ended before this moment; its end of output per attempt stays.
 */
export async function removeOutput(session: StoreSession, buildId: string, before: Date): Promise<void> {
  const own = sql`(select ${jobs.key} from ${jobs} join ${builds} on ${builds.id} = ${jobs.buildId}
    where ${builds.id} = ${buildId} and ${builds.endedAt} < ${before.toISOString()}::timestamptz)`;
  await session.once((db) => db.delete(logChunks).where(inArray(logChunks.jobKey, own)));
}

/** Removes old events that belong to no build and were sent, and what forges and CI sent. */
export async function removeOldEvents(session: StoreSession, before: Date): Promise<void> {
  await session.once((db) =>
    db.delete(outbox).where(and(isNull(outbox.buildId), lt(outbox.sentAt, before), lt(outbox.createdAt, before))),
  );
  await session.once((db) => db.delete(webhookDeliveries).where(lt(webhookDeliveries.receivedAt, before)));
}

/**
 * Finds sandboxes that nothing used since this moment, of projects all of whose builds have ended.
 */
export async function findUnusedSandboxes(session: StoreSession, since: Date) {
  const busy = sql`(select ${builds.projectId} from ${builds}
    where ${or(isNull(builds.endedAt), gt(builds.endedAt, since))})`;
  return session.once((db) =>
    db
      .select({ id: sandboxes.id, projectId: sandboxes.projectId, project: projects.name, driver: sandboxes.driver })
      .from(sandboxes)
      .innerJoin(projects, eq(projects.id, sandboxes.projectId))
      .where(
        and(
          inArray(sandboxes.state, ["stopped", "lost"]),
          lt(sandboxes.usedAt, since),
          notInArray(sandboxes.projectId, busy),
        ),
      ),
  );
}
