// A process that drives a project's builds holds a shared advisory lock in its own session. The
// lock ends with the process, even after kill -9, so an interrupted build can be told from a
// running one.
import type { Database } from "./connection/connection.ts";
import { type HeldSession, holdSession } from "./connection/held-session.ts";

const key = "hashtextextended('wavesmith:serves:' || $1, 0)";
/** Stands for every project, because `serve` drives them all. */
const everyProject = "*";

/** This process's mark that it drives a project. */
export interface Serving {
  /**
   * Runs `work` while no other process can start driving the project. Returns false, without
   * running it, if another process drives it.
   */
  alone(work: () => Promise<void>): Promise<boolean>;
  /** Removes the mark. */
  end(): Promise<void>;
}

/** Marks every project as driven by this process until `end`. */
export const markAllServed = (database: Database): Promise<Serving> => markServed(database, everyProject);

/** Whether a live process drives the builds of every project. */
export const isAllServed = (database: Database): Promise<boolean> => isMarked(database, everyProject);

/**
 * Marks the project as driven by this process until `end`. After a lost database connection the
 * mark is set again.
 */
export async function markServed(database: Database, projectId: string): Promise<Serving> {
  const lock = { text: `select pg_advisory_lock_shared(${key})`, values: [projectId] };
  const session = await holdSession(database.pool, lock);
  return {
    async alone(work) {
      const connection = session.connection();
      return connection === null ? false : whileAlone(database, connection, projectId, work);
    },
    end: () => session.end(),
  };
}

/**
 * Swaps the shared lock for the exclusive one, which is unavailable while another process marks the
 * project.
 */
async function whileAlone(
  database: Database,
  connection: NonNullable<ReturnType<HeldSession["connection"]>>,
  projectId: string,
  work: () => Promise<void>,
): Promise<boolean> {
  await connection.query(`select pg_advisory_unlock_shared(${key})`, [projectId]);
  const { rows } = await connection.query<{ held: boolean }>(`select pg_try_advisory_lock(${key}) as held`, [
    projectId,
  ]);
  if (rows[0]?.held !== true) return false;
  try {
    // A `serve` that starts right now recreates what it needs.
    if (projectId !== everyProject && (await isAllServed(database))) return false;
    await work();
  } finally {
    await connection.query(`select pg_advisory_unlock(${key})`, [projectId]);
  }
  return true;
}

/** Whether a live process drives the builds of this project. */
export async function isServed(database: Database, projectId: string): Promise<boolean> {
  return (await isMarked(database, projectId)) || (await isAllServed(database));
}

async function isMarked(database: Database, projectId: string): Promise<boolean> {
  const { rows } = await database.pool.query<{ served: boolean }>(
    `select exists (
       select 1 from pg_locks
       where locktype = 'advisory' and granted and objsubid = 1
         and database = (select oid from pg_database where datname = current_database())
         and ((classid::bigint << 32) | objid::bigint) = ${key}
     ) as served`,
    [projectId],
  );
  return rows[0]?.served === true;
}
