import { createHash } from "node:crypto";
import type { Pool, PoolClient } from "pg";
import { WavesmithError } from "../domain/errors.ts";
import { type IdSource, randomIds } from "../domain/ids.ts";
import type { Spending, SpendingSum } from "../domain/models.ts";
import { holdSession } from "./held-session.ts";
import { createKeptPlans, type KeptColumn } from "./kept-column.ts";
import { createLocks } from "./locks.ts";
import { ConnectionLost } from "./lost-connection.ts";
import { reserveModelCall } from "./model-calls.ts";
import type { AttemptInContext, BuildRow, JobRow, ProjectRow, Rows, Store, StoreTransaction, Tables } from "./port.ts";
import { type Keeping, type Queryable, rowsOf } from "./rows.ts";
import * as schema from "./schema.ts";
import { prepared } from "./statements.ts";

function tablesOf(db: Queryable, plans: Keeping | null) {
  return {
    tenants: rowsOf(db, schema.tenants),
    projects: rowsOf<ProjectRow, typeof schema.projects.$inferInsert>(db, schema.projects),
    sandboxes: rowsOf(db, schema.sandboxes),
    snapshots: rowsOf(db, schema.snapshots),
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
    questions: rowsOf(db, schema.questions),
    logChunks: rowsOf(db, schema.logChunks),
    previews: rowsOf(db, schema.previews),
    restorePoints: rowsOf(db, schema.restorePoints),
    buildSpending: rowsOf(db, schema.buildSpending),
    modelCalls: rowsOf(db, schema.modelCalls),
    outbox: rowsOf(db, schema.outbox),
  } satisfies Tables;
}

function transactionOf(db: Queryable, column: KeptColumn, onEmit: () => void): StoreTransaction {
  const tables = tablesOf(db, { column, mayKeep: false });
  return {
    ...tables,
    attemptInContext: (id) => attemptInContext(db, tables, id),
    modelSpending: (buildId) => modelSpending(db, buildId),
    tenantSpending: (tenantId) => tenantSpending(db, tenantId),
    lockBuild: (id) => tables.builds.lock({ id }),
    lockProject: (id) => tables.projects.lock({ id }),
    lockTenant: (id) => tables.tenants.lock({ id }),
    lockMachine: async () => void (await db.query("select pg_advisory_xact_lock($1)", [machineLock.toString()])),
    async lockSpending(buildId) {
      const lock = () => tables.buildSpending.lock({ buildId });
      return lock().catch(async (error: unknown) => {
        if (!(error instanceof WavesmithError) || error.code !== "not-found") throw error;
        // A build's first call.
        await tables.buildSpending.insertIfAbsent({ buildId });
        return lock();
      });
    },
    async emit(event) {
      const { id: eventId, name, data, projectId, buildId } = event;
      onEmit();
      await tables.outbox.insertIfAbsent({ eventId, name, data, projectId, buildId });
    },
  };
}

/** One statement for what would be four: every step of a task begins with it. */
async function attemptInContext(
  db: Queryable,
  { attempts, builds, waves, tasks }: ReturnType<typeof tablesOf>,
  id: string,
): Promise<AttemptInContext> {
  const parts = [attempts, builds, waves, tasks].map(({ joining }, index) => joining.columns(`t${index}`));
  const text = `select ${parts.join(", ")} from attempts t0 join builds t1 on t1.id = t0.build_id
    join waves t2 on t2.id = t0.wave_id left join tasks t3 on t3.id = t0.task_id where t0.id = $1`;
  const { rows } = await db.query<unknown[]>({ ...prepared(text), values: [id], rowMode: "array" });
  if (rows[0] === undefined) throw new WavesmithError("not-found", `there is no attempt ${id}`);
  const left = [...rows[0]];
  const [attempt, build, wave, task] = [
    await attempts.joining.read(left.splice(0, attempts.joining.count)),
    await builds.joining.read(left.splice(0, builds.joining.count)),
    await waves.joining.read(left.splice(0, waves.joining.count)),
    await tasks.joining.read(left),
  ];
  return { attempt: attempt!, build: build!, wave: wave!, task };
}

/** A build may make tens of thousands of calls: they are added up where they are. */
async function modelSpending(db: Queryable, buildId: string): Promise<ReadonlyMap<string, Spending>> {
  const text = `select owner_id, count(*) calls, count(*) filter (where status = 'open') open_calls,
      count(*) filter (where status = 'waiting') waiting_calls, count(*) filter (where estimated) estimated_calls,
      sum(counted) tokens, sum(coalesce(input_tokens, 0)) input_tokens, sum(coalesce(cached_tokens, 0)) cached_tokens,
      sum(coalesce(output_tokens, 0)) output_tokens, sum(coalesce(micro_usd, 0)) micro_usd,
      count(*) filter (where counted > 0 and micro_usd is null) unpriced_calls
    from (select *, case when input_tokens is not null then input_tokens + coalesce(output_tokens, 0)
        when status in ('done', 'cut') then reserved_tokens else 0 end counted
      from model_calls where build_id = $1) calls group by owner_id`;
  const { rows } = await db.query<Record<string, string>>({ ...prepared(text), values: [buildId] });
  return new Map(
    rows.map((row) => [
      row.owner_id!,
      {
        calls: Number(row.calls),
        openCalls: Number(row.open_calls),
        waitingCalls: Number(row.waiting_calls),
        estimatedCalls: Number(row.estimated_calls),
        tokens: Number(row.tokens),
        inputTokens: Number(row.input_tokens),
        cachedTokens: Number(row.cached_tokens),
        outputTokens: Number(row.output_tokens),
        microUsd: Number(row.micro_usd),
        unpricedCalls: Number(row.unpriced_calls),
      },
    ]),
  );
}

async function tenantSpending(db: Queryable, tenantId: string): Promise<SpendingSum> {
  const text = `select coalesce(sum(spent_tokens), 0) tokens, coalesce(sum(spent_micro_usd), 0) micro_usd,
      coalesce(sum(unpriced_calls), 0) unpriced_calls
    from build_spending join builds on builds.id = build_id where tenant_id = $1`;
  const { rows } = await db.query<Record<string, string>>({ ...prepared(text), values: [tenantId] });
  const { tokens, micro_usd: microUsd, unpriced_calls: unpricedCalls } = rows[0]!;
  return { tokens: Number(tokens), microUsd: Number(microUsd), unpricedCalls: Number(unpricedCalls) };
}

/** A number for Postgres advisory locks from a name. */
function advisoryKey(name: string): bigint {
  return createHash("sha256").update(name).digest().readBigInt64BE(0);
}

const outboxLock = advisoryKey("wavesmith:outbox");
const machineLock = advisoryKey("wavesmith:machine");
const repeatable = new Set(["40001", "40P01"]);
const codeOf = (error: unknown): string | undefined => {
  const { code, cause } = error as { code?: string; cause?: unknown };
  return code ?? (cause === undefined ? undefined : codeOf(cause));
};

/**
 * Runs `work` between `begin` and `commit` on a client of its own; whatever it throws rolls back.
 */
async function inTransaction<Result>(
  pool: Pool,
  work: (client: PoolClient) => Promise<Result>,
  begin = "begin",
): Promise<Result> {
  const client = await pool.connect();
  let broken: Error | undefined;
  let isCommitting = false;
  try {
    await client.query(begin);
    const result = await work(client);
    isCommitting = true;
    await client.query("commit");
    return result;
  } catch (error) {
    // A client that cannot roll back is thrown away, which rolls back as well.
    await client.query("rollback").catch((failure: Error) => {
      broken = failure;
    });
    if (error instanceof ConnectionLost) error.isUndone = broken !== undefined && !isCommitting;
    throw error;
  } finally {
    client.release(broken);
  }
}

/** The store over a pool whose database is migrated. */
export function createStore(
  pool: Pool,
  options: { crashPoint?: (name: string) => void | Promise<void>; ids?: IdSource } = {},
): Store {
  const plans = createKeptPlans();
  const unsent = createUnsent();
  const tables = tablesOf(pool, { column: plans, mayKeep: true });
  const crashPoint = options.crashPoint ?? (() => undefined);
  const commit = async <Result>(name: string, work: () => Promise<Result>): Promise<Result> => {
    await crashPoint(`${name}.before-commit`);
    const result = await work();
    await crashPoint(`${name}.after-commit`);
    return result;
  };
  const transaction: Store["transaction"] = async (name, work) => {
    for (let attempt = 1; ; attempt += 1) {
      let emits = false;
      const onEmit = () => {
        emits = true;
      };
      try {
        const result = await inTransaction(pool, async (client) => {
          const value = await work(transactionOf(client, plans, onEmit));
          await crashPoint(`${name}.before-commit`);
          return value;
        });
        await crashPoint(`${name}.after-commit`);
        return result;
      } catch (error) {
        const isUndone = error instanceof ConnectionLost && error.isUndone;
        if (attempt >= 5 || !(isUndone || repeatable.has(codeOf(error) ?? ""))) throw error;
      } finally {
        // Also of one that failed: its commit may have succeeded unheard.
        if (emits) unsent.expect();
      }
    }
  };
  return {
    ...(options.crashPoint === undefined ? tables : committing(tables, commit)),
    transaction,
    attemptInContext: (id) => attemptInContext(pool, tables, id),
    modelSpending: (buildId) => modelSpending(pool, buildId),
    tenantSpending: (tenantId) => tenantSpending(pool, tenantId),
    reserveModelCall: (call, limits) => commit("reserve-model-call", () => reserveModelCall(pool, call, limits)),
    ...processRegistry(pool),
    ...createLocks(pool, (name) => advisoryKey(`wavesmith:alone:${name}`)),
    ...leases(pool, commit),
    drainOutbox: drainOf(pool, unsent, crashPoint),
    async installationId() {
      const id = (options.ids ?? randomIds)("installation");
      await pool.query("insert into installations (id) select $1 where not exists (select from installations)", [id]);
      const { rows } = await pool.query<{ id: string }>("select id from installations order by created_at, id limit 1");
      return rows[0]!.id;
    },
    async modelSecret(fresh) {
      await this.installationId();
      const { rows } = await pool.query<{ model_secret: string }>(
        `update installations set model_secret = coalesce(model_secret, $1)
         where id = (select id from installations order by created_at, id limit 1) returning model_secret`,
        [fresh],
      );
      return rows[0]!.model_secret;
    },
    async unfinishedProjects() {
      const { rows } = await pool.query<{ project_id: string }>(
        "select distinct project_id from builds where status in ('queued', 'running', 'cancelling')",
      );
      return rows.map((row) => row.project_id);
    },
    async lostRequests(projectIds, sentBefore) {
      const { rows } = await pool.query<{ seq: string }>({
        ...prepared(lostRequestsText),
        values: [sentBefore, projectIds === "all" ? null : projectIds],
      });
      return rows.length === 0 ? [] : tables.outbox.list({ seq: rows.map(({ seq }) => Number(seq)) }, { by: "seq" });
    },
  };
}

/** A repetition (`again:…`) is looked for by its original. */
const lostRequestsText = `select seq from outbox where name = 'project/build.requested' and build_id is null
  and sent_at < $1 and sent_at > $1::timestamptz - interval '7 days' and event_id not like 'again:%'
  and ($2::text[] is null or project_id = any($2::text[]))
  and not exists (select from builds where builds.event_id = outbox.event_id)`;

const lookAgainMs = 500;
const mostAtOnce = 200;

/**
 * Whether a look at the outbox can be spared: this process sends what it emits, and looks for what
 * others left.
 */
interface Unsent {
  /** This process has committed events. */
  expect(): void;
  /** Whether to look; from then on there is none, until `expect` or for half a second. */
  shouldLook(projectIds: readonly string[] | "all"): "surely" | "perhaps" | "no";
}

function createUnsent(): Unsent {
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

function drainOf(
  pool: Pool,
  expected: Unsent,
  crashPoint: (name: string) => void | Promise<void>,
): Store["drainOutbox"] {
  const looking = tablesOf(pool, null).outbox;
  const text = `${markSent}${looking.joining.columns("outbox")}`;
  // Each statement sees what was committed before it, so the look comes after the lock. One process
  // at a time, so that events leave in the order in which they were committed.
  const begin = `begin; select pg_advisory_xact_lock(${outboxLock})`;
  return async (projectIds, deliver) => {
    const should = expected.shouldLook(projectIds);
    if (should === "no") return 0;
    const unsent = { sentAt: null, ...(projectIds === "all" ? {} : { projectId: [...projectIds] }) };
    const drain = async (client: PoolClient): Promise<number> => {
      const values = [new Date(), projectIds === "all" ? null : [...projectIds], mostAtOnce];
      const marked = await client.query<unknown[]>({ ...prepared(text), values, rowMode: "array" });
      if (marked.rows.length === 0) return 0;
      const rows = await Promise.all(marked.rows.map((row) => looking.joining.read(row)));
      await deliver(rows.map((row) => row!).sort((a, b) => a.seq - b.seq));
      await crashPoint("outbox.drain.before-commit");
      return rows.length;
    };
    try {
      // Looks on a mere chance find nothing mostly, and those need no lock.
      if (should === "perhaps" && (await looking.pick(unsent, ["seq"], { by: "seq", limit: 1 })).length === 0) return 0;
      const sent = await inTransaction(pool, drain, begin);
      if (sent === mostAtOnce) expected.expect();
      if (sent > 0) await crashPoint("outbox.drain.after-commit");
      return sent;
    } catch (error) {
      expected.expect();
      throw error;
    }
  };
}

/** Events are marked before they are sent: what cannot be sent rolls that back. */
const markSent = `
  update outbox set sent_at = $1 where seq in (
    select seq from outbox where sent_at is null and ($2::text[] is null or project_id = any($2))
    order by seq limit $3
  ) returning `;

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

/** A holder is dead when nobody holds its advisory lock; then its lease need not run out first. */
const takeLeases = `
  update jobs set lease_owner = $2, lease_until = now() + $3 * interval '1 millisecond', fence = fence + 1
  where key in (
    select key from jobs
    where status = 'running' and ($1::text[] is null or project_id = any($1))
      and (lease_owner is null or lease_until < now() or (lease_owner <> $2 and not exists (
        select 1 from pg_locks
        where locktype = 'advisory' and granted and objsubid = 1
          and ((classid::bigint << 32) | objid::bigint) = ('x' || substr(encode(sha256(lease_owner::bytea), 'hex'), 1, 16))::bit(64)::bigint
      )))
    order by created_at limit $4 for update skip locked
  ) returning `;

const renewLeases = `
  update jobs set lease_until = now() + $2 * interval '1 millisecond'
  where lease_owner = $1 and status = 'running' and lease_until > now() returning key`;

function leases(pool: Pool, commit: Commit): Pick<Store, "leaseJobs" | "renewLeases" | "releaseLeases"> {
  const jobs = rowsOf<JobRow, typeof schema.jobs.$inferInsert>(pool, schema.jobs);
  return {
    async leaseJobs({ projectIds, owner, leaseMs, limit }) {
      const values = [projectIds === "all" ? null : [...projectIds], owner, leaseMs, limit];
      const text = `${takeLeases}${jobs.joining.columns("jobs")}`;
      const taken = await commit("leases.take", () =>
        pool.query<unknown[]>({ ...prepared(text), values, rowMode: "array" }),
      );
      const rows = await Promise.all(taken.rows.map((row) => jobs.joining.read(row)));
      const leased = rows.map((job) => ({ job: job!, fence: job!.fence }));
      return leased.sort((a, b) => a.job.createdAt.getTime() - b.job.createdAt.getTime());
    },
    async renewLeases(owner, leaseMs) {
      const held = await commit("leases.renew", () =>
        pool.query<{ key: string }>({ ...prepared(renewLeases), values: [owner, leaseMs] }),
      );
      return held.rows.map((row) => row.key);
    },
    async releaseLeases(owner) {
      const release = "update jobs set lease_owner = null, lease_until = null where lease_owner = $1";
      await commit("leases.release", () => pool.query(release, [owner]));
    },
  };
}

function processRegistry(pool: Pool): Pick<Store, "registerProcess"> {
  return {
    async registerProcess(ownerId) {
      const session = await holdSession(pool, {
        text: "select pg_advisory_lock($1)",
        values: [advisoryKey(ownerId).toString()],
      });
      return { release: () => session.end() };
    },
  };
}
