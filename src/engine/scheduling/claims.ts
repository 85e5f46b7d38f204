import { type EngineQueryable, inTransaction, prepared } from "../database.ts";
import type { EngineConnection, EngineDatabase, EngineResult, EngineRow } from "../port.ts";
import type { StoredEvent } from "../runs/event-store.ts";
import type { StepResult } from "../runs/transition.ts";
import { processLockSpace } from "../session.ts";

// EC1. Jobs with slots are leased under one advisory lock, so that a claim sees the true count of
// taken slots: everything else only frees slots. Jobs without slots need no lock.
// EC2. Leases use the database's clock; everything else uses the engine's.

/** The advisory lock that serialises claims; its key space differs from that of processes. */
const claimLock = `${processLockSpace + 1}, 0`;

/** A leased job with everything its call needs. */
export interface EngineJob {
  readonly id: number;
  readonly generation: number;
  readonly runId: string;
  readonly functionId: string;
  readonly kind: "call" | "timer";
  readonly stepId: string | null;
  readonly attempt: number;
  readonly partition: string | null;
  readonly event: StoredEvent;
  readonly forcePlan: boolean;
  /** In the order in which the steps ended. */
  readonly steps: readonly StepResult[];
}

export interface ClaimRequest {
  readonly limit: number;
  readonly functionIds: readonly string[];
  /** null: all of them. */
  readonly partitions: readonly string[] | null;
  readonly holder: string;
  readonly leaseMs: number;
  readonly nowMs: number;
}

/** Leases due jobs, earliest first, as far as their concurrency keys allow. */
export function claimJobs(
  database: EngineDatabase,
  request: ClaimRequest,
  beforeCommit: () => void | Promise<void>,
): Promise<EngineJob[]> {
  // In one simple query each statement sees what was committed before it, so the count is taken
  // after the lock (EC1).
  const begin = `BEGIN; SELECT pg_advisory_xact_lock(${claimLock});
    SELECT slot, count(*)::int AS taken FROM engine.jobs, unnest(slots) AS slot WHERE holder IS NOT NULL GROUP BY slot`;
  return inTransaction(database, begin, async (connection, beginResult) => {
    const slots = createSlots((beginResult as EngineResult[])[2]?.rows ?? []);
    const picked = await pickJobs(connection, request, slots);
    const jobs = picked.length === 0 ? [] : await leaseJobs(connection, request, picked);
    await beforeCommit();
    return jobs;
  });
}

/**
 * Leases due jobs without concurrency keys, earliest first, in one statement; null when there are
 * none. Use it only when no function has a limit, because it would overtake earlier jobs with keys.
 */
export async function claimUnlimited(on: EngineQueryable, request: ClaimRequest): Promise<EngineJob[] | null> {
  const { rows } = await on.query(
    prepared(`WITH due AS (
       SELECT id FROM engine.jobs WHERE ${dueText} AND slots = '{}'
       ORDER BY due_at, id LIMIT $4 FOR UPDATE SKIP LOCKED
     ), leased AS (
       UPDATE engine.jobs SET holder = $5, generation = generation + 1,
              lease_until = clock_timestamp() + $6 * interval '1 millisecond'
       FROM due WHERE jobs.id = due.id RETURNING jobs.*
     ) ${leasedText}`),
    [new Date(request.nowMs), request.functionIds, request.partitions, request.limit, request.holder, request.leaseMs],
  );
  return rows.length === 0 ? null : rows.map(jobOf);
}

const dueText = `holder IS NULL AND due_at <= $1 AND function_id = ANY($2::text[])
  AND ($3::text[] IS NULL OR partition IS NULL OR partition = ANY($3::text[]))`;

/** Selects the jobs in `leased` with everything their calls need. */
const leasedText = `SELECT leased.id, leased.generation, leased.run_id, leased.function_id, leased.kind, leased.step_id,
    leased.attempt, leased.partition, runs.event, runs.force_plan,
    (SELECT json_agg(json_build_array(step_id, value) ORDER BY seq) FROM engine.steps WHERE run_id = runs.id) AS steps
  FROM leased JOIN engine.runs ON runs.id = leased.run_id ORDER BY leased.due_at, leased.id`;

async function pickJobs(connection: EngineConnection, request: ClaimRequest, slots: Slots): Promise<number[]> {
  const picked: number[] = [];
  // Each round excludes at least one more full key than the round before, so there are few rounds.
  for (;;) {
    const limit = request.limit - picked.length;
    const { rows } = await connection.query(
      prepared(`SELECT id, slots FROM engine.jobs
       WHERE ${dueText} AND NOT slots && $4::text[] AND NOT id = ANY($5::bigint[])
       ORDER BY due_at, id LIMIT $6 FOR UPDATE SKIP LOCKED`),
      [new Date(request.nowMs), request.functionIds, request.partitions, slots.full(), picked, limit],
    );
    const claimable = rows.filter((row) => slots.take(row.slots as string[]));
    picked.push(...claimable.map((row) => Number(row.id)));
    if (claimable.length === rows.length || picked.length === request.limit) return picked;
  }
}

async function leaseJobs(
  connection: EngineConnection,
  request: ClaimRequest,
  ids: readonly number[],
): Promise<EngineJob[]> {
  const { rows } = await connection.query(
    prepared(`WITH leased AS (
       UPDATE engine.jobs SET holder = $2, generation = generation + 1,
              lease_until = clock_timestamp() + $3 * interval '1 millisecond'
       WHERE id = ANY($1::bigint[]) RETURNING *
     ) ${leasedText}`),
    [ids, request.holder, request.leaseMs],
  );
  return rows.map(jobOf);
}

function jobOf(row: EngineRow): EngineJob {
  return {
    id: Number(row.id),
    generation: row.generation as number,
    runId: row.run_id as string,
    functionId: row.function_id as string,
    kind: row.kind as EngineJob["kind"],
    stepId: row.step_id as string | null,
    attempt: row.attempt as number,
    partition: row.partition as string | null,
    event: row.event as StoredEvent,
    forcePlan: row.force_plan as boolean,
    steps: ((row.steps ?? []) as [string, unknown][]).map(([stepId, value]) => ({ stepId, value })),
  };
}

interface Slots {
  /** Takes these slots if all are free. */
  take(slots: readonly string[]): boolean;
  /** Slots whose limit was found to be reached. */
  full(): string[];
}

/** Counts taken slots per key. A slot is `<limit> <key>`; jobs count for a key under any limit. */
function createSlots(rows: readonly EngineRow[]): Slots {
  const takenByKey = new Map<string, number>();
  const full = new Set<string>();
  const split = (slot: string) => ({ limit: Number.parseInt(slot, 10), key: slot.slice(slot.indexOf(" ") + 1) });
  const isFull = (slot: string) => {
    const { limit, key } = split(slot);
    if ((takenByKey.get(key) ?? 0) < limit) return false;
    full.add(slot);
    return true;
  };
  for (const row of rows) {
    const { key } = split(row.slot as string);
    takenByKey.set(key, (takenByKey.get(key) ?? 0) + (row.taken as number));
  }
  for (const row of rows) isFull(row.slot as string);
  return {
    take(slots) {
      if (slots.filter(isFull).length > 0) return false;
      for (const key of new Set(slots.map((slot) => split(slot).key)))
        takenByKey.set(key, (takenByKey.get(key) ?? 0) + 1);
      return true;
    },
    full: () => [...full],
  };
}
