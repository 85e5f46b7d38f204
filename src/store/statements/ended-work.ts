import { and, asc, eq, gt, inArray, isNotNull, isNull, lt, or, type SQL, sql } from "drizzle-orm";
import type { AnyPgColumn } from "drizzle-orm/pg-core";
import type { WaveId } from "../../domain/ids.ts";
import type { StoreSession } from "../connection/session.ts";
import { attempts, builds, exportedSpans, gateRuns, modelCalls, tasks, waves, waveTasks } from "../schema.ts";

const mostAtOnce = 500;

/** Work that has ended and whose spans nobody has exported. */
export interface EndedWork {
  readonly builds: readonly Pick<typeof builds.$inferSelect, BuildColumn>[];
  readonly waves: readonly (typeof waves.$inferSelect)[];
  /** The tasks of these waves, with the first start and last end of their attempts there. */
  readonly tasks: readonly EndedTask[];
  readonly attempts: readonly (Pick<typeof attempts.$inferSelect, AttemptColumn> & { readonly task: string | null })[];
  readonly gateRuns: readonly (typeof gateRuns.$inferSelect)[];
  readonly modelCalls: readonly (typeof modelCalls.$inferSelect)[];
}

type BuildColumn = "id" | "projectId" | "tenantId" | "status" | "reason" | "requestedBy" | "createdAt" | "endedAt";
type AttemptColumn = keyof typeof attemptColumns;

interface EndedTask {
  readonly id: string;
  readonly waveId: WaveId;
  readonly buildId: string;
  readonly key: string;
  readonly agent: string;
  readonly status: string;
  readonly reason: string | null;
  readonly startedAt: Date;
  readonly endedAt: Date;
}

const { id, projectId, tenantId, status, reason, requestedBy, createdAt, endedAt } = builds;
const buildColumns = { id, projectId, tenantId, status, reason, requestedBy, createdAt, endedAt };
const attemptColumns = {
  id: attempts.id,
  buildId: attempts.buildId,
  waveId: attempts.waveId,
  taskId: attempts.taskId,
  kind: attempts.kind,
  role: attempts.role,
  number: attempts.number,
  outcome: attempts.outcome,
  reason: attempts.reason,
  createdAt: attempts.createdAt,
  endedAt: attempts.endedAt,
};

/** Finds what ended after `since` and has not been exported, at most 500 of each kind. */
export async function findEndedWork(session: StoreSession, since: Date): Promise<EndedWork> {
  // Only recent builds, whose rows have an index, because attempts have none on their ends.
  const isRecent = (column: AnyPgColumn): SQL =>
    inArray(column, sql`(select ${builds.id} from ${builds} where ${or(isNull(endedAt), gt(endedAt, since))})`);
  const isNew = (own: AnyPgColumn, end: AnyPgColumn | SQL): SQL =>
    sql`${end} > ${since.toISOString()}::timestamptz and not exists (select from ${exportedSpans}
      where ${exportedSpans.id} = ${own} and ${exportedSpans.endedAt} = date_trunc('milliseconds', ${end}))`;
  const waveEnd = sql`coalesce(${waves.endedAt}, ${waves.passedAt})`;
  const [endedBuilds, endedWaves, endedAttempts, endedGates, endedCalls] = await Promise.all([
    session.once((db) =>
      db.select(buildColumns).from(builds).where(isNew(id, endedAt)).orderBy(asc(endedAt)).limit(mostAtOnce),
    ),
    session.once((db) =>
      db
        .select()
        .from(waves)
        .where(and(isRecent(waves.buildId), isNew(waves.id, waveEnd)))
        .orderBy(waveEnd)
        .limit(mostAtOnce),
    ),
    session.once((db) =>
      db
        .select({ ...attemptColumns, task: tasks.key })
        .from(attempts)
        .leftJoin(tasks, eq(tasks.id, attempts.taskId))
        .where(and(isRecent(attempts.buildId), isNew(attempts.id, attempts.endedAt)))
        .orderBy(asc(attempts.endedAt))
        .limit(mostAtOnce),
    ),
    session.once((db) =>
      db
        .select()
        .from(gateRuns)
        .where(and(isRecent(gateRuns.buildId), isNew(gateRuns.id, gateRuns.endedAt)))
        .orderBy(asc(gateRuns.endedAt))
        .limit(mostAtOnce),
    ),
    session.once((db) =>
      db
        .select()
        .from(modelCalls)
        .where(and(isRecent(modelCalls.buildId), isNew(modelCalls.id, modelCalls.endedAt)))
        .orderBy(asc(modelCalls.endedAt))
        .limit(mostAtOnce),
    ),
  ]);
  const endedTasks = await tasksOfWaves(
    session,
    endedWaves.map((wave) => wave.id),
  );
  return {
    ...{ builds: endedBuilds, waves: endedWaves, tasks: endedTasks },
    ...{ attempts: endedAttempts, gateRuns: endedGates, modelCalls: endedCalls },
  };
}

async function tasksOfWaves(session: StoreSession, waveIds: readonly WaveId[]): Promise<EndedTask[]> {
  if (waveIds.length === 0) return [];
  const firstStart = sql<Date>`min(${attempts.createdAt})`.mapWith(attempts.createdAt);
  const lastEnd = sql<Date>`max(${attempts.endedAt})`.mapWith(attempts.endedAt);
  return session.once((db) =>
    db
      .select({
        ...{ id: tasks.id, waveId: sql<WaveId>`${waveTasks.waveId}`, buildId: sql<string>`${tasks.buildId}` },
        ...{ key: tasks.key, agent: tasks.agent, status: sql<string>`${tasks.status}`, reason: tasks.reason },
        ...{ startedAt: firstStart, endedAt: lastEnd },
      })
      .from(waveTasks)
      .innerJoin(tasks, eq(tasks.id, waveTasks.taskId))
      .innerJoin(attempts, and(eq(attempts.taskId, tasks.id), eq(attempts.waveId, waveTasks.waveId)))
      .where(and(inArray(waveTasks.waveId, waveIds), isNotNull(attempts.endedAt)))
      .groupBy(tasks.id, waveTasks.waveId),
  );
}

/** Records what was exported, and forgets what nobody will ask for any more. */
export async function markExported(
  session: StoreSession,
  ended: readonly { readonly id: string; readonly endedAt: Date }[],
  since: Date,
): Promise<void> {
  if (ended.length > 0)
    await session.once((db) =>
      db
        .insert(exportedSpans)
        .values([...ended])
        .onConflictDoNothing(),
    );
  await session.once((db) => db.delete(exportedSpans).where(lt(exportedSpans.endedAt, since)));
}
