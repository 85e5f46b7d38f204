import type { DomainEvent } from "../domain/events.ts";
import type { BuildId, ProjectId } from "../domain/ids.ts";
import type * as schema from "./schema.ts";

export type { AttemptKind, TaskConflict } from "./schema.ts";

export type TenantRow = typeof schema.tenants.$inferSelect;
export type ProjectRow = typeof schema.projects.$inferSelect;
export type SandboxRow = typeof schema.sandboxes.$inferSelect;
export type BuildRow = typeof schema.builds.$inferSelect;
export type TaskRow = typeof schema.tasks.$inferSelect;
export type DependencyRow = typeof schema.dependencies.$inferSelect;
export type WaveRow = typeof schema.waves.$inferSelect;
export type WaveTaskRow = typeof schema.waveTasks.$inferSelect;
export type AttemptRow = typeof schema.attempts.$inferSelect;
export type GateRunRow = typeof schema.gateRuns.$inferSelect;
export type FindingRow = typeof schema.findings.$inferSelect;
export type ApprovalRow = typeof schema.approvals.$inferSelect;
export type JobRow = typeof schema.jobs.$inferSelect;
export type LogChunkRow = typeof schema.logChunks.$inferSelect;
export type PreviewRow = typeof schema.previews.$inferSelect;
export type RestorePointRow = typeof schema.restorePoints.$inferSelect;
export type OutboxRow = typeof schema.outbox.$inferSelect;

/** Equality on each named column; an array means "one of"; null means "is null". */
export type Where<Row> = { readonly [Column in keyof Row]?: Row[Column] | readonly NonNullable<Row[Column]>[] };

export interface Rows<Row, Insert> {
  /** Null when there is none; the first by the given order when there are several. */
  find(where: Where<Row>, order?: { by: keyof Row & string; descending?: boolean }): Promise<Row | null>;
  /** Fails with `not-found`. */
  get(where: Where<Row>): Promise<Row>;
  list(where: Where<Row>, order?: { by: keyof Row & string; descending?: boolean; limit?: number }): Promise<Row[]>;
  insert(row: Insert): Promise<Row>;
  insertMany(rows: readonly Insert[]): Promise<void>;
  /** Null when a row with such a key is there already. */
  insertIfAbsent(row: Insert): Promise<Row | null>;
  /** Compare and set: changes the rows that match and returns them as they are now. */
  update(where: Where<Row>, patch: Partial<Row>): Promise<Row[]>;
  remove(where: Where<Row>): Promise<number>;
}

export interface Tables {
  readonly tenants: Rows<TenantRow, typeof schema.tenants.$inferInsert>;
  readonly projects: Rows<ProjectRow, typeof schema.projects.$inferInsert>;
  readonly sandboxes: Rows<SandboxRow, typeof schema.sandboxes.$inferInsert>;
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
  readonly logChunks: Rows<LogChunkRow, typeof schema.logChunks.$inferInsert>;
  readonly previews: Rows<PreviewRow, typeof schema.previews.$inferInsert>;
  readonly restorePoints: Rows<RestorePointRow, typeof schema.restorePoints.$inferInsert>;
  readonly outbox: Rows<OutboxRow, typeof schema.outbox.$inferInsert>;
}

export interface StoreTransaction extends Tables {
  /** The build's row, locked until the transaction ends: every verb that changes a build takes it first. */
  lockBuild(id: BuildId | string): Promise<BuildRow>;
  /** Locks a project's row: who may run is decided under it. */
  lockProject(id: ProjectId | string): Promise<ProjectRow>;
  /** Writes an event to the outbox; an id that is there already is left alone (W13). */
  emit(event: DomainEvent & { readonly projectId: string; readonly buildId: string | null }): Promise<void>;
}

export interface JobLease {
  readonly job: JobRow;
  readonly fence: number;
}

export interface Store extends Tables {
  /**
   * Runs `work` in one transaction; repeats it on a serialisation failure or deadlock, so it must have no other effects.
   * `name` names the crash points before and after the commit.
   */
  transaction<T>(name: string, work: (transaction: StoreTransaction) => Promise<T>): Promise<T>;
  /** This installation's id, made at first use: it labels everything we make (W9). */
  installationId(): Promise<string>;
  /**
   * Takes the leases of running jobs of these projects that nobody watches: never leased, run out, or held by a process
   * that is dead (`alive` false). Each taking raises the job's fence.
   */
  leaseJobs(request: {
    projectIds: readonly string[] | "all";
    owner: string;
    leaseMs: number;
    limit: number;
  }): Promise<JobLease[]>;
  /** The projects with a build that is queued, running or being cancelled. */
  unfinishedProjects(): Promise<string[]>;
  /** Renews the leases this owner holds; returns the keys still held. */
  renewLeases(owner: string, leaseMs: number): Promise<string[]>;
  /** Gives the leases of this owner back. */
  releaseLeases(owner: string): Promise<void>;
  /** Calls `deliver` with unsent events in order and marks them sent; holds a lock so that one process at a time does it. */
  drainOutbox(projectIds: readonly string[] | "all", deliver: (events: OutboxRow[]) => Promise<void>): Promise<number>;
  /** Marks this process alive for as long as it holds its connection; returns its owner id. */
  registerProcess(ownerId: string): Promise<{ release(): Promise<void> }>;
}
