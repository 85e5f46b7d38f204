import { and, eq, gt, inArray, isNull, lt, ne, or, sql } from "drizzle-orm";
import type { NodePgDatabase } from "drizzle-orm/node-postgres";
import type { StoreSession } from "./connection/session.ts";
import type { Commit } from "./connection/transaction.ts";
import type { Store } from "./port.ts";
import { jobs } from "./schema.ts";
import { inProjects, projectsValue } from "./statements/projects.ts";

type Leases = Pick<Store, "leaseJobs" | "renewLeases" | "releaseLeases">;

/** The leases on running jobs. */
export function createLeases(session: StoreSession, commit: Commit): Leases {
  return {
    async leaseJobs({ projectIds, owner, leaseMs, limit }) {
      const values = { projectIds: projectsValue(projectIds), owner, leaseMs, limit };
      const taken = await commit("leases.take", () => session.run("take leases", takeLeases, values));
      const leases = taken.map((job) => ({ job, fence: job.fence }));
      return leases.sort((a, b) => a.job.createdAt.getTime() - b.job.createdAt.getTime());
    },
    async renewLeases(owner, leaseMs) {
      const held = await commit("leases.renew", () => session.run("renew leases", renewLeases, { owner, leaseMs }));
      return held.map(({ key }) => key);
    },
    async releaseLeases(owner) {
      await commit("leases.release", () => session.run("release leases", releaseLeases, { owner }));
    },
  };
}

const owner = sql`${sql.placeholder("owner")}`;
const leaseUntil = sql`now() + ${sql.placeholder("leaseMs")} * interval '1 millisecond'`;
const isRunning = eq(jobs.status, "running");

/** A holder is dead once nobody holds its advisory lock; its lease need not run out first. */
const isHolderDead = sql`not exists (
  select 1 from pg_locks
  where locktype = 'advisory' and granted and objsubid = 1
    and ((classid::bigint << 32) | objid::bigint)
      = ('x' || substr(encode(sha256(${jobs.leaseOwner}::bytea), 'hex'), 1, 16))::bit(64)::bigint
)`;

function takeLeases(db: NodePgDatabase) {
  const isFree = or(
    isNull(jobs.leaseOwner),
    lt(jobs.leaseUntil, sql`now()`),
    and(ne(jobs.leaseOwner, owner), isHolderDead),
  );
  const free = db
    .select({ key: jobs.key })
    .from(jobs)
    .where(and(isRunning, inProjects(jobs.projectId), isFree))
    .orderBy(jobs.createdAt)
    .limit(sql.placeholder("limit"))
    .for("update", { skipLocked: true });
  const lease = { leaseOwner: owner, leaseUntil, fence: sql`${jobs.fence} + 1` };
  return db.update(jobs).set(lease).where(inArray(jobs.key, free)).returning();
}

const renewLeases = (db: NodePgDatabase) =>
  db
    .update(jobs)
    .set({ leaseUntil })
    .where(and(eq(jobs.leaseOwner, owner), isRunning, gt(jobs.leaseUntil, sql`now()`)))
    .returning({ key: jobs.key });

const releaseLeases = (db: NodePgDatabase) =>
  db.update(jobs).set({ leaseOwner: null, leaseUntil: null }).where(eq(jobs.leaseOwner, owner));
