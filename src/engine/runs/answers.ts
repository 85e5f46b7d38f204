import { type EngineQueryable, prepared } from "../database.ts";
import type { NewJob, StepResult, Transition } from "./transition.ts";

// EA1. A call changes anything only through its job's fence: id, generation and holder, checked in
// the statement that writes.
// EA2. An answer's steps, open steps, next jobs and the end of the job are one commit.

export interface Fence {
  readonly jobId: number;
  readonly generation: number;
  readonly holder: string;
}

/** Saves results of a call still under way; false when its fence is stale (EA1). */
export async function saveSteps(
  on: EngineQueryable,
  fence: Fence,
  runId: string,
  steps: readonly StepResult[],
): Promise<boolean> {
  const values: unknown[] = [fence.jobId, fence.generation, fence.holder, runId];
  const parts = [
    `held AS (SELECT run_id FROM engine.jobs WHERE ${fenced} AND run_id = $4 FOR SHARE)`,
    ...stepsPart(steps, collector(values)),
  ];
  const { rows } = await on.query(prepared(`WITH ${parts.join(",\n")} SELECT run_id FROM held`), values);
  return rows.length > 0;
}

/** Locks a run against answers to its other jobs, and reads the state a transition needs. */
export async function lockRun(
  on: EngineQueryable,
  runId: string,
): Promise<{ forcePlan: boolean; pending: string[] } | null> {
  const locked = await on.query(prepared("SELECT force_plan FROM engine.runs WHERE id = $1 FOR NO KEY UPDATE"), [
    runId,
  ]);
  const [run] = locked.rows;
  if (run === undefined) return null;
  const { rows } = await on.query(prepared("SELECT step_id FROM engine.pending WHERE run_id = $1"), [runId]);
  return { forcePlan: run.force_plan as boolean, pending: rows.map((row) => row.step_id as string) };
}

export interface TransitionWrite {
  readonly fence: Fence;
  readonly transition: Transition;
  readonly nowMs: number;
  /** Slots of the calls that follow. */
  readonly slots: readonly string[];
}

/**
 * Writes a transition in one statement; false when the fence is stale, and then nothing has changed
 * (EA1, EA2).
 */
export async function writeTransition(on: EngineQueryable, write: TransitionWrite): Promise<boolean> {
  const { fence, transition } = write;
  const values: unknown[] = [fence.jobId, fence.generation, fence.holder];
  const value = collector(values);
  const parts = [
    heldPart(transition, value),
    ...stepsPart(transition.steps, value),
    ...pendingParts(transition, value),
    ...jobsPart(transition.jobs, write.slots, value),
    ...runPart(transition, write.nowMs, value),
  ];
  const { rows } = await on.query(prepared(`WITH ${parts.join(",\n")} SELECT 1 FROM held`), values);
  return rows.length > 0;
}

/** Adds a value to a statement's parameters and returns its placeholder, such as `$4`. */
type Value = (next: unknown) => string;
const collector =
  (values: unknown[]): Value =>
  (next) =>
    `$${values.push(next)}`;
const fenced = "id = $1 AND generation = $2 AND holder = $3";

function heldPart({ retry }: Transition, value: Value): string {
  if (retry === null) return `held AS (DELETE FROM engine.jobs WHERE ${fenced} RETURNING *)`;
  return `held AS (UPDATE engine.jobs SET attempt = ${value(retry.attempt)}::int, due_at = ${value(new Date(retry.dueMs))}::timestamptz,
    holder = NULL, lease_until = NULL WHERE ${fenced} RETURNING *)`;
}

function stepsPart(steps: readonly StepResult[], value: Value): string[] {
  if (steps.length === 0) return [];
  return [
    `saved AS (INSERT INTO engine.steps (run_id, step_id, value) ${stepRows(steps, value)} ON CONFLICT DO NOTHING)`,
  ];
}

/**
 * Returns the rows to insert. A single step, the usual case, is inserted without arrays, which
 * takes the server a third less time.
 */
function stepRows(steps: readonly StepResult[], value: Value): string {
  const ids = steps.map((step) => step.stepId);
  const results = steps.map((step) => JSON.stringify(step.value ?? null));
  if (steps.length === 1) return `SELECT held.run_id, ${value(ids[0])}, ${value(results[0])}::json FROM held`;
  return `SELECT held.run_id, s.id, s.value::json
    FROM held, unnest(${value(ids)}::text[], ${value(results)}::text[]) WITH ORDINALITY AS s(id, value, place) ORDER BY place`;
}

function pendingParts({ addPending, removePending, end }: Transition, value: Value): string[] {
  const parts: string[] = [];
  if (addPending.length > 0) {
    parts.push(`opened AS (INSERT INTO engine.pending (run_id, step_id) SELECT held.run_id, s.id
      FROM held, unnest(${value(addPending)}::text[]) AS s(id) ON CONFLICT DO NOTHING)`);
  }
  if (end !== null) {
    parts.push("closed AS (DELETE FROM engine.pending USING held WHERE pending.run_id = held.run_id)");
    parts.push("dropped AS (DELETE FROM engine.jobs USING held WHERE jobs.run_id = held.run_id AND jobs.id <> $1)");
  } else if (removePending.length > 0) {
    parts.push(`closed AS (DELETE FROM engine.pending USING held
      WHERE pending.run_id = held.run_id AND pending.step_id = ANY(${value(removePending)}::text[]))`);
  }
  return parts;
}

function jobsPart(jobs: readonly NewJob[], slots: readonly string[], value: Value): string[] {
  if (jobs.length === 0) return [];
  const columns = [
    `${value(jobs.map((job) => job.kind))}::text[]`,
    `${value(jobs.map((job) => job.stepId))}::text[]`,
    `${value(jobs.map((job) => new Date(job.dueMs)))}::timestamptz[]`,
  ];
  return [
    `queued AS (INSERT INTO engine.jobs (run_id, function_id, partition, kind, step_id, due_at, slots)
      SELECT held.run_id, held.function_id, held.partition, j.kind, j.step_id, j.due_at,
             CASE j.kind WHEN 'call' THEN ${value(slots)}::text[] ELSE '{}' END
      FROM held, unnest(${columns.join(", ")}) WITH ORDINALITY AS j(kind, step_id, due_at, place) ORDER BY place
      ON CONFLICT DO NOTHING)`,
  ];
}

function runPart({ end, forcePlan, addPending, removePending }: Transition, nowMs: number, value: Value): string[] {
  if (end !== null) {
    const output = JSON.stringify((end.status === "completed" ? end.result : end.error) ?? null);
    return [
      `finished AS (UPDATE engine.runs SET status = ${value(end.status)}, output = ${value(output)}::json,
        ended_at = ${value(new Date(nowMs))}::timestamptz FROM held WHERE runs.id = held.run_id)`,
    ];
  }
  // Only an answer that opens or closes steps can change `force_plan`.
  if (addPending.length === 0 && removePending.length === 0) return [];
  return [
    `planned AS (UPDATE engine.runs SET force_plan = ${value(forcePlan)} FROM held
      WHERE runs.id = held.run_id AND runs.force_plan <> ${value(forcePlan)})`,
  ];
}
