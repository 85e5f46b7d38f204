import { type EngineQueryable, prepared } from "../database.ts";
import { processLockSpace } from "../session.ts";

export interface Lessee {
  readonly holder: string;
  /** The jobs this process is working on. */
  readonly jobIds: readonly number[];
}

/** Extends the leases of this process to `leaseMs` from now. */
export async function renewLeases(on: EngineQueryable, lessee: Lessee, leaseMs: number): Promise<void> {
  await on.query(
    prepared(`UPDATE engine.jobs SET lease_until = clock_timestamp() + $3 * interval '1 millisecond'
     WHERE holder = $1 AND id = ANY($2::bigint[])`),
    [lessee.holder, lessee.jobIds, leaseMs],
  );
}

/**
 * Frees orphaned jobs and returns how many: jobs of processes whose lock is free, jobs whose lease
 * expired, and jobs leased to this process that it does not know of, because the reply to the
 * claim's commit was lost.
 */
export async function adoptJobs(on: EngineQueryable, lessee: Lessee): Promise<number> {
  // In the first second after the server starts, clients may not have retaken their locks yet.
  const { rowCount } = await on.query(
    prepared(`WITH alive AS (
       SELECT objid FROM pg_locks
       WHERE locktype = 'advisory' AND classid = $3::int AND objsubid = 2 AND granted
         AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
     ), orphans AS (
       SELECT id FROM engine.jobs
       WHERE holder IS NOT NULL AND CASE WHEN holder = $1 THEN NOT id = ANY($2::bigint[])
         ELSE lease_until < clock_timestamp()
           OR (hashtext(holder)::oid NOT IN (SELECT objid FROM alive)
               AND pg_postmaster_start_time() < clock_timestamp() - interval '1 second') END
       ORDER BY id FOR UPDATE SKIP LOCKED
     )
     UPDATE engine.jobs SET holder = NULL, lease_until = NULL WHERE id IN (SELECT id FROM orphans)`),
    [lessee.holder, lessee.jobIds, processLockSpace],
  );
  return rowCount ?? 0;
}

/** Releases every lease of this process; later answers from its calls are stale. */
export async function releaseJobs(on: EngineQueryable, holder: string): Promise<void> {
  await on.query("UPDATE engine.jobs SET holder = NULL, lease_until = NULL WHERE holder = $1", [holder]);
}

export interface ServedWork {
  readonly functionIds: readonly string[];
  /** null: all of them. */
  readonly partitions: readonly string[] | null;
}

const served = `function_id = ANY($1::text[]) AND ($2::text[] IS NULL OR partition IS NULL OR partition = ANY($2::text[]))`;

/**
 * Returns when the next unleased job we serve is due, in ms since 1970, counting only jobs due
 * after `afterMs` if it is given; null when there is none.
 */
export async function nextDueMs(on: EngineQueryable, work: ServedWork, afterMs: number | null): Promise<number | null> {
  const { rows } = await on.query(
    prepared(
      `SELECT min(due_at) AS due_at FROM engine.jobs WHERE holder IS NULL AND ($3::timestamptz IS NULL OR due_at > $3) AND ${served}`,
    ),
    [work.functionIds, work.partitions, afterMs === null ? null : new Date(afterMs)],
  );
  return rows[0]?.due_at instanceof Date ? rows[0].due_at.getTime() : null;
}

/** Whether a job we serve is due or leased. */
export async function hasDueWork(on: EngineQueryable, work: ServedWork, nowMs: number): Promise<boolean> {
  const { rows } = await on.query(
    prepared(
      `SELECT EXISTS (SELECT 1 FROM engine.jobs WHERE (holder IS NOT NULL OR due_at <= $3) AND ${served}) AS busy`,
    ),
    [work.functionIds, work.partitions, new Date(nowMs)],
  );
  return rows[0]?.busy === true;
}

/**
 * Deletes the runs that ended before this time and the data of events that old. The events' keys
 * stay, so that a repeated event still starts nothing (W13).
 */
export async function pruneHistory(on: EngineQueryable, beforeMs: number): Promise<void> {
  await on.query("DELETE FROM engine.runs WHERE ended_at < $1", [new Date(beforeMs)]);
  await on.query("UPDATE engine.events SET data = NULL WHERE received_at < $1 AND data IS NOT NULL", [
    new Date(beforeMs),
  ]);
}
