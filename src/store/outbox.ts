import { and, eq, gt, inArray, isNull, lt, notExists, notLike, sql } from "drizzle-orm";
import type { NodePgDatabase } from "drizzle-orm/node-postgres";
import type { Pool, PoolClient } from "pg";
import { type StoreSession, sessionOf } from "./connection/session.ts";
import { type StoreCrashPoint, withTransaction } from "./connection/transaction.ts";
import { advisoryKey } from "./locks.ts";
import type { Store } from "./port.ts";
import { columnValue } from "./rows/columns.ts";
import { builds, outbox } from "./schema.ts";
import { inProjects, projectsValue } from "./statements/projects.ts";

const lookAgainMs = 500;
const mostAtOnce = 200;
const outboxLock = advisoryKey("wavesmith:outbox");
// One process at a time sends, so that events leave in the order of their commits. The lock comes
// first, because each statement sees only what was committed before it.
const beginAlone = `begin; select pg_advisory_xact_lock(${outboxLock})`;

/** Tells when to look at the outbox: after an own commit, and twice a second for others' events. */
export interface Unsent {
  /** This process has committed events. */
  expect(): void;
  /** Whether there may be events. Then "no" until `expect`, or for half a second. */
  shouldLook(projectIds: readonly string[] | "all"): "surely" | "perhaps" | "no";
}

export function createUnsent(): Unsent {
  let expected = true;
  let seen = "";
  let seenMs = 0;
  return {
    expect() {
      expected = true;
    },
    shouldLook(projectIds) {
      const these = JSON.stringify(projectIds);
      const should = expected
        ? "surely"
        : these !== seen || performance.now() > seenMs + lookAgainMs
          ? "perhaps"
          : "no";
      if (should === "no") return should;
      seen = these;
      seenMs = performance.now();
      expected = false;
      return should;
    },
  };
}

/** Sends events in the order of their commits. */
export function createDrain(pool: Pool, unsent: Unsent, crashPoint: StoreCrashPoint): Store["drainOutbox"] {
  return async (projectIds, deliver) => {
    const should = unsent.shouldLook(projectIds);
    if (should === "no") return 0;
    const values = { projectIds: projectsValue(projectIds) };
    const drain = async (client: PoolClient): Promise<number> => {
      const rows = await sessionOf(client).run("mark sent", markSent, { ...values, sentAt: new Date() });
      if (rows.length === 0) return 0;
      await deliver(rows.sort((a, b) => a.seq - b.seq));
      await crashPoint("outbox.drain.before-commit");
      return rows.length;
    };
    try {
      // Most of these looks find nothing and need no lock.
      if (should === "perhaps" && (await sessionOf(pool).run("any unsent", anyUnsent, values)).length === 0) return 0;
      const sent = await withTransaction(pool, drain, beginAlone);
      if (sent === mostAtOnce) unsent.expect();
      if (sent > 0) await crashPoint("outbox.drain.after-commit");
      return sent;
    } catch (error) {
      unsent.expect();
      throw error;
    }
  };
}

const unsentSeqs = (db: NodePgDatabase) =>
  db
    .select({ seq: outbox.seq })
    .from(outbox)
    .where(and(isNull(outbox.sentAt), inProjects(outbox.projectId)))
    .orderBy(outbox.seq);
const anyUnsent = (db: NodePgDatabase) => unsentSeqs(db).limit(1);

/** Events are marked before they are sent: a failed delivery rolls that back. */
const markSent = (db: NodePgDatabase) =>
  db
    .update(outbox)
    .set({ sentAt: columnValue(outbox.sentAt, "sentAt") })
    .where(inArray(outbox.seq, unsentSeqs(db).limit(mostAtOnce)))
    .returning();

/** Finds requests without a build. A resent request (`again:…`) counts as its original. */
export function findLostRequests(
  session: StoreSession,
  projectIds: readonly string[] | "all",
  sentBefore: Date,
): ReturnType<Store["lostRequests"]> {
  const before = sql`${sql.placeholder("sentBefore")}::timestamptz`;
  return session.run(
    "lost requests",
    (db) =>
      db
        .select()
        .from(outbox)
        .where(
          and(
            eq(outbox.name, "project/build.requested"),
            isNull(outbox.buildId),
            lt(outbox.sentAt, before),
            gt(outbox.sentAt, sql`${before} - interval '7 days'`),
            notLike(outbox.eventId, "again:%"),
            inProjects(outbox.projectId),
            notExists(db.select().from(builds).where(eq(builds.eventId, outbox.eventId))),
          ),
        )
        .orderBy(outbox.seq),
    { projectIds: projectsValue(projectIds), sentBefore },
  );
}
