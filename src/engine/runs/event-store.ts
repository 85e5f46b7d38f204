import { type EngineQueryable, prepared } from "../database.ts";

export interface StoredEvent {
  readonly name: string;
  readonly id: string;
  readonly data: Record<string, unknown>;
  readonly ts: number;
  readonly v?: string;
}

/** A run that an event starts; `slots` are those of its first call. */
export interface RunStart {
  readonly runId: string;
  readonly functionId: string;
  readonly event: StoredEvent;
  readonly partition: string | null;
  readonly slots: readonly string[];
}

/** Stores the events that are new and starts their runs, in one statement. */
export async function insertEvents(
  on: EngineQueryable,
  events: readonly StoredEvent[],
  runs: readonly RunStart[],
  nowMs: number,
): Promise<void> {
  await on.query(
    prepared(`WITH fresh AS (
       INSERT INTO engine.events (name, id, data, ts, received_at)
       SELECT name, id, data::json, ts, $5::timestamptz
       FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) AS e(name, id, data, ts)
       ON CONFLICT DO NOTHING RETURNING name, id
     ), wanted AS (
       SELECT * FROM unnest($6::text[], $7::text[], $8::text[], $9::text[], $10::text[], $11::text[], $12::text[])
         WITH ORDINALITY AS w(run_id, function_id, name, id, event, partition, slots, place)
     ), started AS (
       INSERT INTO engine.runs (id, function_id, event_name, event_id, event, partition, status, started_at)
       SELECT run_id, function_id, name, id, event::json, partition, 'running', $5::timestamptz
       FROM wanted JOIN fresh USING (name, id)
       ON CONFLICT DO NOTHING RETURNING id
     )
     INSERT INTO engine.jobs (run_id, function_id, partition, kind, due_at, slots)
     SELECT run_id, function_id, partition, 'call', $5::timestamptz,
            ARRAY(SELECT json_array_elements_text(slots::json))
     FROM wanted JOIN started ON started.id = run_id ORDER BY place`),
    [
      events.map((event) => event.name),
      events.map((event) => event.id),
      events.map((event) => JSON.stringify(event.data)),
      events.map((event) => event.ts),
      new Date(nowMs),
      runs.map((run) => run.runId),
      runs.map((run) => run.functionId),
      runs.map((run) => run.event.name),
      runs.map((run) => run.event.id),
      runs.map((run) => JSON.stringify(run.event)),
      runs.map((run) => run.partition),
      runs.map((run) => JSON.stringify(run.slots)),
    ],
  );
}
