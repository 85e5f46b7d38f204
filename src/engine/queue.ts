import { type EngineQueryable, prepared } from "./database.ts";

/** The engine's queue at one moment. */
export interface QueueState {
  /** Calls of functions that could run now and that no process has claimed. */
  readonly due: number;
  /** Calls that a process is making. */
  readonly running: number;
  /** How long the oldest due call has waited. */
  readonly lagSeconds: number;
}

/** Reads the queue of all processes. */
export async function readQueue(on: EngineQueryable): Promise<QueueState> {
  const { rows } = await on.query(
    prepared(`SELECT count(*) FILTER (WHERE holder IS NULL AND due_at <= now()) AS due,
      count(*) FILTER (WHERE holder IS NOT NULL) AS running,
      coalesce(extract(epoch FROM now() - min(due_at) FILTER (WHERE holder IS NULL AND due_at <= now())), 0) AS lag
      FROM engine.jobs`),
  );
  const { due, running, lag } = rows[0] ?? {};
  return { due: Number(due), running: Number(running), lagSeconds: Number(lag) };
}
