import { and, sql } from "drizzle-orm";
import type { AddedChecks } from "../../domain/gate/added-checks.ts";
import type { StoreSession } from "../connection/session.ts";
import { gateRuns } from "../schema.ts";

/** Reads the checks that agents added to gate runs, without the rest of the evidence. */
export async function addedChecks(
  session: StoreSession,
  waveIds: readonly string[],
): Promise<ReadonlyMap<string, AddedChecks>> {
  const { id, waveId, evidence } = gateRuns;
  const rows = await session.run(
    "added checks",
    (db) =>
      db
        .select({ id, added: sql<AddedChecks>`${evidence} -> 'added'` })
        .from(gateRuns)
        .where(and(sql`${waveId} = any(${sql.placeholder("waveIds")})`, sql`${evidence} ? 'added'`)),
    { waveIds },
  );
  return new Map(rows.map((row) => [row.id, row.added]));
}
