import { getTableColumns, SQL } from "drizzle-orm";
import { getTableConfig, type PgTable } from "drizzle-orm/pg-core";
import { WavesmithError } from "../../src/domain/errors.ts";
import { nothingSpent, type Spending, totalSpending } from "../../src/domain/models.ts";
import type { JobLease, JobRow, OutboxRow, Rows, Store, StoreTransaction, Tables } from "../../src/store/port.ts";
import * as schema from "../../src/store/schema.ts";

// The store's port in memory, for tests that need thousands of builds. Keys, defaults and checks
// are read from the schema of the tables in Postgres. Transactions run one after another, and one
// that fails changes nothing. tests/contract/store.test.ts checks it and the real store for the
// same promises.

type AnyRow = Record<string, unknown>;

/**
 * The conditions of partial indexes and checks are SQL in Postgres and are repeated here. A name
 * that is missing here is an error.
 */
const partial: Record<string, (row: AnyRow) => boolean> = {
  one_sandbox_per_project: (row) => row.state !== "removed",
  one_running_build_per_project: (row) => ["running", "waiting", "cancelling"].includes(String(row.status)),
  one_live_wave_per_build: (row) => ["running", "joining", "gating", "fixing", "waiting"].includes(String(row.status)),
  one_live_attempt_per_task: (row) => row.status !== "settled" && row.taskId !== null,
  one_live_attempt_on_a_wave_head: (row) => row.status !== "settled" && row.taskId === null,
  one_live_gate_per_wave: (row) => row.status !== "finished",
};

const ended = new Set<unknown>(["completed", "failed", "cancelled"]);
const checks: Record<string, (row: AnyRow) => boolean> = {
  build_ended: (row) => ended.has(row.status) === (row.endedAt !== null),
  build_completed_has_head: (row) => row.status !== "completed" || row.headSha !== null,
  wave_passed_has_sha: (row) => row.status !== "passed" || (row.headSha !== null && row.passedAt !== null),
  wave_delivered_was_passed: (row) => row.deliveredAt === null || row.status === "passed",
  task_in_wave: (row) =>
    !["assigned", "running", "joining", "completed"].includes(String(row.status)) || row.waveId !== null,
  no_self_dependency: (row) => row.taskId !== row.dependsOnId,
  attempt_settled: (row) => (row.status === "settled") === (row.outcome !== null),
  attempt_kind: (row) => (row.kind === "task") === (row.taskId !== null),
  gate_finished: (row) => (row.status === "finished") === (row.verdict !== null),
  gate_passed_has_evidence: (row) => row.verdict !== "passed" || row.evidence !== null,
  model_call_ended: (row) => (row.status === "open" || row.status === "waiting") === (row.endedAt === null),
  snapshot_kept_has_checksum: (row) => row.state !== "kept" || (row.sha256 !== null && row.sizeBytes !== null),
  question_answered: (row) => (row.answer === null) === (row.answeredAt === null),
  message_numbered_has_attempt: (row) => row.number === null || row.attemptId !== null,
  comment_given_has_attempt: (row) => row.state !== "given" || row.attemptId !== null,
  comment_settled: (row) => (row.state === "resolved" || row.state === "superseded") === (row.settledAt !== null),
  approval_rejected_has_reason: (row) => row.decision === "approved" || row.reason !== null,
};
/** Lists of words, which TypeScript checks. */
const enumerations =
  /^(build|wave|task|attempt|job|model_call)_(status|outcome|owner|ending)$|^(sandbox_state|snapshot_state|snapshot_reason|snapshot_format|gate_name|gate_verdict|finding_severity|approval_decision|question_answer|api_key_scope|session_kind|audit_via|comment_state|notification_status|ci_check_conclusion|schedule_(status|origin)|pull_request_(status|merge_state))$/;

interface Unique {
  readonly name: string;
  readonly columns: readonly string[];
  readonly holds: (row: AnyRow) => boolean;
}

interface Shape {
  readonly name: string;
  readonly defaults: Readonly<Record<string, unknown>>;
  readonly serial: string | null;
  readonly moments: readonly string[];
  readonly uniques: readonly Unique[];
  readonly checks: readonly { name: string; holds: (row: AnyRow) => boolean }[];
}

const tables = {
  tenants: schema.tenants,
  apiKeys: schema.apiKeys,
  sessions: schema.sessions,
  auditEntries: schema.auditEntries,
  projects: schema.projects,
  sandboxes: schema.sandboxes,
  snapshots: schema.snapshots,
  builds: schema.builds,
  tasks: schema.tasks,
  dependencies: schema.dependencies,
  waves: schema.waves,
  waveTasks: schema.waveTasks,
  attempts: schema.attempts,
  gateRuns: schema.gateRuns,
  findings: schema.findings,
  messages: schema.messages,
  comments: schema.comments,
  approvals: schema.approvals,
  jobs: schema.jobs,
  questions: schema.questions,
  logChunks: schema.logChunks,
  previews: schema.previews,
  restorePoints: schema.restorePoints,
  rollbacks: schema.rollbacks,
  schedules: schema.schedules,
  notifications: schema.notifications,
  pullRequests: schema.pullRequests,
  forgeCalls: schema.forgeCalls,
  webhookDeliveries: schema.webhookDeliveries,
  ciChecks: schema.ciChecks,
  buildSpending: schema.buildSpending,
  modelCalls: schema.modelCalls,
  outbox: schema.outbox,
} satisfies Record<keyof Tables, PgTable>;

const shapes = Object.fromEntries(Object.entries(tables).map(([name, table]) => [name, shapeOf(table)])) as Record<
  keyof Tables,
  Shape
>;

function shapeOf(table: PgTable): Shape {
  const config = getTableConfig(table);
  const columns = Object.entries(getTableColumns(table));
  const keyOf = new Map(columns.map(([key, column]) => [column.name, key]));
  const keysOf = (list: readonly { name?: string }[]) => list.map((column) => keyOf.get(column.name!)!);
  const always = () => true;
  const uniques = [
    ...columns
      .filter(([, column]) => column.primary || column.isUnique)
      .map(([key]) => ({ name: `${config.name}.${key}`, columns: [key], holds: always })),
    ...config.primaryKeys.map((key) => ({ name: key.getName(), columns: keysOf(key.columns), holds: always })),
    ...config.uniqueConstraints.map((key) => ({
      name: key.name ?? config.name,
      columns: keysOf(key.columns),
      holds: always,
    })),
    ...config.indexes
      .filter((index) => index.config.unique)
      .map(({ config: { name, columns, where } }) => ({
        name: name!,
        columns: keysOf(columns as { name?: string }[]),
        holds: where === undefined ? always : (partial[name!] ?? unknown(`index ${name}`)),
      })),
  ];
  return {
    name: config.name,
    defaults: Object.fromEntries(
      columns.map(([key, column]) => [key, column.default instanceof SQL ? null : (column.default ?? null)]),
    ),
    moments: columns.filter(([, column]) => column.default instanceof SQL).map(([key]) => key),
    serial: columns.find(([, column]) => column.columnType.startsWith("PgBigSerial"))?.[0] ?? null,
    uniques,
    checks: config.checks
      .filter(({ name }) => !enumerations.test(name))
      .map(({ name }) => ({ name, holds: checks[name] ?? unknown(`check ${name}`) })),
  };
}

function unknown(what: string): never {
  throw new Error(`tests/support/memory-store.ts does not know the ${what}`);
}

/** The state that several processes' stores share. */
export interface MemoryDatabase {
  /** Opens one process's store. */
  connect(process?: MemoryProcess): Store;
  /** The rows as they are, for checks. */
  readonly rows: { readonly [Name in keyof Tables]: () => readonly AnyRow[] };
}

export interface MemoryProcess {
  /** Awaited before every statement or transaction, so that a test decides who goes on. */
  readonly turn?: (name: string) => Promise<void>;
  /** Called in a transaction before it commits, and after a single statement. */
  readonly committing?: (name: string) => void;
  /** The process that holds its locks: a dead process's locks are free. */
  readonly owner?: string;
}

interface Holder {
  readonly owner: string | undefined;
}

export function createMemoryDatabase(options: {
  now: () => Date;
  isAlive?: (owner: string) => boolean;
}): MemoryDatabase {
  const data = Object.fromEntries(Object.keys(tables).map((name) => [name, [] as AnyRow[]])) as Record<
    keyof Tables,
    AnyRow[]
  >;
  const serials: Record<string, number> = {};
  let undo: Map<keyof Tables, AnyRow[]> | null = null;

  /** Returns the rows to write to, after a transaction has saved what they were. */
  const written = (name: keyof Tables): AnyRow[] => {
    if (undo !== null && !undo.has(name)) undo.set(name, [...data[name]]);
    return data[name];
  };
  const rows = (name: keyof Tables) =>
    rowsOf(shapes[name], { read: () => data[name], written, name, serials, options });
  const holders = new Map<string, Holder>();
  let last: Promise<unknown> = Promise.resolve();
  const atomically = <T>(work: () => Promise<T>): Promise<T> => {
    const mine = last.then(() => alone(work));
    last = mine.catch(() => undefined); // the caller gets the error
    return mine;
  };
  const alone = async <T>(work: () => Promise<T>): Promise<T> => {
    undo = new Map();
    try {
      return await work();
    } catch (error) {
      for (const [name, before] of undo) data[name] = before;
      throw error;
    } finally {
      undo = null;
    }
  };
  return {
    rows: Object.fromEntries(Object.keys(tables).map((name) => [name, () => data[name as keyof Tables]])) as never,
    connect: (process = {}) => storeOf({ data, rows, atomically, holders, options }, process),
  };
}

interface Shared {
  readonly data: Record<keyof Tables, AnyRow[]>;
  readonly rows: (name: keyof Tables) => Rows<AnyRow, AnyRow>;
  atomically<T>(work: () => Promise<T>): Promise<T>;
  /** Holders of locks, by the name of the lock. */
  readonly holders: Map<string, Holder>;
  readonly options: { readonly now: () => Date; readonly isAlive?: (owner: string) => boolean };
}

const breath = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

function storeOf({ rows, atomically, holders, options }: Shared, process: MemoryProcess): Store {
  const { turn = async () => undefined, committing = () => undefined } = process;
  const alone = <T>(name: string, work: () => Promise<T>): Promise<T> =>
    turn(name).then(() =>
      atomically(async () => {
        const result = await work();
        committing(name);
        return result;
      }),
    );
  const inside = Object.fromEntries(
    Object.keys(tables).map((name) => [name, rows(name as keyof Tables)]),
  ) as unknown as Tables;
  const outside = Object.fromEntries(
    Object.entries(inside).map(([name, own]) => [
      name,
      Object.fromEntries(
        Object.entries(own as Record<string, (...args: unknown[]) => Promise<unknown>>).map(([method, call]) => [
          method,
          /^(find|get|list|pick)$/.test(method)
            ? async (...args: unknown[]) => {
                await turn(`${name}.${method}`);
                return call(...args);
              }
            : (...args: unknown[]) => alone(`${name}.${method}`, () => call(...args)),
        ]),
      ),
    ]),
  ) as unknown as Tables;
  const attemptInContext: Store["attemptInContext"] = async (id) => {
    const attempt = await inside.attempts.get({ id });
    return {
      attempt,
      build: await inside.builds.get({ id: attempt.buildId }),
      wave: await inside.waves.get({ id: attempt.waveId }),
      task: attempt.taskId === null ? null : await inside.tasks.get({ id: attempt.taskId }),
    };
  };
  const modelSpending: Store["modelSpending"] = async (buildId) => {
    const spent = new Map<string, Spending>();
    for (const call of await inside.modelCalls.list({ buildId })) {
      const known = call.inputTokens === null ? null : call.inputTokens + (call.outputTokens ?? 0);
      const tokens = known ?? (call.status === "done" || call.status === "cut" ? call.reservedTokens : 0);
      const one: Spending = {
        calls: 1,
        openCalls: call.status === "open" ? 1 : 0,
        waitingCalls: call.status === "waiting" ? 1 : 0,
        estimatedCalls: call.estimated ? 1 : 0,
        tokens,
        inputTokens: call.inputTokens ?? 0,
        cachedTokens: call.cachedTokens ?? 0,
        outputTokens: call.outputTokens ?? 0,
        microUsd: call.microUsd ?? 0,
        unpricedCalls: tokens > 0 && call.microUsd === null ? 1 : 0,
      };
      spent.set(call.ownerId, totalSpending([spent.get(call.ownerId) ?? nothingSpent, one]));
    }
    return spent;
  };
  const tenantSpending: Store["tenantSpending"] = async (tenantId) => {
    const builds = new Set((await inside.builds.list({ tenantId })).map(({ id }) => id));
    const rows = (await inside.buildSpending.list({})).filter(({ buildId }) => builds.has(buildId));
    const sum = (of: (row: (typeof rows)[number]) => number): number => rows.reduce((all, row) => all + of(row), 0);
    return {
      tokens: sum((row) => row.spentTokens),
      microUsd: sum((row) => row.spentMicroUsd),
      unpricedCalls: sum((row) => row.unpricedCalls),
    };
  };
  const transaction: StoreTransaction = {
    ...inside,
    attemptInContext,
    modelSpending,
    tenantSpending,
    lockBuild: (id) => inside.builds.get({ id }),
    lockProject: (id) => inside.projects.get({ id }),
    lockTenant: (id) => inside.tenants.get({ id }),
    // transactions run one after another
    lockRunningTasks: async () => undefined,
    lockMachine: async () => undefined,
    async lockSpending(buildId) {
      return (await inside.buildSpending.insertIfAbsent({ buildId })) ?? inside.buildSpending.get({ buildId });
    },
    report: async () => undefined,
    async emit({ id: eventId, name, data }) {
      const { projectId, buildId = null } = data;
      await inside.outbox.insertIfAbsent({ eventId, name, data, projectId, buildId });
    },
  };
  const ofProjects = (projectIds: readonly string[] | "all") => (row: { projectId: string }) =>
    projectIds === "all" || projectIds.includes(row.projectId);
  return {
    ...outside,
    transaction: (name, work) => alone(name, () => work(transaction)),
    async addedChecks(waveIds) {
      await turn("gateRuns.added");
      const runs = await inside.gateRuns.list({ waveId: [...waveIds] });
      return new Map(runs.flatMap(({ id, evidence }) => (evidence?.added == null ? [] : [[id, evidence.added]])));
    },
    async modelSpending(buildId) {
      await turn("modelCalls.spending");
      return modelSpending(buildId);
    },
    reserveModelCall: (call, { tokens, microUsd }) =>
      alone("reserve-model-call", async () => {
        const { buildId } = call;
        const row = await inside.buildSpending.find({ buildId });
        if (row === null) return false;
        const reservedTokens = row.reservedTokens + call.reservedTokens;
        const reservedMicroUsd = row.reservedMicroUsd + (call.reservedMicroUsd ?? 0);
        if (row.spentTokens + reservedTokens > (tokens ?? Number.POSITIVE_INFINITY)) return false;
        if (row.spentMicroUsd + reservedMicroUsd > (microUsd ?? Number.POSITIVE_INFINITY)) return false;
        await inside.buildSpending.update({ buildId }, { reservedTokens, reservedMicroUsd });
        await inside.modelCalls.insert(call);
        return true;
      }),
    async tenantSpending(tenantId) {
      await turn("buildSpending.tenant");
      return tenantSpending(tenantId);
    },
    async attemptInContext(id) {
      await turn("attempts.inContext");
      return attemptInContext(id);
    },
    async alone(name, work, { wait }) {
      const self: Holder = { owner: process.owner };
      const isFree = ({ owner }: Holder): boolean => owner !== undefined && options.isAlive?.(owner) === false;
      for (let holder = holders.get(name); holder !== undefined && !isFree(holder); holder = holders.get(name)) {
        if (!wait) return null;
        await (process.turn ?? breath)(`wait for ${name}`);
      }
      holders.set(name, self);
      try {
        return await work();
      } finally {
        if (holders.get(name) === self) holders.delete(name);
      }
    },
    installationId: async () => "inst_memory",
    modelSecret: async (fresh) => fresh,
    projectSpending: () => Promise.reject(new Error("only the dashboard asks for a project's spending")),
    unfinishedProjects: () =>
      alone("unfinishedProjects", async () => {
        const found = await inside.builds.list({ status: ["queued", "running", "cancelling"] });
        return [...new Set(found.map((build) => build.projectId))];
      }),
    lostRequests: async (projectIds, sentBefore) => {
      const rows = await inside.outbox.list({ name: "project/build.requested", buildId: null });
      const requested = new Set((await inside.builds.list({})).map(({ eventId }) => eventId));
      return rows.filter(({ eventId, sentAt, projectId }) => {
        const isTheirs = projectIds === "all" || projectIds.includes(projectId);
        return (
          isTheirs && sentAt !== null && sentAt < sentBefore && !/^again:/.test(eventId) && !requested.has(eventId)
        );
      });
    },
    leaseJobs: ({ projectIds, owner, leaseMs, limit }) =>
      alone("leases.take", async () => {
        const now = options.now();
        const free = (job: JobRow): boolean =>
          job.leaseOwner === null ||
          (job.leaseUntil !== null && job.leaseUntil < now) ||
          (job.leaseOwner !== owner && options.isAlive?.(job.leaseOwner) === false);
        const running = await inside.jobs.list({ status: "running" }, { by: "createdAt" });
        const leased: JobLease[] = [];
        for (const job of running.filter(ofProjects(projectIds)).filter(free).slice(0, limit)) {
          const lease = { leaseOwner: owner, leaseUntil: new Date(now.getTime() + leaseMs), fence: job.fence + 1 };
          const [taken] = await inside.jobs.update({ key: job.key }, lease);
          leased.push({ job: taken!, fence: taken!.fence });
        }
        return leased;
      }),
    renewLeases: (owner, leaseMs) =>
      alone("leases.renew", async () => {
        const now = options.now();
        const own = await inside.jobs.list({ leaseOwner: owner, status: "running" });
        const keys = own.filter((job) => job.leaseUntil !== null && job.leaseUntil > now).map((job) => job.key);
        await inside.jobs.update({ key: keys }, { leaseUntil: new Date(now.getTime() + leaseMs) });
        return keys;
      }),
    releaseLeases: (owner) =>
      alone("leases.release", async () => {
        await inside.jobs.update({ leaseOwner: owner }, { leaseOwner: null, leaseUntil: null });
      }),
    async drainOutbox(projectIds, deliver) {
      const unsent = await alone("outbox.drain", async () =>
        (await inside.outbox.list({ sentAt: null }, { by: "seq" })).filter(ofProjects(projectIds)).slice(0, 200),
      );
      if (unsent.length === 0) return 0;
      await deliver(unsent);
      await outside.outbox.update({ seq: unsent.map((row: OutboxRow) => row.seq) }, { sentAt: options.now() });
      return unsent.length;
    },
    registerProcess: async () => ({ release: async () => undefined }),
  };
}

interface Held {
  readonly name: keyof Tables;
  readonly read: () => readonly AnyRow[];
  readonly written: (name: keyof Tables) => AnyRow[];
  readonly serials: Record<string, number>;
  readonly options: { readonly now: () => Date };
}

function rowsOf(shape: Shape, held: Held): Rows<AnyRow, AnyRow> {
  const list: Rows<AnyRow, AnyRow>["list"] = async (where, order) => {
    const beyond = ({ by, descending, after }: NonNullable<typeof order>, row: AnyRow): boolean =>
      after === undefined || (descending === true ? compare(row[by], after) < 0 : compare(row[by], after) > 0);
    const matches = matching(shape, where);
    const found = held.read().filter((row) => matches(row) && (order === undefined || beyond(order, row)));
    if (order !== undefined) found.sort((one, other) => compare(one[order.by], other[order.by]));
    if (order?.descending === true) found.reverse();
    return order?.limit === undefined ? found : found.slice(0, order.limit);
  };
  const put = (row: AnyRow): AnyRow => {
    const made = withDefaults(shape, held, row);
    refuse(shape, made, held.read());
    held.written(held.name).push(made);
    return made;
  };
  return {
    list,
    pick: (where, _columns, order) => list(where, order) as never,
    find: async (where, order) => (await list(where, order))[0] ?? null,
    async get(where) {
      const [row] = await list(where);
      if (row !== undefined) return row;
      throw new WavesmithError("not-found", `there is no row in ${shape.name} with ${JSON.stringify(where)}`);
    },
    insert: async (row) => put(row),
    async insertMany(all) {
      for (const row of all) put(row);
    },
    insertIfAbsent: async (row) => {
      const made = withDefaults(shape, held, row);
      if (conflicting(shape, made, held.read()) !== null) return null;
      return put(made);
    },
    async update(where, patch) {
      const own = held.written(held.name);
      const set = Object.fromEntries(Object.entries(patch).filter(([, value]) => value !== undefined));
      const changed: AnyRow[] = [];
      const matches = matching(shape, where);
      own.forEach((row, index) => {
        if (!matches(row)) return;
        const next = { ...row, ...set };
        own[index] = next;
        changed.push(next);
      });
      for (const row of changed) refuse(shape, row, own);
      return changed;
    },
    async remove(where) {
      const own = held.written(held.name);
      const matches = matching(shape, where);
      const left = own.filter((row) => !matches(row));
      const removed = own.length - left.length;
      own.splice(0, own.length, ...left);
      return removed;
    },
  };
}

function matching(shape: Shape, where: object): (row: AnyRow) => boolean {
  const parts = Object.entries(where).filter(([, value]) => value !== undefined);
  for (const [name] of parts) if (!(name in shape.defaults)) throw new WavesmithError("internal", `no column ${name}`);
  return (row) =>
    parts.every(([name, value]) => {
      // As in SQL, null equals nothing, and only `is null` matches it.
      if (value === null) return row[name] === null;
      return Array.isArray(value) ? row[name] !== null && value.includes(row[name]) : row[name] === value;
    });
}

function withDefaults(shape: Shape, held: Held, row: AnyRow): AnyRow {
  const made: AnyRow = { ...shape.defaults };
  for (const name of shape.moments) made[name] = held.options.now();
  for (const [name, value] of Object.entries(row)) if (value !== undefined) made[name] = value;
  if (shape.serial !== null && made[shape.serial] === null) {
    held.serials[shape.name] = (held.serials[shape.name] ?? 0) + 1;
    made[shape.serial] = held.serials[shape.name];
  }
  return made;
}

function conflicting(shape: Shape, row: AnyRow, rows: readonly AnyRow[]): string | null {
  for (const { name, columns, holds } of shape.uniques) {
    if (!holds(row) || columns.some((column) => row[column] === null)) continue;
    const same = (other: AnyRow) =>
      other !== row && holds(other) && columns.every((column) => other[column] === row[column]);
    if (rows.some(same)) return name;
  }
  return null;
}

function refuse(shape: Shape, row: AnyRow, rows: readonly AnyRow[]): void {
  const taken = conflicting(shape, row, rows);
  if (taken !== null)
    throw new Error(`duplicate key value violates unique constraint "${taken}": ${JSON.stringify(row)}`);
  for (const { name, holds } of shape.checks) {
    if (!holds(row)) throw new Error(`new row for "${shape.name}" violates check "${name}": ${JSON.stringify(row)}`);
  }
}

function compare(one: unknown, other: unknown): number {
  if (one === other) return 0;
  if (one === null || other === null) return one === null ? 1 : -1; // Postgres puts nulls last
  const [left, right] = [one, other].map((value) => (value instanceof Date ? value.getTime() : value)) as [
    never,
    never,
  ];
  return left < right ? -1 : left > right ? 1 : 0;
}
