// Who drives the builds of a project says so with a shared advisory lock of its own session, which
// ends with it: a kill -9 included. So an interrupted build is told from one that is being worked
// on.
import { type Database, type HeldSession, holdSession } from "./parts.ts";

const key = "hashtextextended('wavesmith:serves:' || $1, 0)";
/** What stands for every project: `serve` drives them all. */
const everyProject = "*";

/** This process' mark that it drives a project. */
export interface Serving {
  /**
   * Does `work` while nobody else can begin to drive the project; false, and nothing done, when
   * somebody does.
   */
  alone(work: () => Promise<void>): Promise<boolean>;
  /** Takes the mark away. */
  end(): Promise<void>;
}

/** Marks every project as driven by this process until `end`. */
export const markAllServed = (database: Database): Promise<Serving> => markServed(database, everyProject);

/** Whether a process that lives drives the builds of every project. */
export const isAllServed = (database: Database): Promise<boolean> => isMarked(database, everyProject);

/**
 * Marks the project as driven by this process until `end`. A mark lost with the database comes back
 * with it.
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
 * Gives the shared lock up for the exclusive one, which nobody gets while another marks the
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
    // A `serve` that starts just now makes again what it needs.
    if (projectId !== everyProject && (await isAllServed(database))) return false;
    await work();
  } finally {
    await connection.query(`select pg_advisory_unlock(${key})`, [projectId]);
  }
  return true;
}

/** Whether a process that lives drives the builds of this project. */
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
