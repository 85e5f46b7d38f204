import { sql } from "drizzle-orm";
import {
  bigint,
  bigserial,
  boolean,
  check,
  index,
  integer,
  pgPolicy,
  pgTable,
  primaryKey,
  timestamp,
  unique,
  uniqueIndex,
} from "drizzle-orm/pg-core";
import { type OwnLimits, type Scope, scopes } from "../domain/access.ts";
import type { BuildMetadata, EventData, EventName } from "../domain/events/events.ts";
import type { NoticedEvent } from "../domain/events/notices.ts";
import { type CheckConclusion, checkConclusionSchema } from "../domain/events/outside.ts";
import {
  type ForgeCheck,
  type ForgeName,
  type MergeState,
  mergeStates,
  type PullRequestStatus,
  pullRequestStatuses,
  type RequestCommit,
} from "../domain/forge.ts";
import type { Evidence } from "../domain/gate/finding.ts";
import type {
  AttemptId,
  BuildId,
  GateRunId,
  KeyId,
  NotificationId,
  ProjectId,
  PullRequestId,
  SandboxId,
  ScheduleId,
  TaskId,
  TenantId,
  WaveId,
} from "../domain/ids.ts";
import { type CallEnding, callEndings, type ModelCallStatus, modelCallStatuses } from "../domain/models.ts";
import type { Brief } from "../domain/plan/brief.ts";
import type { Plan, PlanTask } from "../domain/plan/plan.ts";
import type { BeforeRollback } from "../domain/rollback.ts";
import type { NetworkMode, NetworkPolicy } from "../domain/sandbox/network.ts";
import type { SandboxLimits, SandboxState, SandboxWall, SnapshotState } from "../domain/sandbox/sandbox.ts";
import { sandboxStates, snapshotStates } from "../domain/sandbox/sandbox.ts";
import type { StandingRequest } from "../domain/schedule.ts";
import type {
  AttemptOutcome,
  AttemptStatus,
  BuildStatus,
  GateName,
  Severity,
  TaskStatus,
  Verdict,
  WaveStatus,
} from "../domain/status.ts";
import {
  attemptOutcomeSchema,
  attemptStatusSchema,
  buildStatusSchema,
  gateNameSchema,
  severitySchema,
  taskStatusSchema,
  verdictSchema,
  waveStatusSchema,
} from "../domain/status.ts";
import { jsonb, text } from "./rows/columns.ts";

// Constraints forbid illegal states as far as SQL allows: a project has one running build, a build
// one live wave, a task one live attempt (W3, W4), and `passed` needs a SHA and evidence (W3, W6).

const moment = (name: string) => timestamp(name, { withTimezone: true, mode: "date" });
const created = () => moment("created_at").notNull().defaultNow();
const oneOf = (column: string, values: readonly string[]) =>
  sql.raw(`"${column}" in (${values.map((value) => `'${value}'`).join(", ")})`);

// Row-level security (W11). A request reads and writes as a role that sees the rows of one tenant:
// `tenant-pool.ts` names it. The owner of the tables, as whom builds are driven, sees every row.

const currentTenant = sql.raw("(select current_setting('wavesmith.tenant', true))");
/** Hides a table's rows from other tenants. Every table has it, except `installations`. */
const ofOneTenant = pgPolicy("own_tenant", { using: sql`tenant_id = ${currentTenant}` });
/**
 * The tenant of a row. Left out of an insert, a trigger of the table fills it in: from the build,
 * project, job, task, wave or gate run that the row belongs to.
 */
const ownTenant = () =>
  text("tenant_id")
    .$type<TenantId>()
    .notNull()
    .default("" as TenantId);

export const installations = pgTable("installations", {
  id: text("id").primaryKey(),
  /** Signs agents' tokens for the model proxy; created at first use. */
  modelSecret: text("model_secret"),
  /** The data directory with this database's work: the id in its mark, and its last path. */
  dataDirId: text("data_dir_id"),
  dataDirPath: text("data_dir_path"),
  createdAt: created(),
});

export const tenants = pgTable(
  "tenants",
  {
    id: text("id").$type<TenantId>().primaryKey(),
    name: text("name").notNull().unique(),
    /** The tenant's own limits; an absent one comes from the settings. */
    limits: jsonb("limits").$type<OwnLimits>().notNull().default({}),
    createdAt: created(),
  },
  () => [pgPolicy("own_tenant", { using: sql`id = ${currentTenant}` })],
);

/** The keys of the API. Only a hash is kept, so that a stolen database opens nothing. */
export const apiKeys = pgTable(
  "api_keys",
  {
    id: text("id").$type<KeyId>().primaryKey(),
    tenantId: text("tenant_id")
      .$type<TenantId>()
      .notNull()
      .references(() => tenants.id),
    name: text("name").notNull(),
    scope: text("scope").$type<Scope>().notNull(),
    keyHash: text("key_hash").notNull().unique(),
    createdBy: text("created_by"),
    createdAt: created(),
    expiresAt: moment("expires_at"),
    revokedAt: moment("revoked_at"),
    /** Written at most once a minute. */
    usedAt: moment("used_at"),
  },
  (table) => [
    ofOneTenant,
    index("api_keys_by_tenant").on(table.tenantId, table.createdAt),
    check("api_key_scope", oneOf("scope", scopes)),
  ],
);

/** Sign-ins of browsers, and the single-use links that lead to one. */
export const sessions = pgTable(
  "sessions",
  {
    /** The hash of the cookie's or the link's token. */
    id: text("id").primaryKey(),
    tenantId: text("tenant_id")
      .$type<TenantId>()
      .notNull()
      .references(() => tenants.id),
    kind: text("kind").$type<"session" | "link">().notNull(),
    /** The hash of the key that was shown; the session ends with that key. */
    keyHash: text("key_hash").notNull(),
    createdAt: created(),
    expiresAt: moment("expires_at").notNull(),
    /** When it was signed out, or the link was used. */
    endedAt: moment("ended_at"),
  },
  () => [ofOneTenant, check("session_kind", oneOf("kind", ["session", "link"]))],
);

/** The audit log: who requested which change, through the API or the command line. */
export const auditEntries = pgTable(
  "audit_entries",
  {
    id: bigserial("id", { mode: "number" }).primaryKey(),
    tenantId: text("tenant_id")
      .$type<TenantId>()
      .notNull()
      .references(() => tenants.id),
    at: moment("at").notNull().defaultNow(),
    /** The key's name, or the user of the machine. */
    actor: text("actor").notNull(),
    via: text("via").$type<"api" | "cli">().notNull(),
    /** The route, such as `POST /builds/{id}/cancel`, or the command. */
    action: text("action").notNull(),
    /** The ids that the route or the command named. */
    target: text("target"),
    /** The status of the API's answer, or the command's exit code. */
    result: integer("result").notNull(),
  },
  (table) => [
    ofOneTenant,
    index("audit_entries_by_tenant").on(table.tenantId, table.id),
    check("audit_via", oneOf("via", ["api", "cli"])),
  ],
);

export const projects = pgTable(
  "projects",
  {
    id: text("id").$type<ProjectId>().primaryKey(),
    tenantId: text("tenant_id")
      .$type<TenantId>()
      .notNull()
      .references(() => tenants.id),
    name: text("name").notNull(),
    /** The local port at which `serve` shows its preview; it survives a restart. */
    previewPort: integer("preview_port"),
    /** The origin of its own at which `serve` shows its preview; null without a domain. */
    previewOrigin: text("preview_origin"),
    /** The memory of earlier builds that its agents read, in Markdown; people may edit it. */
    memory: text("memory").notNull().default(""),
    createdAt: created(),
  },
  (table) => [ofOneTenant, unique("one_project_per_name").on(table.tenantId, table.name)],
);

export const sandboxes = pgTable(
  "sandboxes",
  {
    tenantId: ownTenant(),
    id: text("id").$type<SandboxId>().primaryKey(),
    projectId: text("project_id")
      .$type<ProjectId>()
      .notNull()
      .references(() => projects.id),
    driver: text("driver").notNull(),
    /** `lost`: it disappeared while running; its next use creates it again. */
    state: text("state").$type<SandboxState>().notNull(),
    bootId: text("boot_id"),
    network: jsonb("network").$type<NetworkPolicy>(),
    limits: jsonb("limits").$type<SandboxLimits>(),
    /** How the jobs of its last boot were isolated from each other. */
    wall: jsonb("wall").$type<SandboxWall>(),
    createdAt: created(),
    startedAt: moment("started_at"),
    /** When a job, a command or a preview last used it. */
    usedAt: moment("used_at").notNull().defaultNow(),
    checkedAt: moment("checked_at"),
    stoppedAt: moment("stopped_at"),
    /**
     * Why it is not running (`idle`, `expired`, `asked`, out of memory, …) or, for a running one,
     * why no jobs start in it.
     */
    reason: text("reason"),
    removedAt: moment("removed_at"),
  },
  (table) => [
    ofOneTenant,
    uniqueIndex("one_sandbox_per_project").on(table.projectId).where(sql`state <> 'removed'`),
    check("sandbox_state", oneOf("state", sandboxStates)),
  ],
);

/** Packed volumes; the bytes are in the snapshot store. */
export const snapshots = pgTable(
  "snapshots",
  {
    tenantId: ownTenant(),
    id: text("id").primaryKey(),
    projectId: text("project_id")
      .$type<ProjectId>()
      .notNull()
      .references(() => projects.id),
    /** The packed sandbox, whose row stays when it is removed. */
    sandboxId: text("sandbox_id")
      .$type<SandboxId>()
      .notNull()
      .references(() => sandboxes.id),
    /** `writing`: intended or in progress; if its process died, it becomes `failed`. */
    state: text("state").$type<SnapshotState>().notNull(),
    reason: text("reason").$type<"asked" | "idle">().notNull(),
    format: text("format").$type<"tar.zst" | "tar.gz">().notNull(),
    sizeBytes: bigint("size_bytes", { mode: "number" }),
    sha256: text("sha256"),
    error: text("error"),
    createdAt: created(),
    endedAt: moment("ended_at"),
    /** After this time the retention cron removes it. */
    expiresAt: moment("expires_at").notNull(),
  },
  (table) => [
    ofOneTenant,
    index("snapshots_by_project").on(table.projectId, table.createdAt),
    check("snapshot_state", oneOf("state", snapshotStates)),
    check("snapshot_kept_has_checksum", sql`state <> 'kept' or (sha256 is not null and size_bytes is not null)`),
  ],
);

export const builds = pgTable(
  "builds",
  {
    id: text("id").$type<BuildId>().primaryKey(),
    tenantId: text("tenant_id")
      .$type<TenantId>()
      .notNull()
      .references(() => tenants.id),
    projectId: text("project_id")
      .$type<ProjectId>()
      .notNull()
      .references(() => projects.id),
    /** The event that requested it, from whose id the build's id is derived. */
    eventId: text("event_id").notNull().unique(),
    requestedBy: text("requested_by"),
    /** The request's own data, carried on every event of the build. */
    metadata: jsonb("metadata").$type<BuildMetadata>(),
    /** Whether a person can answer agents' questions. */
    interactive: boolean("interactive").notNull().default(false),
    /** The order of a project's requests. */
    position: bigserial("position", { mode: "number" }).notNull(),
    status: text("status").$type<BuildStatus>().notNull(),
    plan: jsonb("plan").$type<Plan>().notNull(),
    /** Raised by every change of the plan. */
    planVersion: integer("plan_version").notNull().default(0),
    /** The request in words from which a planner drafted the plan; null if the plan was given. */
    brief: jsonb("brief").$type<Brief>(),
    sandboxDriver: text("sandbox_driver").notNull(),
    network: text("network").$type<NetworkMode>().notNull(),
    /** Restore point 0: where the build started. */
    baseSha: text("base_sha"),
    headSha: text("head_sha"),
    /** Raised by retry, redo, rollback and a reconcile that finds no movement (W13). */
    epoch: integer("epoch").notNull().default(0),
    reason: text("reason"),
    createdAt: created(),
    startedAt: moment("started_at"),
    deadlineAt: moment("deadline_at"),
    movedAt: moment("moved_at").notNull().defaultNow(),
    /** When tasks of it were last held back for other tenants or a limit; null: none is now. */
    heldBackAt: moment("held_back_at"),
    endedAt: moment("ended_at"),
  },
  (table) => [
    ofOneTenant,
    uniqueIndex("one_running_build_per_project")
      .on(table.projectId)
      .where(sql`status in ('running', 'waiting', 'cancelling')`),
    index("builds_by_project").on(table.projectId, table.position),
    check("build_status", oneOf("status", buildStatusSchema.options)),
    check("build_ended", sql`(status in ('completed', 'failed', 'cancelled')) = (ended_at is not null)`),
    check("build_completed_has_head", sql`status <> 'completed' or head_sha is not null`),
  ],
);

export const waves = pgTable(
  "waves",
  {
    tenantId: ownTenant(),
    id: text("id").$type<WaveId>().primaryKey(),
    buildId: text("build_id")
      .$type<BuildId>()
      .notNull()
      .references(() => builds.id),
    number: integer("number").notNull(),
    status: text("status").$type<WaveStatus>().notNull(),
    baseSha: text("base_sha").notNull(),
    headSha: text("head_sha"),
    fixRounds: integer("fix_rounds").notNull().default(0),
    epoch: integer("epoch").notNull().default(0),
    /** The heads that a person last approved or rejected; a new head needs a new decision. */
    approvedSha: text("approved_sha"),
    rejectedSha: text("rejected_sha"),
    reason: text("reason"),
    createdAt: created(),
    passedAt: moment("passed_at"),
    deliveredAt: moment("delivered_at"),
    endedAt: moment("ended_at"),
  },
  (table) => [
    ofOneTenant,
    unique("one_wave_per_build_and_number").on(table.buildId, table.number),
    uniqueIndex("one_live_wave_per_build")
      .on(table.buildId)
      .where(sql`status in ('running', 'joining', 'gating', 'fixing', 'waiting')`),
    check("wave_status", oneOf("status", waveStatusSchema.options)),
    check("wave_passed_has_sha", sql`status <> 'passed' or (head_sha is not null and passed_at is not null)`),
    check("wave_delivered_was_passed", sql`delivered_at is null or status = 'passed'`),
  ],
);

/** A conflict that sent a task back to pending (W8). */
export interface TaskConflict {
  readonly waveNumber: number;
  readonly paths: string[];
  readonly detail: string;
  /** The tasks whose changes were there first; absent in rows of earlier versions. */
  readonly otherKeys?: string[];
}

export const tasks = pgTable(
  "tasks",
  {
    tenantId: ownTenant(),
    id: text("id").$type<TaskId>().primaryKey(),
    buildId: text("build_id")
      .$type<BuildId>()
      .notNull()
      .references(() => builds.id),
    key: text("key").notNull(),
    position: integer("position").notNull(),
    agent: text("agent").notNull(),
    definition: jsonb("definition").$type<PlanTask>().notNull(),
    status: text("status").$type<TaskStatus>().notNull(),
    /** Its current or last wave. */
    waveId: text("wave_id")
      .$type<WaveId>()
      .references(() => waves.id),
    epoch: integer("epoch").notNull().default(0),
    attempts: integer("attempts").notNull().default(0),
    retriesUsed: integer("retries_used").notNull().default(0),
    losses: integer("losses").notNull().default(0),
    conflicts: jsonb("conflicts").$type<TaskConflict[]>().notNull().default([]),
    /** The commit of its last successful attempt; part of the wave's head once `completed`. */
    commitSha: text("commit_sha"),
    summary: text("summary"),
    changedFiles: jsonb("changed_files").$type<string[]>().notNull().default([]),
    reason: text("reason"),
    endedAt: moment("ended_at"),
  },
  (table) => [
    ofOneTenant,
    unique("one_task_per_key").on(table.buildId, table.key),
    check("task_status", oneOf("status", taskStatusSchema.options)),
    check("task_in_wave", sql`status not in ('assigned', 'running', 'joining', 'completed') or wave_id is not null`),
  ],
);

export const dependencies = pgTable(
  "dependencies",
  {
    tenantId: ownTenant(),
    taskId: text("task_id")
      .$type<TaskId>()
      .notNull()
      .references(() => tasks.id),
    dependsOnId: text("depends_on_id")
      .$type<TaskId>()
      .notNull()
      .references(() => tasks.id),
  },
  (table) => [
    ofOneTenant,
    primaryKey({ columns: [table.taskId, table.dependsOnId] }),
    check("no_self_dependency", sql`task_id <> depends_on_id`),
  ],
);

/** The tasks of each wave; a task that a conflict sent back is in several. */
export const waveTasks = pgTable(
  "wave_tasks",
  {
    tenantId: ownTenant(),
    waveId: text("wave_id")
      .$type<WaveId>()
      .notNull()
      .references(() => waves.id),
    taskId: text("task_id")
      .$type<TaskId>()
      .notNull()
      .references(() => tasks.id),
  },
  (table) => [ofOneTenant, primaryKey({ columns: [table.waveId, table.taskId] })],
);

const attemptKinds = ["task", "fix", "generate"] as const;
export type AttemptKind = (typeof attemptKinds)[number];

export interface AttemptVerdict {
  readonly outcome: AttemptOutcome;
  readonly reason: string | null;
  readonly summary: string | null;
  readonly changed: string[];
  /** Only for a planner: its plan, or the text it submitted instead of one. */
  readonly plan?: Plan;
  readonly handedIn?: string;
}

export const attempts = pgTable(
  "attempts",
  {
    tenantId: ownTenant(),
    id: text("id").$type<AttemptId>().primaryKey(),
    buildId: text("build_id")
      .$type<BuildId>()
      .notNull()
      .references(() => builds.id),
    waveId: text("wave_id")
      .$type<WaveId>()
      .notNull()
      .references(() => waves.id),
    taskId: text("task_id")
      .$type<TaskId>()
      .references(() => tasks.id),
    kind: text("kind").$type<AttemptKind>().notNull(),
    role: text("role").notNull(),
    /** Its number within its task, or within its wave (fix, generate); counts from 1. */
    number: integer("number").notNull(),
    fence: integer("fence").notNull().default(0),
    status: text("status").$type<AttemptStatus>().notNull(),
    outcome: text("outcome").$type<AttemptOutcome>(),
    baseSha: text("base_sha").notNull(),
    commitSha: text("commit_sha"),
    treePath: text("tree_path").notNull(),
    ref: text("ref").notNull(),
    jobKey: text("job_key").notNull().unique(),
    /** For a fix: the gate run whose findings it fixes, or the rejection it responds to. */
    gateRunId: text("gate_run_id").$type<GateRunId>(),
    approvalId: text("approval_id"),
    /** Its wave's epoch when it was requested. */
    epoch: integer("epoch").notNull().default(0),
    /** For a generate attempt: the globs to regenerate. */
    paths: jsonb("paths").$type<string[]>().notNull().default([]),
    reason: text("reason"),
    outputTail: text("output_tail"),
    /** How it was judged when its work was kept; becomes the outcome when it settles. */
    verdict: jsonb("verdict").$type<AttemptVerdict>(),
    createdAt: created(),
    startedAt: moment("started_at"),
    endedAt: moment("ended_at"),
  },
  (table) => [
    ofOneTenant,
    uniqueIndex("one_live_attempt_per_task").on(table.taskId).where(sql`status <> 'settled' and task_id is not null`),
    uniqueIndex("one_live_attempt_on_a_wave_head").on(table.waveId).where(sql`status <> 'settled' and task_id is null`),
    uniqueIndex("one_attempt_per_task_and_number").on(table.taskId, table.number),
    index("attempts_by_build").on(table.buildId),
    check("attempt_status", oneOf("status", attemptStatusSchema.options)),
    check("attempt_outcome", sql`outcome is null or ${oneOf("outcome", attemptOutcomeSchema.options)}`),
    check("attempt_settled", sql`(status = 'settled') = (outcome is not null)`),
    check("attempt_kind", sql`(kind = 'task') = (task_id is not null)`),
  ],
);

export const gateRuns = pgTable(
  "gate_runs",
  {
    tenantId: ownTenant(),
    id: text("id").$type<GateRunId>().primaryKey(),
    buildId: text("build_id")
      .$type<BuildId>()
      .notNull()
      .references(() => builds.id),
    waveId: text("wave_id")
      .$type<WaveId>()
      .notNull()
      .references(() => waves.id),
    gate: text("gate").$type<GateName>().notNull(),
    /** Counts this gate's runs in this wave, from 1. */
    round: integer("round").notNull(),
    sha: text("sha").notNull(),
    /** The wave's epoch when it was requested, because a retry requests the same commit again. */
    epoch: integer("epoch").notNull(),
    fence: integer("fence").notNull().default(0),
    status: text("status").$type<"requested" | "running" | "finished">().notNull(),
    verdict: text("verdict").$type<Verdict>(),
    reason: text("reason"),
    /** Whether a fixer may fix its findings. */
    fixable: boolean("fixable").notNull().default(false),
    evidence: jsonb("evidence").$type<Evidence>(),
    fingerprint: text("fingerprint"),
    losses: integer("losses").notNull().default(0),
    jobKey: text("job_key"),
    createdAt: created(),
    endedAt: moment("ended_at"),
  },
  (table) => [
    ofOneTenant,
    unique("one_gate_run_per_round").on(table.waveId, table.gate, table.round),
    uniqueIndex("one_live_gate_per_wave").on(table.waveId).where(sql`status <> 'finished'`),
    check("gate_name", oneOf("gate", gateNameSchema.options)),
    check("gate_verdict", sql`verdict is null or ${oneOf("verdict", verdictSchema.options)}`),
    check("gate_finished", sql`(status = 'finished') = (verdict is not null)`),
    check("gate_passed_has_evidence", sql`verdict is distinct from 'passed' or evidence is not null`),
  ],
);

export const findings = pgTable(
  "findings",
  {
    tenantId: ownTenant(),
    id: bigserial("id", { mode: "number" }).primaryKey(),
    gateRunId: text("gate_run_id")
      .$type<GateRunId>()
      .notNull()
      .references(() => gateRuns.id),
    rule: text("rule").notNull(),
    severity: text("severity").$type<Severity>().notNull(),
    message: text("message").notNull(),
    file: text("file"),
    line: integer("line"),
    confidence: integer("confidence_percent"),
  },
  (table) => [
    ofOneTenant,
    index("findings_by_gate_run").on(table.gateRunId),
    check("finding_severity", oneOf("severity", severitySchema.options)),
  ],
);

export interface StoredQuestionOption {
  readonly name: string;
  /** The kind in the Agent Client Protocol: `allow_once`, `reject_once`, … */
  readonly kind: string;
}

/** Agents' questions to a person, about actions that the policy does not allow. */
export const questions = pgTable(
  "questions",
  {
    tenantId: ownTenant(),
    id: bigserial("id", { mode: "number" }).primaryKey(),
    buildId: text("build_id")
      .$type<BuildId>()
      .notNull()
      .references(() => builds.id),
    jobKey: text("job_key")
      .notNull()
      .references(() => jobs.key),
    /** Its name within the job. */
    name: text("name").notNull(),
    /** Null for a question of a gate's agent. */
    attemptId: text("attempt_id")
      .$type<AttemptId>()
      .references(() => attempts.id),
    role: text("role").notNull(),
    text: text("text").notNull(),
    /** Why the policy does not allow it. */
    reason: text("reason").notNull(),
    options: jsonb("options").$type<StoredQuestionOption[]>().notNull(),
    askedAt: moment("asked_at").notNull(),
    /** The end of the wait for an answer. */
    deadlineAt: moment("deadline_at").notNull(),
    answer: text("answer").$type<"allow" | "deny">(),
    answeredBy: text("answered_by"),
    answeredAt: moment("answered_at"),
    /** When the answer was written to the file that the agent's host polls. */
    deliveredAt: moment("delivered_at"),
    /** When the wait ended: it was answered, its deadline passed, or its job ended. */
    closedAt: moment("closed_at"),
  },
  (table) => [
    ofOneTenant,
    unique("one_question_per_name").on(table.jobKey, table.name),
    index("questions_by_build").on(table.buildId),
    check("question_answer", oneOf("answer", ["allow", "deny"])),
    check("question_answered", sql`(answer is null) = (answered_at is null)`),
  ],
);

/** People's messages to the agents of tasks. */
export const messages = pgTable(
  "messages",
  {
    tenantId: ownTenant(),
    id: bigserial("id", { mode: "number" }).primaryKey(),
    buildId: text("build_id")
      .$type<BuildId>()
      .notNull()
      .references(() => builds.id),
    taskId: text("task_id")
      .$type<TaskId>()
      .notNull()
      .references(() => tasks.id),
    text: text("text").notNull(),
    by: text("sent_by").notNull(),
    /** Whether it interrupts the agent's turn. */
    urgent: boolean("urgent").notNull().default(false),
    createdAt: created(),
    /** The attempt whose agent gets it; null until the task's next attempt starts. */
    attemptId: text("attempt_id")
      .$type<AttemptId>()
      .references(() => attempts.id),
    /** Its number in the stdin of the attempt's job; null: it is part of the attempt's prompt. */
    number: integer("number"),
    /** When it was written to that stdin. */
    sentAt: moment("sent_at"),
    /** When the agent got it. */
    deliveredAt: moment("delivered_at"),
  },
  (table) => [
    ofOneTenant,
    index("messages_by_task").on(table.taskId),
    index("messages_by_build").on(table.buildId),
    unique("one_message_per_number").on(table.attemptId, table.number),
    check("message_numbered_has_attempt", sql`number is null or attempt_id is not null`),
  ],
);

const commentStates = ["open", "given", "resolved", "superseded"] as const;
/**
 * `given`: a fixer or a task's next attempt works on it. `resolved`: that attempt succeeded and
 * changed the file. `superseded`: its wave passed or was cancelled without it.
 */
export type CommentState = (typeof commentStates)[number];

/** People's findings about lines of a build's work. */
export const comments = pgTable(
  "comments",
  {
    tenantId: ownTenant(),
    id: bigserial("id", { mode: "number" }).primaryKey(),
    buildId: text("build_id")
      .$type<BuildId>()
      .notNull()
      .references(() => builds.id),
    /** Null until the build's next wave starts. */
    waveId: text("wave_id")
      .$type<WaveId>()
      .references(() => waves.id),
    /** The task whose next attempt gets it; null: the wave's next fix. */
    taskId: text("task_id")
      .$type<TaskId>()
      .references(() => tasks.id),
    /** The commit that was read; null before the wave has one. */
    sha: text("sha"),
    file: text("file"),
    line: integer("line"),
    endLine: integer("end_line"),
    text: text("text").notNull(),
    by: text("made_by").notNull(),
    createdAt: created(),
    state: text("state").$type<CommentState>().notNull(),
    /** The latest attempt that was given it. */
    attemptId: text("attempt_id")
      .$type<AttemptId>()
      .references(() => attempts.id),
    settledAt: moment("settled_at"),
    /** Its id outside, such as `github:owner/name:comment:7`; null: a person here wrote it. */
    origin: text("origin").unique(),
    /** The end of the output of a check of CI. */
    log: text("log"),
  },
  (table) => [
    ofOneTenant,
    index("comments_by_build").on(table.buildId),
    check("comment_state", oneOf("state", commentStates)),
    check("comment_given_has_attempt", sql`state <> 'given' or attempt_id is not null`),
    check("comment_settled", sql`(state in ('resolved', 'superseded')) = (settled_at is not null)`),
  ],
);

/** People's decisions about waves' heads. */
export const approvals = pgTable(
  "approvals",
  {
    tenantId: ownTenant(),
    id: text("id").primaryKey(),
    buildId: text("build_id")
      .$type<BuildId>()
      .notNull()
      .references(() => builds.id),
    waveId: text("wave_id")
      .$type<WaveId>()
      .notNull()
      .references(() => waves.id),
    sha: text("sha").notNull(),
    decision: text("decision").$type<"approved" | "rejected">().notNull(),
    by: text("decided_by"),
    reason: text("reason"),
    createdAt: created(),
  },
  (table) => [
    ofOneTenant,
    index("approvals_by_wave").on(table.waveId),
    check("approval_decision", oneOf("decision", ["approved", "rejected"])),
    check("approval_rejected_has_reason", sql`decision = 'approved' or reason is not null`),
  ],
);

/** The jobs in sandboxes; a row is written before its job starts (W9). */
export const jobs = pgTable(
  "jobs",
  {
    tenantId: ownTenant(),
    key: text("key").primaryKey(),
    buildId: text("build_id")
      .$type<BuildId>()
      .notNull()
      .references(() => builds.id),
    projectId: text("project_id")
      .$type<ProjectId>()
      .notNull()
      .references(() => projects.id),
    ownerKind: text("owner_kind").$type<"attempt" | "gate" | "preview" | "setup">().notNull(),
    ownerId: text("owner_id").notNull(),
    ownerFence: integer("owner_fence").notNull(),
    status: text("status").$type<"intended" | "running" | "ended">().notNull(),
    cancelReason: text("cancel_reason"),
    /** The process that watches it, until `leaseUntil`; each new lease raises `fence`. */
    leaseOwner: text("lease_owner"),
    leaseUntil: moment("lease_until"),
    fence: integer("fence").notNull().default(0),
    /** How many bytes of its output are in log_chunks. */
    outputOffset: bigint("output_offset", { mode: "number" }).notNull().default(0),
    /** The latest action of its agent, in one line; null: none is known. */
    lastAction: text("last_action"),
    /** How many activities of its agent have become events. */
    activities: integer("activities").notNull().default(0),
    /** A job that its guest says has run for longer is not believed; null: it may run for ever. */
    longestMs: bigint("longest_ms", { mode: "number" }),
    /** The last state that the guest reported. */
    state: jsonb("state").$type<unknown>(),
    createdAt: created(),
    endedAt: moment("ended_at"),
  },
  (table) => [
    ofOneTenant,
    index("jobs_by_build").on(table.buildId),
    index("jobs_live").on(table.projectId).where(sql`status <> 'ended'`),
    check("job_status", oneOf("status", ["intended", "running", "ended"])),
    check("job_owner", oneOf("owner_kind", ["attempt", "gate", "preview", "setup"])),
  ],
);

export const logChunks = pgTable(
  "log_chunks",
  {
    tenantId: ownTenant(),
    jobKey: text("job_key")
      .notNull()
      .references(() => jobs.key),
    /** The chunk's offset in the job's output, in bytes. */
    startsAt: bigint("starts_at", { mode: "number" }).notNull(),
    text: text("text").notNull(),
    at: moment("at").notNull().defaultNow(),
  },
  (table) => [ofOneTenant, primaryKey({ columns: [table.jobKey, table.startsAt] })],
);

/**
 * `asleep`: nothing used it for a while; it has no sandbox, and the next request starts it
 * again.
 */
export type PreviewStatus = "starting" | "ready" | "asleep" | "dead" | "stopped";

export const previews = pgTable(
  "previews",
  {
    tenantId: ownTenant(),
    buildId: text("build_id")
      .$type<BuildId>()
      .primaryKey()
      .references(() => builds.id),
    waveNumber: integer("wave_number").notNull(),
    sha: text("sha").notNull(),
    status: text("status").$type<PreviewStatus>().notNull(),
    /** The port inside its sandbox; 0 until its job is about to start. */
    port: integer("port").notNull(),
    /** Its own sandbox. A preview of another wave, or one that was asleep, gets a new one. */
    sandboxId: text("sandbox_id").$type<SandboxId>(),
    /** The time of its last request. */
    requestedAt: moment("requested_at"),
    starts: integer("starts").notNull().default(1),
    jobKey: text("job_key").notNull(),
    reason: text("reason"),
  },
  () => [ofOneTenant],
);

export const restorePoints = pgTable(
  "restore_points",
  {
    tenantId: ownTenant(),
    buildId: text("build_id")
      .$type<BuildId>()
      .notNull()
      .references(() => builds.id),
    /** 0 is where the build started. */
    waveNumber: integer("wave_number").notNull(),
    sha: text("sha").notNull(),
    createdAt: created(),
  },
  (table) => [ofOneTenant, primaryKey({ columns: [table.buildId, table.waveNumber] })],
);

/** A rollback of a build, with what undoing it restores. */
export const rollbacks = pgTable(
  "rollbacks",
  {
    tenantId: ownTenant(),
    buildId: text("build_id")
      .$type<BuildId>()
      .notNull()
      .references(() => builds.id),
    /** The build's epoch since this rollback; another epoch means that the build has continued. */
    epoch: integer("epoch").notNull(),
    /** The build's commit on main; null if main had none of its work. */
    fromSha: text("from_sha"),
    toSha: text("to_sha").notNull(),
    before: jsonb("before").$type<BeforeRollback>().notNull(),
    createdAt: created(),
  },
  (table) => [ofOneTenant, primaryKey({ columns: [table.buildId, table.epoch] })],
);

const notificationStatuses = ["waiting", "sent", "dead"] as const;

/** One event of a build on its way to one address of its plan's `notify`. */
const scheduleStatuses = ["active", "paused"] as const;
const scheduleOrigins = ["main", "file"] as const;

export const schedules = pgTable(
  "schedules",
  {
    /** Made of the project, the origin and the name, so that reading a file again changes it. */
    id: text("id").$type<ScheduleId>().primaryKey(),
    tenantId: ownTenant(),
    projectId: text("project_id")
      .$type<ProjectId>()
      .notNull()
      .references(() => projects.id),
    name: text("name").notNull(),
    /** `main`: from `wavesmith.yaml` on the project's main; `file`: a person added it. */
    origin: text("origin").$type<(typeof scheduleOrigins)[number]>().notNull(),
    cron: text("cron").notNull(),
    timezone: text("timezone").notNull(),
    request: jsonb("request").$type<StandingRequest>().notNull(),
    status: text("status").$type<(typeof scheduleStatuses)[number]>().notNull().default("active"),
    nextAt: moment("next_at").notNull(),
    /** How many of its last builds failed in a row. */
    failures: integer("failures").notNull().default(0),
    lastBuildId: text("last_build_id").$type<BuildId>(),
    lastRunAt: moment("last_run_at"),
    /** Whether the end of its last build is counted. */
    isSettled: boolean("is_settled").notNull().default(true),
    /** Anything unusual about the last run, or why it is paused. */
    note: text("note"),
    createdAt: created(),
  },
  (table) => [
    ofOneTenant,
    index("schedules_by_time").on(table.status, table.nextAt),
    check("schedule_status", oneOf("status", scheduleStatuses)),
    check("schedule_origin", oneOf("origin", scheduleOrigins)),
  ],
);

export const notifications = pgTable(
  "notifications",
  {
    /** Made of the event's id and the address, so that an event is recorded once for each. */
    id: text("id").$type<NotificationId>().primaryKey(),
    tenantId: ownTenant(),
    projectId: text("project_id")
      .$type<ProjectId>()
      .notNull()
      .references(() => projects.id),
    buildId: text("build_id")
      .$type<BuildId>()
      .notNull()
      .references(() => builds.id),
    /** May hold a secret, as the addresses of chats do: it is shown without its path. */
    address: text("address").notNull(),
    event: text("event").$type<NoticedEvent>().notNull(),
    data: jsonb("data").$type<Record<string, unknown>>().notNull(),
    title: text("title").notNull(),
    text: text("text").notNull(),
    status: text("status").$type<(typeof notificationStatuses)[number]>().notNull().default("waiting"),
    tries: integer("tries").notNull().default(0),
    /** The time of the next try; a try sets it before it starts. */
    nextAt: moment("next_at").notNull(),
    /** Why the last try failed. */
    problem: text("problem"),
    createdAt: created(),
    sentAt: moment("sent_at"),
  },
  (table) => [
    ofOneTenant,
    index("notifications_by_time").on(table.status, table.nextAt),
    index("notifications_by_build").on(table.buildId, table.createdAt),
    check("notification_status", oneOf("status", notificationStatuses)),
  ],
);

/**
 * One pull request of a build: what it should show, and how far we are. Its id is made of the build
 * and the key, so there is one for each.
 */
export const pullRequests = pgTable(
  "pull_requests",
  {
    id: text("id").$type<PullRequestId>().primaryKey(),
    tenantId: ownTenant(),
    projectId: text("project_id")
      .$type<ProjectId>()
      .notNull()
      .references(() => projects.id),
    buildId: text("build_id")
      .$type<BuildId>()
      .notNull()
      .references(() => builds.id),
    /** `build`, or `wave-N`. */
    key: text("key").notNull(),
    forge: text("forge").$type<ForgeName>().notNull(),
    /** `owner/name`; the plan's at first, then as the forge has it. */
    repo: text("repo").notNull(),
    /** The forge's id of the repository, which a rename does not change. */
    repoId: text("repo_id"),
    branch: text("branch").notNull(),
    base: text("base"),
    /** The newest wave in it, and its commit. */
    waveNumber: integer("wave_number").notNull(),
    sha: text("sha").notNull(),
    /** The commit that we last pushed to the branch. */
    pushedSha: text("pushed_sha"),
    number: integer("number"),
    url: text("url"),
    status: text("status").$type<PullRequestStatus>().notNull().default("waiting"),
    mergeState: text("merge_state").$type<MergeState>().notNull().default("off"),
    /** The checks of other systems on its head, as they were when we looked. */
    checks: jsonb("checks").$type<readonly ForgeCheck[]>().notNull().default([]),
    /** The newest commits that we pushed, oldest first. */
    commits: jsonb("commits").$type<readonly RequestCommit[]>().notNull().default([]),
    mergeSha: text("merge_sha"),
    /** Why it is stuck, and what to do. */
    problem: text("problem"),
    remedy: text("remedy"),
    /** Tries since the last success. */
    tries: integer("tries").notNull().default(0),
    /** Raised to ask for the delivery again (W13). */
    epoch: integer("epoch").notNull().default(0),
    /** When to look again; null: not before somebody asks. */
    nextAt: moment("next_at"),
    createdAt: created(),
    updatedAt: moment("updated_at").notNull().defaultNow(),
  },
  (table) => [
    ofOneTenant,
    uniqueIndex("pull_requests_by_build").on(table.buildId, table.key),
    index("pull_requests_by_time").on(table.status, table.nextAt),
    index("pull_requests_by_branch").on(table.repo, table.branch),
    check("pull_request_status", oneOf("status", pullRequestStatuses)),
    check("pull_request_merge_state", oneOf("merge_state", mergeStates)),
  ],
);

/** The finished steps of a pull request: a step with the same fingerprint is not repeated. */
export const forgeCalls = pgTable(
  "forge_calls",
  {
    buildId: text("build_id")
      .$type<BuildId>()
      .notNull()
      .references(() => builds.id),
    tenantId: ownTenant(),
    pullRequestId: text("pull_request_id")
      .$type<PullRequestId>()
      .notNull()
      .references(() => pullRequests.id),
    /** Such as `push`, or `check/wave-1/testing`. */
    step: text("step").notNull(),
    fingerprint: text("fingerprint").notNull(),
    doneAt: moment("done_at").notNull(),
  },
  (table) => [ofOneTenant, primaryKey({ columns: [table.pullRequestId, table.step] })],
);

/**
 * A build's spending on models, with the reservations of open calls; changed under a lock (W10).
 */
export const buildSpending = pgTable(
  "build_spending",
  {
    tenantId: ownTenant(),
    buildId: text("build_id")
      .$type<BuildId>()
      .primaryKey()
      .references(() => builds.id),
    reservedTokens: bigint("reserved_tokens", { mode: "number" }).notNull().default(0),
    spentTokens: bigint("spent_tokens", { mode: "number" }).notNull().default(0),
    reservedMicroUsd: bigint("reserved_micro_usd", { mode: "number" }).notNull().default(0),
    spentMicroUsd: bigint("spent_micro_usd", { mode: "number" }).notNull().default(0),
    /** Calls to models with an unknown price; no sum includes their cost. */
    unpricedCalls: integer("unpriced_calls").notNull().default(0),
  },
  () => [ofOneTenant],
);

/** Every model call; a row is written before the call is made, with its worst-case cost. */
export const modelCalls = pgTable(
  "model_calls",
  {
    tenantId: ownTenant(),
    id: text("id").primaryKey(),
    buildId: text("build_id")
      .$type<BuildId>()
      .notNull()
      .references(() => builds.id),
    /** The caller: an attempt, the agent of a gate, or a person in an attempt's session. */
    ownerKind: text("owner_kind").$type<"attempt" | "gate" | "session">().notNull(),
    ownerId: text("owner_id").notNull(),
    provider: text("provider").notNull(),
    model: text("model").notNull(),
    status: text("status").$type<ModelCallStatus>().notNull(),
    reservedTokens: bigint("reserved_tokens", { mode: "number" }).notNull(),
    /** Null if the model's price is unknown. */
    reservedMicroUsd: bigint("reserved_micro_usd", { mode: "number" }),
    inputTokens: bigint("input_tokens", { mode: "number" }),
    cachedTokens: bigint("cached_tokens", { mode: "number" }),
    outputTokens: bigint("output_tokens", { mode: "number" }),
    microUsd: bigint("micro_usd", { mode: "number" }),
    /** Whether the tokens are an estimate, because the provider did not report its usage. */
    estimated: boolean("estimated").notNull().default(false),
    httpStatus: integer("http_status"),
    error: text("error"),
    /** Whether it offers the model tools, as the calls that do an agent's work do. */
    offersTools: boolean("offers_tools").notNull().default(false),
    /** How its answer ended; null while it is open, and for calls of earlier versions. */
    ending: text("ending").$type<CallEnding>(),
    startedAt: moment("started_at").notNull().defaultNow(),
    endedAt: moment("ended_at"),
  },
  (table) => [
    ofOneTenant,
    index("model_calls_by_owner").on(table.ownerId),
    index("model_calls_by_build").on(table.buildId, table.startedAt),
    index("model_calls_open").on(table.buildId).where(sql`status = 'open'`),
    check("model_call_status", oneOf("status", modelCallStatuses)),
    check("model_call_ending", oneOf("ending", callEndings)),
    check("model_call_ended", sql`(status in ('waiting', 'open')) = (ended_at is null)`),
  ],
);

/**
 * Deliveries from forges and CI systems, our answers to people there, what we carried out for them
 * (OG1) and how far we have polled (PO1), so that nothing is handled twice.
 */
export const webhookDeliveries = pgTable(
  "webhook_deliveries",
  {
    /** Its source and its id there, such as `github:72d3162e-…`. */
    id: text("id").primaryKey(),
    tenantId: text("tenant_id")
      .$type<TenantId>()
      .notNull()
      .references(() => tenants.id),
    event: text("event").notNull(),
    /** The outcome, in words or as an id; of polling, the place we have read up to, as JSON. */
    answer: text("answer").notNull(),
    receivedAt: moment("received_at").notNull().defaultNow(),
  },
  (table) => [ofOneTenant, index("webhook_deliveries_by_time").on(table.receivedAt)],
);

/** The latest report on each check of one of our commits. */
export const ciChecks = pgTable(
  "ci_checks",
  {
    tenantId: ownTenant(),
    buildId: text("build_id")
      .$type<BuildId>()
      .notNull()
      .references(() => builds.id),
    sha: text("sha").notNull(),
    name: text("name").notNull(),
    conclusion: text("conclusion").$type<CheckConclusion>().notNull(),
    url: text("url"),
    completedAt: moment("completed_at").notNull(),
    /** The outcome, in words. */
    answer: text("answer").notNull(),
  },
  (table) => [
    ofOneTenant,
    primaryKey({ columns: [table.buildId, table.sha, table.name] }),
    check("ci_check_conclusion", oneOf("conclusion", checkConclusionSchema.options)),
  ],
);

/** Events in the order of their commits, to be sent to the engine and read by live views. */
export const outbox = pgTable(
  "outbox",
  {
    tenantId: ownTenant(),
    // A column `committed_by`, which only `event-feed.ts` reads, has the transaction of each row.
    seq: bigserial("seq", { mode: "number" }).primaryKey(),
    eventId: text("event_id").notNull().unique(),
    name: text("name").$type<EventName>().notNull(),
    projectId: text("project_id").$type<ProjectId>().notNull(),
    buildId: text("build_id").$type<BuildId>(),
    data: jsonb("data").$type<EventData<EventName> & Readonly<Record<string, unknown>>>().notNull(),
    createdAt: created(),
    sentAt: moment("sent_at"),
  },
  (table) => [
    ofOneTenant,
    index("outbox_unsent").on(table.seq).where(sql`sent_at is null`),
    index("outbox_by_build").on(table.buildId, table.seq),
    index("outbox_requests").on(table.sentAt).where(sql`name = 'project/build.requested' and build_id is null`),
  ],
);

/** The spans of the last hour that were exported, so that no process exports them again. */
export const exportedSpans = pgTable(
  "exported_spans",
  {
    /** The id of a build, wave, attempt, gate run or model call. */
    id: text("id").notNull(),
    /** When it ended; one that is retried ends again. */
    endedAt: moment("ended_at").notNull(),
  },
  (table) => [primaryKey({ columns: [table.id, table.endedAt] })],
);
