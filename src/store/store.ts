import { createHash } from "node:crypto";
import { and, inArray, isNull, sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import type { Pool } from "pg";
import { type IdSource, randomIds } from "../domain/ids.ts";
import { createKeptPlans, type KeptColumn } from "./kept-column.ts";
import type { BuildRow, JobLease, JobRow, ProjectRow, Rows, Store, StoreTransaction, Tables } from "./port.ts";
import { type Db, type Keeping, rowsOf } from "./rows.ts";
import * as schema from "./schema.ts";

function tablesOf(db: Db, plans: Keeping) {
  return {
    tenants: rowsOf(db, schema.tenants),
    projects: rowsOf<ProjectRow, typeof schema.projects.$inferInsert>(db, schema.projects),
    sandboxes: rowsOf(db, schema.sandboxes),
    builds: rowsOf<BuildRow, typeof schema.builds.$inferInsert>(db, schema.builds, plans),
    tasks: rowsOf(db, schema.tasks),
    dependencies: rowsOf(db, schema.dependencies),
    waves: rowsOf(db, schema.waves),
    waveTasks: rowsOf(db, schema.waveTasks),
    attempts: rowsOf(db, schema.attempts),
    gateRuns: rowsOf(db, schema.gateRuns),
    findings: rowsOf(db, schema.findings),
    approvals: rowsOf(db, schema.approvals),
    jobs: rowsOf(db, schema.jobs),
    logChunks: rowsOf(db, schema.logChunks),
    previews: rowsOf(db, schema.previews),
    restorePoints: rowsOf(db, schema.restorePoints),
    outbox: rowsOf(db, schema.outbox),
  } satisfies Tables;
}

function transactionOf(db: Db, column: KeptColumn): StoreTransaction {
  const tables = tablesOf(db, { column, mayKeep: false });
  return {
    ...tables,
    lockBuild: (id) => tables.builds.lock({ id }),
    lockProject: (id) => tables.projects.lock({ id }),
    async emit(event) {
      const { id: eventId, name, data, projectId, buildId } = event;
      await tables.outbox.insertIfAbsent({ eventId, name, data, projectId, buildId });
    },
  };
}

/** A number for Postgres advisory locks from a name. */
export function advisoryKey(name: string): bigint {
  return createHash("sha256").update(name).digest().readBigInt64BE(0);
}

const outboxLock = advisoryKey("wavesmith:outbox");
const repeatable = new Set(["40001", "40P01"]);
const codeOf = (error: unknown): string | undefined => {
  const { code, cause } = error as { code?: string; cause?: unknown };
  return code ?? (cause === undefined ? undefined : codeOf(cause));
};

/** The store over a pool whose database is migrated. */
export function createStore(
  pool: Pool,
  options: { crashPoint?: (name: string) => void | Promise<void>; ids?: IdSource } = {},
): Store {
  const db = drizzle(pool);
  const plans = createKeptPlans();
  const tables = tablesOf(db, { column: plans, mayKeep: true });
  const crashPoint = options.crashPoint ?? (() => undefined);
  const commit = async <Result>(name: string, work: () => Promise<Result>): Promise<Result> => {
    await crashPoint(`${name}.before-commit`);
    const result = await work();
    await crashPoint(`${name}.after-commit`);
    return result;
  };
  const transaction: Store["transaction"] = async (name, work) => {
    for (let attempt = 1; ; attempt += 1) {
      try {
        const result = await db.transaction(async (tx) => {
          const value = await work(transactionOf(tx as unknown as Db, plans));
          await crashPoint(`${name}.before-commit`);
          return value;
        });
        await crashPoint(`${name}.after-commit`);
        return result;
      } catch (error) {
        if (attempt >= 5 || !repeatable.has(codeOf(error) ?? "")) throw error;
      }
    }
  };
  return {
    ...(options.crashPoint === undefined ? tables : committing(tables, commit)),
    transaction,
    ...processRegistry(pool),
    ...leases(db, commit),
    async installationId() {
      await db
        .insert(schema.installations)
        .values({ id: (options.ids ?? randomIds)("installation") })
        .onConflictDoNothing();
      const rows = await db.execute<{ id: string }>(sql`select id from installations order by created_at, id limit 1`);
      return rows.rows[0]!.id;
    },
    async unfinishedProjects() {
      const { rows } = await db.execute<{ project_id: string }>(
        sql`select distinct project_id from builds where status in ('queued', 'running', 'cancelling')`,
      );
      return rows.map((row) => row.project_id);
    },
    async drainOutbox(projectIds, deliver) {
      const { outbox } = schema;
      const ofThese = projectIds === "all" ? undefined : inArray(outbox.projectId, [...projectIds]);
      const unsent = and(isNull(outbox.sentAt), ofThese);
      // Most looks find nothing, and those need no lock.
      if ((await db.select({ seq: outbox.seq }).from(outbox).where(unsent).limit(1)).length === 0) return 0;
      const sent = await db.transaction(async (tx) => {
        // One process at a time, so that events leave in the order in which they were committed.
        await tx.execute(sql`select pg_advisory_xact_lock(${outboxLock})`);
        const rows = await tx.select().from(outbox).where(unsent).orderBy(outbox.seq).limit(200);
        if (rows.length === 0) return 0;
        await deliver(rows);
        const seqs = rows.map((row) => row.seq);
        await tx.update(outbox).set({ sentAt: new Date() }).where(inArray(outbox.seq, seqs));
        await crashPoint("outbox.drain.before-commit");
        return seqs.length;
      });
      if (sent > 0) await crashPoint("outbox.drain.after-commit");
      return sent;
    },
  };
}

type Commit = <Result>(name: string, work: () => Promise<Result>) => Promise<Result>;

/** Tables whose single statements, each a commit of its own, have crash points around them. */
function committing(tables: Tables, commit: Commit): Tables {
  const wrapped = Object.entries(tables as unknown as Record<string, Rows<object, object>>).map(([name, rows]) => {
    const { insert, insertMany, insertIfAbsent, update, remove } = rows;
    const own: Rows<object, object> = {
      ...rows,
      insert: (row) => commit(`${name}.insert`, () => insert(row)),
      insertMany: (all) => commit(`${name}.insertMany`, () => insertMany(all)),
      insertIfAbsent: (row) => commit(`${name}.insertIfAbsent`, () => insertIfAbsent(row)),
      update: (where, patch) => commit(`${name}.update`, () => update(where, patch)),
      remove: (where) => commit(`${name}.remove`, () => remove(where)),
    };
    return [name, own];
  });
  return Object.fromEntries(wrapped) as Tables;
}

function leases(db: Db, commit: Commit): Pick<Store, "leaseJobs" | "renewLeases" | "releaseLeases"> {
  const jobs = rowsOf<JobRow, typeof schema.jobs.$inferInsert>(db, schema.jobs);
  return {
    async leaseJobs({ projectIds, owner, leaseMs, limit }) {
      const mine = projectIds === "all" ? sql`true` : sql`project_id = any(${sql.param([...projectIds])})`;
      // A holder is dead when nobody holds its advisory lock; then its lease need not run out first.
      const take = () =>
        db.execute<{ key: string; fence: number }>(sql`
        update jobs set lease_owner = ${owner}, lease_until = now() + ${`${leaseMs} milliseconds`}::interval, fence = fence + 1
        where key in (
          select key from jobs
          where status = 'running' and ${mine}
            and (lease_owner is null or lease_until < now() or (lease_owner <> ${owner} and not exists (
              select 1 from pg_locks
              where locktype = 'advisory' and granted and objsubid = 1
                and ((classid::bigint << 32) | objid::bigint) = ('x' || substr(encode(sha256(lease_owner::bytea), 'hex'), 1, 16))::bit(64)::bigint
            )))
          order by created_at limit ${limit} for update skip locked
        ) returning key, fence`);
      const taken = await commit("leases.take", take);
      const leased: JobLease[] = [];
      for (const row of taken.rows) leased.push({ job: await jobs.get({ key: row.key }), fence: row.fence });
      return leased;
    },
    async renewLeases(owner, leaseMs) {
      const renew = () =>
        db.execute<{ key: string }>(sql`
        update jobs set lease_until = now() + ${`${leaseMs} milliseconds`}::interval
        where lease_owner = ${owner} and status = 'running' and lease_until > now() returning key`);
      const held = await commit("leases.renew", renew);
      return held.rows.map((row) => row.key);
    },
    async releaseLeases(owner) {
      await commit("leases.release", () =>
        db.execute(sql`update jobs set lease_owner = null, lease_until = null where lease_owner = ${owner}`),
      );
    },
  };
}

function processRegistry(pool: Pool): Pick<Store, "registerProcess"> {
  return {
    async registerProcess(ownerId) {
      const client = await pool.connect();
      // A broken connection frees the lock: then our leases may be taken by others, and fences keep that safe.
      client.on("error", () => undefined);
      await client.query("select pg_advisory_lock($1)", [advisoryKey(ownerId).toString()]);
      return {
        async release() {
          await client.query("select pg_advisory_unlock_all()").catch(() => undefined); // the connection may be gone: so is the lock
          client.release(true);
        },
      };
    },
  };
}
