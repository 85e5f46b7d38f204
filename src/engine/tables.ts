import { sql } from "drizzle-orm";
import {
  bigint,
  boolean,
  foreignKey,
  index,
  integer,
  json,
  pgSchema,
  primaryKey,
  text,
  timestamp,
  unique,
  uniqueIndex,
} from "drizzle-orm/pg-core";

// The engine's tables, from which drizzle-kit makes migrations; the engine itself uses plain SQL.
// JSON columns are `json`, not `jsonb`, so that a step's result comes back byte for byte, "\u0000"
// and key order included.

export const engineSchema = pgSchema("engine");

const moment = (name: string) => timestamp(name, { withTimezone: true });

/**
 * Received events. Their keys stay for ever, so that a repeated event starts nothing; the `data` of
 * old ones is removed.
 */
export const engineEvents = engineSchema.table(
  "events",
  {
    name: text("name").notNull(),
    id: text("id").notNull(),
    data: json("data"),
    ts: bigint("ts", { mode: "number" }).notNull(),
    receivedAt: moment("received_at").notNull(),
  },
  (table) => [
    primaryKey({ name: "events_pk", columns: [table.name, table.id] }),
    index("events_received_at").on(table.receivedAt).where(sql`${table.data} is not null`),
  ],
);

/**
 * One execution of one function for one event. `force_plan` is true while parallel steps are open,
 * each of which gets its own call.
 */
export const engineRuns = engineSchema.table(
  "runs",
  {
    id: text("id").primaryKey(),
    functionId: text("function_id").notNull(),
    eventName: text("event_name").notNull(),
    eventId: text("event_id").notNull(),
    event: json("event").notNull(),
    partition: text("partition"),
    status: text("status", { enum: ["running", "completed", "failed"] }).notNull(),
    forcePlan: boolean("force_plan").notNull().default(false),
    output: json("output"),
    startedAt: moment("started_at").notNull(),
    endedAt: moment("ended_at"),
  },
  (table) => [
    unique("runs_function_event").on(table.functionId, table.eventName, table.eventId),
    index("runs_partition").on(table.partition),
    index("runs_ended_at").on(table.endedAt).where(sql`${table.endedAt} is not null`),
  ],
);

/** Results of steps; `seq` is the order in which the steps ended (the protocol's stack). */
export const engineSteps = engineSchema.table(
  "steps",
  {
    runId: text("run_id").notNull(),
    stepId: text("step_id").notNull(),
    seq: bigint("seq", { mode: "number" }).notNull().generatedAlwaysAsIdentity({ name: "steps_seq" }),
    value: json("value").notNull(),
  },
  (table) => [
    primaryKey({ name: "steps_pk", columns: [table.runId, table.stepId] }),
    foreignKey({ name: "steps_run", columns: [table.runId], foreignColumns: [engineRuns.id] }).onDelete("cascade"),
  ],
);

/** Parallel steps that have not ended yet; the run continues when its last one ends. */
export const enginePending = engineSchema.table(
  "pending",
  { runId: text("run_id").notNull(), stepId: text("step_id").notNull() },
  (table) => [
    primaryKey({ name: "pending_pk", columns: [table.runId, table.stepId] }),
    foreignKey({ name: "pending_run", columns: [table.runId], foreignColumns: [engineRuns.id] }).onDelete("cascade"),
  ],
);

/**
 * Pending work: calls into a function, and timers. `holder` is the process that has leased the job;
 * `generation` counts the leases and is the fence. `slots` are the concurrency keys the job takes,
 * each `<limit> <key>`.
 */
export const engineJobs = engineSchema.table(
  "jobs",
  {
    id: bigint("id", { mode: "number" }).primaryKey().generatedAlwaysAsIdentity({ name: "jobs_id" }),
    runId: text("run_id").notNull(),
    functionId: text("function_id").notNull(),
    partition: text("partition"),
    kind: text("kind", { enum: ["call", "timer"] }).notNull(),
    stepId: text("step_id"),
    attempt: integer("attempt").notNull().default(0),
    dueAt: moment("due_at").notNull(),
    slots: text("slots").array().notNull(),
    generation: integer("generation").notNull().default(0),
    holder: text("holder"),
    leaseUntil: moment("lease_until"),
  },
  (table) => [
    foreignKey({ name: "jobs_run", columns: [table.runId], foreignColumns: [engineRuns.id] }).onDelete("cascade"),
    uniqueIndex("jobs_step").on(table.runId, table.stepId).where(sql`${table.stepId} is not null`),
    index("jobs_run_id").on(table.runId),
    index("jobs_due").on(table.dueAt, table.id).where(sql`${table.holder} is null`),
    index("jobs_held").on(table.holder).where(sql`${table.holder} is not null`),
  ],
);

/** The next tick of each cron trigger. */
export const engineCrons = engineSchema.table(
  "crons",
  {
    functionId: text("function_id").notNull(),
    expression: text("expression").notNull(),
    dueAt: moment("due_at").notNull(),
  },
  (table) => [primaryKey({ name: "crons_pk", columns: [table.functionId, table.expression] })],
);
