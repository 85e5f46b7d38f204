import { eq, getTableColumns, sql } from "drizzle-orm";
import { WavesmithError } from "../../domain/errors.ts";
import type { StoreSession } from "../connection/session.ts";
import type { AttemptInContext } from "../port.ts";
import type { OwnTables } from "../rows/tables.ts";
import { attempts, builds, tasks, waves } from "../schema.ts";

const { plan: _, ...buildColumns } = getTableColumns(builds);

/** Reads an attempt with its build, wave and task in one query: every step of a task begins so. */
export async function attemptInContext(
  session: StoreSession,
  tables: OwnTables,
  id: string,
): Promise<AttemptInContext> {
  const [found] = await session.run(
    "attempt in context",
    (db) =>
      db
        .select({ attempt: attempts, build: buildColumns, wave: waves, task: tasks })
        .from(attempts)
        .innerJoin(builds, eq(builds.id, attempts.buildId))
        .innerJoin(waves, eq(waves.id, attempts.waveId))
        .leftJoin(tasks, eq(tasks.id, attempts.taskId))
        .where(eq(attempts.id, sql.placeholder("id"))),
    { id },
  );
  if (found === undefined) throw new WavesmithError("not-found", `there is no attempt ${id}`);
  return { ...found, build: await tables.builds.complete(found.build) };
}
