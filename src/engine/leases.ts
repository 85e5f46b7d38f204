import { prepared, type Queryable } from "./database.ts";
import { processLockSpace } from "./session.ts";

export interface Lessee {
  readonly holder: string;
  /** The jobs this process is working on. */
  readonly jobIds: readonly number[];
}

/** Extends the leases of this process by `leaseMs` from now. */
export async function renewLeases(on: Queryable, lessee: Lessee, leaseMs: number): Promise<void> {
  await on.query(
    prepared(`UPDATE engine.jobs SET lease_until = clock_timestamp() + $3 * interval '1 millisecond'
     WHERE holder = $1 AND id = ANY($2::bigint[])`),
    [lessee.holder, lessee.jobIds, leaseMs],
  );
}

/**
 * Frees jobs that nobody works on: of processes whose lock is free, of lapsed leases, and our own
 * that we do not know of (a claim whose commit was not answered). Returns how many.
 */
export async function adoptJobs(on: Queryable, lessee: Lessee): Promise<number> {
  // For a second after a start of the server its clients may not have taken their locks again.
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

/** Gives back every lease of this process; what its calls still answer is stale from then on. */
export async function releaseJobs(on: Queryable, holder: string): Promise<void> {
  await on.query("UPDATE engine.jobs SET holder = NULL, lease_until = NULL WHERE holder = $1", [holder]);
}

export interface Served {
  readonly functionIds: readonly string[];
  /** null: all of them. */
  readonly partitions: readonly string[] | null;
}

const served = `function_id = ANY($1::text[]) AND ($2::text[] IS NULL OR partition IS NULL OR partition = ANY($2::text[]))`;

/**
 * When the first free job of those served is due, in ms since 1970, of those due after a moment if
 * given; null: there is none.
 */
export async function nextDueMs(on: Queryable, what: Served, afterMs: number | null): Promise<number | null> {
  const { rows } = await on.query(
    prepared(
      `SELECT min(due_at) AS due_at FROM engine.jobs WHERE holder IS NULL AND ($3::timestamptz IS NULL OR due_at > $3) AND ${served}`,
    ),
    [what.functionIds, what.partitions, afterMs === null ? null : new Date(afterMs)],
  );
  return rows[0]?.due_at instanceof Date ? rows[0].due_at.getTime() : null;
}

/** Whether a job of those served is due or leased. */
export async function isBusy(on: Queryable, what: Served, nowMs: number): Promise<boolean> {
  const { rows } = await on.query(
    prepared(
      `SELECT EXISTS (SELECT 1 FROM engine.jobs WHERE (holder IS NOT NULL OR due_at <= $3) AND ${served}) AS busy`,
    ),
    [what.functionIds, what.partitions, new Date(nowMs)],
  );
  return rows[0]?.busy === true;
}

/**
 * Deletes runs that ended before this moment and the data of events as old; the events' keys stay
 * (W13).
 */
export async function prune(on: Queryable, beforeMs: number): Promise<void> {
  await on.query("DELETE FROM engine.runs WHERE ended_at < $1", [new Date(beforeMs)]);
  await on.query("UPDATE engine.events SET data = NULL WHERE received_at < $1 AND data IS NOT NULL", [
    new Date(beforeMs),
  ]);
}
