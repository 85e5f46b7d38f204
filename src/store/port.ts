import type {
  BuildEventName,
  DomainEvent,
  EventData,
  RepositoryEventName,
  SandboxEventName,
} from "../domain/events/events.ts";
import type { AddedChecks } from "../domain/gate/added-checks.ts";
import type { BuildId, ProjectId, Unbranded } from "../domain/ids.ts";
import type { Spending, SpendingSum } from "../domain/models.ts";
import type * as schema from "./schema.ts";

export type { EndedWork } from "./statements/ended-work.ts";

type TenantRow = typeof schema.tenants.$inferSelect;
export type ApiKeyRow = typeof schema.apiKeys.$inferSelect;
type SessionRow = typeof schema.sessions.$inferSelect;
type AuditEntryRow = typeof schema.auditEntries.$inferSelect;
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
export type MessageRow = typeof schema.messages.$inferSelect;
export type CommentRow = typeof schema.comments.$inferSelect;
export type ApprovalRow = typeof schema.approvals.$inferSelect;
export type JobRow = typeof schema.jobs.$inferSelect;
export type QuestionRow = typeof schema.questions.$inferSelect;
export type LogChunkRow = typeof schema.logChunks.$inferSelect;
export type PreviewRow = typeof schema.previews.$inferSelect;
type RestorePointRow = typeof schema.restorePoints.$inferSelect;
export type ScheduleRow = typeof schema.schedules.$inferSelect;
export type NotificationRow = typeof schema.notifications.$inferSelect;
export type PullRequestRow = typeof schema.pullRequests.$inferSelect;
type ForgeCallRow = typeof schema.forgeCalls.$inferSelect;
type DeliveryRow = typeof schema.webhookDeliveries.$inferSelect;
type CiCheckRow = typeof schema.ciChecks.$inferSelect;
export type RollbackRow = typeof schema.rollbacks.$inferSelect;
export type BuildSpendingRow = typeof schema.buildSpending.$inferSelect;
export type ModelCallRow = typeof schema.modelCalls.$inferSelect;
export type OutboxRow = typeof schema.outbox.$inferSelect;

/** A row as it is written: its ids may be plain strings. */
export type Input<Row> = { [Column in keyof Row]: Unbranded<Row[Column]> };

/** A model call that is about to be made. */
export type ModelCallInsert = Input<
  Pick<
    ModelCallRow,
    | "id"
    | "buildId"
    | "ownerKind"
    | "ownerId"
    | "provider"
    | "model"
    | "status"
    | "offersTools"
    | "reservedTokens"
    | "reservedMicroUsd"
  >
> & { readonly startedAt: Date };

/** The limits on a build's spent and reserved amounts together; null means no limit. */
export interface SpendingLimits {
  readonly tokens: number | null;
  /** In millionths of a USD. */
  readonly microUsd: number | null;
}

/** Compares each named column for equality; an array means "one of", null means "is null". */
export type Where<Row> = {
  readonly [Column in keyof Row]?: Unbranded<Row[Column]> | readonly NonNullable<Unbranded<Row[Column]>>[];
};

export interface RowOrder<Row> {
  readonly by: keyof Row & string;
  readonly descending?: boolean;
  readonly limit?: number;
  /** Only rows beyond this value of the column, in this order. */
  readonly after?: string | number;
}

export interface Rows<Row, Insert> {
  /** Returns the first matching row in the given order, or null. */
  find(where: Where<Row>, order?: { by: keyof Row & string; descending?: boolean }): Promise<Row | null>;
  /** Returns the matching row. Fails with `not-found`. */
  get(where: Where<Row>): Promise<Row>;
  list(where: Where<Row>, order?: RowOrder<Row>): Promise<Row[]>;
  /** Like `list`, but reads only these columns. */
  pick<Key extends keyof Row & string>(
    where: Where<Row>,
    columns: readonly Key[],
    order?: RowOrder<Row>,
  ): Promise<Pick<Row, Key>[]>;
  insert(row: Input<Insert>): Promise<Row>;
  insertMany(rows: readonly Input<Insert>[]): Promise<void>;
  /** Inserts a row; returns null if a row with that key exists. */
  insertIfAbsent(row: Input<Insert>): Promise<Row | null>;
  /** Changes the matching rows (compare and set) and returns their new state. */
  update(where: Where<Row>, patch: Partial<Input<Row>>): Promise<Row[]>;
  remove(where: Where<Row>): Promise<number>;
}

export interface Tables {
  readonly tenants: Rows<TenantRow, typeof schema.tenants.$inferInsert>;
  readonly apiKeys: Rows<ApiKeyRow, typeof schema.apiKeys.$inferInsert>;
  readonly sessions: Rows<SessionRow, typeof schema.sessions.$inferInsert>;
  readonly auditEntries: Rows<AuditEntryRow, typeof schema.auditEntries.$inferInsert>;
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
  readonly messages: Rows<MessageRow, typeof schema.messages.$inferInsert>;
  readonly comments: Rows<CommentRow, typeof schema.comments.$inferInsert>;
  readonly approvals: Rows<ApprovalRow, typeof schema.approvals.$inferInsert>;
  readonly jobs: Rows<JobRow, typeof schema.jobs.$inferInsert>;
  readonly questions: Rows<QuestionRow, typeof schema.questions.$inferInsert>;
  readonly logChunks: Rows<LogChunkRow, typeof schema.logChunks.$inferInsert>;
  readonly previews: Rows<PreviewRow, typeof schema.previews.$inferInsert>;
  readonly restorePoints: Rows<RestorePointRow, typeof schema.restorePoints.$inferInsert>;
  readonly rollbacks: Rows<RollbackRow, typeof schema.rollbacks.$inferInsert>;
  readonly schedules: Rows<ScheduleRow, typeof schema.schedules.$inferInsert>;
  readonly notifications: Rows<NotificationRow, typeof schema.notifications.$inferInsert>;
  readonly pullRequests: Rows<PullRequestRow, typeof schema.pullRequests.$inferInsert>;
  readonly forgeCalls: Rows<ForgeCallRow, typeof schema.forgeCalls.$inferInsert>;
  readonly webhookDeliveries: Rows<DeliveryRow, typeof schema.webhookDeliveries.$inferInsert>;
  readonly ciChecks: Rows<CiCheckRow, typeof schema.ciChecks.$inferInsert>;
  readonly buildSpending: Rows<BuildSpendingRow, typeof schema.buildSpending.$inferInsert>;
  readonly modelCalls: Rows<ModelCallRow, typeof schema.modelCalls.$inferInsert>;
  readonly outbox: Rows<OutboxRow, typeof schema.outbox.$inferInsert>;
}

/** An attempt with its build, wave and task; `task` is null for one on a wave's head. */
export interface AttemptInContext {
  readonly attempt: AttemptRow;
  readonly build: BuildRow;
  readonly wave: WaveRow;
  readonly task: TaskRow | null;
}

/** Queries over several tables or rows. */
interface Joined {
  /** Returns model spending by attempt or gate run of a build; ids without calls are absent. */
  modelSpending(buildId: string): Promise<ReadonlyMap<string, Spending>>;
  /** Returns the model spending of all builds of a tenant. */
  tenantSpending(tenantId: string): Promise<SpendingSum>;
  /** Fails with `not-found`. */
  attemptInContext(attemptId: string): Promise<AttemptInContext>;
}

export interface StoreTransaction extends Tables, Joined {
  /** Locks the build's row until the transaction ends; every verb that changes a build does so. */
  lockBuild(id: BuildId | string): Promise<BuildRow>;
  /** Locks a project's row, under which we decide which build may run. */
  lockProject(id: ProjectId | string): Promise<ProjectRow>;
  /** Locks a tenant's row while we decide how many sandboxes it may run. */
  lockTenant(id: string): Promise<TenantRow>;
  /** Locks the running tasks of all tenants, so that one transaction at a time adds to them. */
  lockRunningTasks(): Promise<void>;
  /** Locks the machine, so that one transaction at a time decides about one more sandbox. */
  lockMachine(): Promise<void>;
  /** Locks a build's spending row until the transaction ends (W10). */
  lockSpending(buildId: BuildId | string): Promise<BuildSpendingRow>;
  /** Writes an event for readers to the outbox, which is not sent to the engine. */
  report(event: WrittenEvent): Promise<void>;
  /** Writes an event to the outbox; does nothing if its id is already there (W13). */
  emit(event: WrittenEvent): Promise<void>;
}

/** An event as a transaction writes it. */
export type WrittenEvent = DomainEvent<BuildEventName | SandboxEventName | RepositoryEventName> | StoredRequest;

/** The request of a build that is stored with it. */
interface StoredRequest {
  readonly name: "project/build.requested";
  readonly id: string;
  readonly data: EventData<"project/build.requested"> & { readonly projectId: string; readonly buildId: string };
}

export interface JobLease {
  readonly job: JobRow;
  readonly fence: number;
}

/** A project's spending on one day (in UTC) in one role with one model. */
export interface SpendingPart extends SpendingSum {
  readonly day: string;
  /** The agent that called it; `gates` for the agents of gates. */
  readonly role: string;
  readonly model: string;
  readonly calls: number;
}

export interface Store extends Tables, Joined {
  /** Returns the checks that agents added, by gate run of these waves; runs without are absent. */
  addedChecks(waveIds: readonly string[]): Promise<ReadonlyMap<string, AddedChecks>>;
  /** Returns a project's model spending since `since`, oldest day first. */
  projectSpending(projectId: string, since: Date): Promise<SpendingPart[]>;
  /**
   * Runs `work` in one transaction; repeats it on a serialisation failure or deadlock, so it must
   * have no other effects. `name` names the crash points before and after the commit.
   */
  transaction<T>(name: string, work: (transaction: StoreTransaction) => Promise<T>): Promise<T>;
  /**
   * Runs `work` while no other caller in any process holds this name. Waits for its turn, or
   * returns null at once without `wait`. The lock ends with its holder, even a killed one. It is
   * not a transaction: commits of `work` stay.
   */
  alone<T>(name: string, work: () => Promise<T>, options: { wait: boolean }): Promise<T | null>;
  /**
   * Stores a call and adds its reservation to its build's, in one statement (W10). Returns false
   * and changes nothing if that would exceed the limits, or if it is the build's first call.
   */
  reserveModelCall(call: ModelCallInsert, limits: SpendingLimits): Promise<boolean>;
  /** Returns this installation's id, created at first use, which labels everything we make (W9). */
  installationId(): Promise<string>;
  /** Returns the secret that signs agents' tokens in every process; at first use stores `fresh`. */
  modelSecret(fresh: string): Promise<string>;
  /**
   * Leases the running jobs of these projects that nobody watches: never leased, expired, or held
   * by a dead process (`alive` false). Each lease raises the job's fence.
   */
  leaseJobs(request: {
    projectIds: readonly string[] | "all";
    owner: string;
    leaseMs: number;
    limit: number;
  }): Promise<JobLease[]>;
  /** Lists the projects with a build that is queued, running or being cancelled. */
  unfinishedProjects(): Promise<string[]>;
  /**
   * Lists last week's requests, sent before `sentBefore`, that have no build and are not settled.
   */
  lostRequests(projectIds: readonly string[] | "all", sentBefore: Date): Promise<OutboxRow[]>;
  /** Renews this owner's leases; returns the keys that it still holds. */
  renewLeases(owner: string, leaseMs: number): Promise<string[]>;
  /** Releases this owner's leases. */
  releaseLeases(owner: string): Promise<void>;
  /** Calls `deliver` with unsent events in order and marks them sent, in one process at a time. */
  drainOutbox(projectIds: readonly string[] | "all", deliver: (events: OutboxRow[]) => Promise<void>): Promise<number>;
  /** Marks this process alive for as long as it holds its connection; returns its owner id. */
  registerProcess(ownerId: string): Promise<{ release(): Promise<void> }>;
}
