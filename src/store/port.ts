import type { DomainEvent } from "../domain/events.ts";
import type { BuildId, ProjectId, Unbranded } from "../domain/ids.ts";
import type { Spending, SpendingSum } from "../domain/models.ts";
import type * as schema from "./schema.ts";

type TenantRow = typeof schema.tenants.$inferSelect;
export type ProjectRow = typeof schema.projects.$inferSelect;
export type SandboxRow = typeof schema.sandboxes.$inferSelect;
export type SnapshotRow = typeof schema.snapshots.$inferSelect;
export type BuildRow = typeof schema.builds.$inferSelect;
export type TaskRow = typeof schema.tasks.$inferSelect;
type DependencyRow = typeof schema.dependencies.$inferSelect;
export type WaveRow = typeof schema.waves.$inferSelect;
type WaveTaskRow = typeof schema.waveTasks.$inferSelect;
export type AttemptRow = typeof schema.attempts.$inferSelect;
export type GateRunRow = typeof schema.gateRuns.$inferSelect;
export type FindingRow = typeof schema.findings.$inferSelect;
export type ApprovalRow = typeof schema.approvals.$inferSelect;
export type JobRow = typeof schema.jobs.$inferSelect;
export type QuestionRow = typeof schema.questions.$inferSelect;
export type LogChunkRow = typeof schema.logChunks.$inferSelect;
export type PreviewRow = typeof schema.previews.$inferSelect;
type RestorePointRow = typeof schema.restorePoints.$inferSelect;
export type BuildSpendingRow = typeof schema.buildSpending.$inferSelect;
export type ModelCallRow = typeof schema.modelCalls.$inferSelect;
export type OutboxRow = typeof schema.outbox.$inferSelect;

/** A row as it is written: its ids may be plain strings. */
export type Input<Row> = { [Column in keyof Row]: Unbranded<Row[Column]> };

/** A call of a model that is about to be made. */
export type ModelCallInsert = Input<
  Pick<
    ModelCallRow,
    "id" | "buildId" | "ownerKind" | "ownerId" | "provider" | "model" | "status" | "reservedTokens" | "reservedMicroUsd"
  >
> & { readonly startedAt: Date };

/** What a build may take, spent and reserved together; null: as much as it likes. */
export interface SpendingLimits {
  readonly tokens: number | null;
  /** Whole millionths of a USD. */
  readonly microUsd: number | null;
}

/** Equality on each named column; an array means "one of"; null means "is null". */
export type Where<Row> = {
  readonly [Column in keyof Row]?: Unbranded<Row[Column]> | readonly NonNullable<Unbranded<Row[Column]>>[];
};

export interface Rows<Row, Insert> {
  /** Null when there is none; the first by the given order when there are several. */
  find(where: Where<Row>, order?: { by: keyof Row & string; descending?: boolean }): Promise<Row | null>;
  /** Fails with `not-found`. */
  get(where: Where<Row>): Promise<Row>;
  list(where: Where<Row>, order?: { by: keyof Row & string; descending?: boolean; limit?: number }): Promise<Row[]>;
  /** `list`, of these columns alone. */
  pick<Key extends keyof Row & string>(
    where: Where<Row>,
    columns: readonly Key[],
    order?: { by: keyof Row & string; descending?: boolean; limit?: number },
  ): Promise<Pick<Row, Key>[]>;
  insert(row: Input<Insert>): Promise<Row>;
  insertMany(rows: readonly Input<Insert>[]): Promise<void>;
  /** Null when a row with such a key is there already. */
  insertIfAbsent(row: Input<Insert>): Promise<Row | null>;
  /** Compare and set: changes the rows that match and returns them as they are now. */
  update(where: Where<Row>, patch: Partial<Input<Row>>): Promise<Row[]>;
  remove(where: Where<Row>): Promise<number>;
}

export interface Tables {
  readonly tenants: Rows<TenantRow, typeof schema.tenants.$inferInsert>;
  readonly projects: Rows<ProjectRow, typeof schema.projects.$inferInsert>;
  readonly sandboxes: Rows<SandboxRow, typeof schema.sandboxes.$inferInsert>;
  readonly snapshots: Rows<SnapshotRow, typeof schema.snapshots.$inferInsert>;
  readonly builds: Rows<BuildRow, typeof schema.builds.$inferInsert>;
  readonly tasks: Rows<TaskRow, typeof schema.tasks.$inferInsert>;
  readonly dependencies: Rows<DependencyRow, typeof schema.dependencies.$inferInsert>;
  readonly waves: Rows<WaveRow, typeof schema.waves.$inferInsert>;
  readonly waveTasks: Rows<WaveTaskRow, typeof schema.waveTasks.$inferInsert>;
  readonly attempts: Rows<AttemptRow, typeof schema.attempts.$inferInsert>;
  readonly gateRuns: Rows<GateRunRow, typeof schema.gateRuns.$inferInsert>;
  readonly findings: Rows<FindingRow, typeof schema.findings.$inferInsert>;
  readonly approvals: Rows<ApprovalRow, typeof schema.approvals.$inferInsert>;
  readonly jobs: Rows<JobRow, typeof schema.jobs.$inferInsert>;
  readonly questions: Rows<QuestionRow, typeof schema.questions.$inferInsert>;
  readonly logChunks: Rows<LogChunkRow, typeof schema.logChunks.$inferInsert>;
  readonly previews: Rows<PreviewRow, typeof schema.previews.$inferInsert>;
  readonly restorePoints: Rows<RestorePointRow, typeof schema.restorePoints.$inferInsert>;
  readonly buildSpending: Rows<BuildSpendingRow, typeof schema.buildSpending.$inferInsert>;
  readonly modelCalls: Rows<ModelCallRow, typeof schema.modelCalls.$inferInsert>;
  readonly outbox: Rows<OutboxRow, typeof schema.outbox.$inferInsert>;
}

/** An attempt and what it belongs to; `task` is null for one on a wave's head. */
export interface AttemptInContext {
  readonly attempt: AttemptRow;
  readonly build: BuildRow;
  readonly wave: WaveRow;
  readonly task: TaskRow | null;
}

/** Reading several tables, or rows, at once. */
interface Joined {
  /**
   * What each attempt and gate run of a build has spent on models, by its id; those that called
   * none are left out.
   */
  modelSpending(buildId: string): Promise<ReadonlyMap<string, Spending>>;
  /** What all builds of a tenant have spent on models. */
  tenantSpending(tenantId: string): Promise<SpendingSum>;
  /** Fails with `not-found`. */
  attemptInContext(attemptId: string): Promise<AttemptInContext>;
}

export interface StoreTransaction extends Tables, Joined {
  /**
   * The build's row, locked until the transaction ends: every verb that changes a build takes it
   * first.
   */
  lockBuild(id: BuildId | string): Promise<BuildRow>;
  /** Locks a project's row: who may run is decided under it. */
  lockProject(id: ProjectId | string): Promise<ProjectRow>;
  /** Locks a tenant's row: how many sandboxes it may run is decided under it. */
  lockTenant(id: string): Promise<TenantRow>;
  /** One transaction at a time decides what of the machine is promised to one more sandbox. */
  lockMachine(): Promise<void>;
  /** What a build has spent on models, locked until the transaction ends (W10). */
  lockSpending(buildId: BuildId | string): Promise<BuildSpendingRow>;
  /** Writes an event to the outbox; an id that is there already is left alone (W13). */
  emit(event: DomainEvent & { readonly projectId: string; readonly buildId: string | null }): Promise<void>;
}

export interface JobLease {
  readonly job: JobRow;
  readonly fence: number;
}

export interface Store extends Tables, Joined {
  /**
   * Runs `work` in one transaction; repeats it on a serialisation failure or deadlock, so it must
   * have no other effects. `name` names the crash points before and after the commit.
   */
  transaction<T>(name: string, work: (transaction: StoreTransaction) => Promise<T>): Promise<T>;
  /**
   * Does `work` while nobody else, in any process, does something under this name; waits for its
   * turn, or returns null at once without `wait`. Ends with its holder, a killed one included. Not
   * a transaction: what `work` commits stays.
   */
  alone<T>(name: string, work: () => Promise<T>, options: { wait: boolean }): Promise<T | null>;
  /**
   * Writes down a call and adds what it reserves to its build's, in one statement, if the limits
   * then still hold (W10). False, and nothing is changed: they would not, or the build has called
   * no model before.
   */
  reserveModelCall(call: ModelCallInsert, limits: SpendingLimits): Promise<boolean>;
  /** This installation's id, made at first use: it labels everything we make (W9). */
  installationId(): Promise<string>;
  /**
   * What signs the tokens of agents, the same in every process; `fresh` becomes it at first use.
   */
  modelSecret(fresh: string): Promise<string>;
  /**
   * Takes the leases of running jobs of these projects that nobody watches: never leased, run out,
   * or held by a process that is dead (`alive` false). Each taking raises the job's fence.
   */
  leaseJobs(request: {
    projectIds: readonly string[] | "all";
    owner: string;
    leaseMs: number;
    limit: number;
  }): Promise<JobLease[]>;
  /** The projects with a build that is queued, running or being cancelled. */
  unfinishedProjects(): Promise<string[]>;
  /**
   * Requests of the last week, sent before `sentBefore`, that neither have a build nor were settled
   * without one.
   */
  lostRequests(projectIds: readonly string[] | "all", sentBefore: Date): Promise<OutboxRow[]>;
  /** Renews the leases this owner holds; returns the keys still held. */
  renewLeases(owner: string, leaseMs: number): Promise<string[]>;
  /** Gives the leases of this owner back. */
  releaseLeases(owner: string): Promise<void>;
  /**
   * Calls `deliver` with unsent events in order and marks them sent; holds a lock so that one
   * process at a time does it.
   */
  drainOutbox(projectIds: readonly string[] | "all", deliver: (events: OutboxRow[]) => Promise<void>): Promise<number>;
  /** Marks this process alive for as long as it holds its connection; returns its owner id. */
  registerProcess(ownerId: string): Promise<{ release(): Promise<void> }>;
}
