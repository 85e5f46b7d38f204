CREATE SCHEMA "engine";
--> statement-breakpoint
CREATE TABLE "approvals" (
	"id" text PRIMARY KEY NOT NULL,
	"build_id" text NOT NULL,
	"wave_id" text NOT NULL,
	"sha" text NOT NULL,
	"decision" text NOT NULL,
	"decided_by" text,
	"reason" text,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "approval_decision" CHECK ("decision" in ('approved', 'rejected')),
	CONSTRAINT "approval_rejected_has_reason" CHECK (decision = 'approved' or reason is not null)
);
--> statement-breakpoint
CREATE TABLE "attempts" (
	"id" text PRIMARY KEY NOT NULL,
	"build_id" text NOT NULL,
	"wave_id" text NOT NULL,
	"task_id" text,
	"kind" text NOT NULL,
	"role" text NOT NULL,
	"number" integer NOT NULL,
	"fence" integer DEFAULT 0 NOT NULL,
	"status" text NOT NULL,
	"outcome" text,
	"base_sha" text NOT NULL,
	"commit_sha" text,
	"tree_path" text NOT NULL,
	"ref" text NOT NULL,
	"job_key" text NOT NULL,
	"gate_run_id" text,
	"approval_id" text,
	"epoch" integer DEFAULT 0 NOT NULL,
	"paths" jsonb DEFAULT '[]'::jsonb NOT NULL,
	"reason" text,
	"output_tail" text,
	"verdict" jsonb,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	"started_at" timestamp with time zone,
	"ended_at" timestamp with time zone,
	CONSTRAINT "attempts_job_key_unique" UNIQUE("job_key"),
	CONSTRAINT "attempt_status" CHECK ("status" in ('requested', 'starting', 'running', 'finishing', 'settled')),
	CONSTRAINT "attempt_outcome" CHECK (outcome is null or "outcome" in ('succeeded', 'failed', 'timed-out', 'cancelled', 'lost', 'refused', 'over-budget')),
	CONSTRAINT "attempt_settled" CHECK ((status = 'settled') = (outcome is not null)),
	CONSTRAINT "attempt_kind" CHECK ((kind = 'task') = (task_id is not null))
);
--> statement-breakpoint
CREATE TABLE "builds" (
	"id" text PRIMARY KEY NOT NULL,
	"tenant_id" text NOT NULL,
	"project_id" text NOT NULL,
	"event_id" text NOT NULL,
	"requested_by" text,
	"position" bigserial NOT NULL,
	"status" text NOT NULL,
	"plan" jsonb NOT NULL,
	"sandbox_driver" text NOT NULL,
	"network" text NOT NULL,
	"base_sha" text,
	"head_sha" text,
	"epoch" integer DEFAULT 0 NOT NULL,
	"reason" text,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	"started_at" timestamp with time zone,
	"deadline_at" timestamp with time zone,
	"moved_at" timestamp with time zone DEFAULT now() NOT NULL,
	"ended_at" timestamp with time zone,
	CONSTRAINT "builds_event_id_unique" UNIQUE("event_id"),
	CONSTRAINT "build_status" CHECK ("status" in ('queued', 'running', 'waiting', 'cancelling', 'completed', 'failed', 'cancelled')),
	CONSTRAINT "build_ended" CHECK ((status in ('completed', 'failed', 'cancelled')) = (ended_at is not null)),
	CONSTRAINT "build_completed_has_head" CHECK (status <> 'completed' or head_sha is not null)
);
--> statement-breakpoint
CREATE TABLE "dependencies" (
	"task_id" text NOT NULL,
	"depends_on_id" text NOT NULL,
	CONSTRAINT "dependencies_task_id_depends_on_id_pk" PRIMARY KEY("task_id","depends_on_id"),
	CONSTRAINT "no_self_dependency" CHECK (task_id <> depends_on_id)
);
--> statement-breakpoint
CREATE TABLE "findings" (
	"id" bigserial PRIMARY KEY NOT NULL,
	"gate_run_id" text NOT NULL,
	"rule" text NOT NULL,
	"severity" text NOT NULL,
	"message" text NOT NULL,
	"file" text,
	"line" integer,
	"confidence_percent" integer,
	CONSTRAINT "finding_severity" CHECK ("severity" in ('low', 'medium', 'high', 'critical'))
);
--> statement-breakpoint
CREATE TABLE "gate_runs" (
	"id" text PRIMARY KEY NOT NULL,
	"build_id" text NOT NULL,
	"wave_id" text NOT NULL,
	"gate" text NOT NULL,
	"round" integer NOT NULL,
	"sha" text NOT NULL,
	"epoch" integer NOT NULL,
	"fence" integer DEFAULT 0 NOT NULL,
	"status" text NOT NULL,
	"verdict" text,
	"reason" text,
	"fixable" boolean DEFAULT false NOT NULL,
	"evidence" jsonb,
	"fingerprint" text,
	"losses" integer DEFAULT 0 NOT NULL,
	"job_key" text,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	"ended_at" timestamp with time zone,
	CONSTRAINT "one_gate_run_per_round" UNIQUE("wave_id","gate","round"),
	CONSTRAINT "gate_name" CHECK ("gate" in ('testing', 'critic', 'integration')),
	CONSTRAINT "gate_verdict" CHECK (verdict is null or "verdict" in ('passed', 'failed', 'inconclusive', 'absent', 'not-due', 'off')),
	CONSTRAINT "gate_finished" CHECK ((status = 'finished') = (verdict is not null)),
	CONSTRAINT "gate_passed_has_evidence" CHECK (verdict is distinct from 'passed' or evidence is not null)
);
--> statement-breakpoint
CREATE TABLE "installations" (
	"id" text PRIMARY KEY NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "jobs" (
	"key" text PRIMARY KEY NOT NULL,
	"build_id" text NOT NULL,
	"project_id" text NOT NULL,
	"owner_kind" text NOT NULL,
	"owner_id" text NOT NULL,
	"owner_fence" integer NOT NULL,
	"status" text NOT NULL,
	"cancel_reason" text,
	"lease_owner" text,
	"lease_until" timestamp with time zone,
	"fence" integer DEFAULT 0 NOT NULL,
	"output_offset" bigint DEFAULT 0 NOT NULL,
	"state" jsonb,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	"ended_at" timestamp with time zone,
	CONSTRAINT "job_status" CHECK ("status" in ('intended', 'running', 'ended')),
	CONSTRAINT "job_owner" CHECK ("owner_kind" in ('attempt', 'gate', 'preview'))
);
--> statement-breakpoint
CREATE TABLE "log_chunks" (
	"job_key" text NOT NULL,
	"starts_at" bigint NOT NULL,
	"text" text NOT NULL,
	"at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "log_chunks_job_key_starts_at_pk" PRIMARY KEY("job_key","starts_at")
);
--> statement-breakpoint
CREATE TABLE "outbox" (
	"seq" bigserial PRIMARY KEY NOT NULL,
	"event_id" text NOT NULL,
	"name" text NOT NULL,
	"project_id" text NOT NULL,
	"build_id" text,
	"data" jsonb NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	"sent_at" timestamp with time zone,
	CONSTRAINT "outbox_event_id_unique" UNIQUE("event_id")
);
--> statement-breakpoint
CREATE TABLE "previews" (
	"build_id" text PRIMARY KEY NOT NULL,
	"wave_number" integer NOT NULL,
	"sha" text NOT NULL,
	"status" text NOT NULL,
	"port" integer NOT NULL,
	"starts" integer DEFAULT 1 NOT NULL,
	"job_key" text NOT NULL,
	"reason" text
);
--> statement-breakpoint
CREATE TABLE "projects" (
	"id" text PRIMARY KEY NOT NULL,
	"tenant_id" text NOT NULL,
	"name" text NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "one_project_per_name" UNIQUE("tenant_id","name")
);
--> statement-breakpoint
CREATE TABLE "restore_points" (
	"build_id" text NOT NULL,
	"wave_number" integer NOT NULL,
	"sha" text NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "restore_points_build_id_wave_number_pk" PRIMARY KEY("build_id","wave_number")
);
--> statement-breakpoint
CREATE TABLE "sandboxes" (
	"id" text PRIMARY KEY NOT NULL,
	"project_id" text NOT NULL,
	"driver" text NOT NULL,
	"state" text NOT NULL,
	"boot_id" text,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	"used_at" timestamp with time zone DEFAULT now() NOT NULL,
	"removed_at" timestamp with time zone,
	CONSTRAINT "sandbox_state" CHECK ("state" in ('wanted', 'running', 'stopped', 'removed'))
);
--> statement-breakpoint
CREATE TABLE "tasks" (
	"id" text PRIMARY KEY NOT NULL,
	"build_id" text NOT NULL,
	"key" text NOT NULL,
	"position" integer NOT NULL,
	"agent" text NOT NULL,
	"definition" jsonb NOT NULL,
	"status" text NOT NULL,
	"wave_id" text,
	"epoch" integer DEFAULT 0 NOT NULL,
	"attempts" integer DEFAULT 0 NOT NULL,
	"retries_used" integer DEFAULT 0 NOT NULL,
	"losses" integer DEFAULT 0 NOT NULL,
	"conflicts" jsonb DEFAULT '[]'::jsonb NOT NULL,
	"commit_sha" text,
	"summary" text,
	"changed_files" jsonb DEFAULT '[]'::jsonb NOT NULL,
	"reason" text,
	"ended_at" timestamp with time zone,
	CONSTRAINT "one_task_per_key" UNIQUE("build_id","key"),
	CONSTRAINT "task_status" CHECK ("status" in ('pending', 'assigned', 'running', 'joining', 'completed', 'failed', 'skipped', 'cancelled', 'removed')),
	CONSTRAINT "task_in_wave" CHECK (status not in ('assigned', 'running', 'joining', 'completed') or wave_id is not null)
);
--> statement-breakpoint
CREATE TABLE "tenants" (
	"id" text PRIMARY KEY NOT NULL,
	"name" text NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "tenants_name_unique" UNIQUE("name")
);
--> statement-breakpoint
CREATE TABLE "wave_tasks" (
	"wave_id" text NOT NULL,
	"task_id" text NOT NULL,
	CONSTRAINT "wave_tasks_wave_id_task_id_pk" PRIMARY KEY("wave_id","task_id")
);
--> statement-breakpoint
CREATE TABLE "waves" (
	"id" text PRIMARY KEY NOT NULL,
	"build_id" text NOT NULL,
	"number" integer NOT NULL,
	"status" text NOT NULL,
	"base_sha" text NOT NULL,
	"head_sha" text,
	"fix_rounds" integer DEFAULT 0 NOT NULL,
	"epoch" integer DEFAULT 0 NOT NULL,
	"approved_sha" text,
	"rejected_sha" text,
	"reason" text,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	"passed_at" timestamp with time zone,
	"delivered_at" timestamp with time zone,
	"ended_at" timestamp with time zone,
	CONSTRAINT "one_wave_per_build_and_number" UNIQUE("build_id","number"),
	CONSTRAINT "wave_status" CHECK ("status" in ('running', 'joining', 'gating', 'fixing', 'waiting', 'passed', 'blocked', 'failed', 'cancelled')),
	CONSTRAINT "wave_passed_has_sha" CHECK (status <> 'passed' or (head_sha is not null and passed_at is not null)),
	CONSTRAINT "wave_delivered_was_passed" CHECK (delivered_at is null or status = 'passed')
);
--> statement-breakpoint
CREATE TABLE "engine"."crons" (
	"function_id" text NOT NULL,
	"expression" text NOT NULL,
	"due_at" timestamp with time zone NOT NULL,
	CONSTRAINT "crons_pk" PRIMARY KEY("function_id","expression")
);
--> statement-breakpoint
CREATE TABLE "engine"."events" (
	"name" text NOT NULL,
	"id" text NOT NULL,
	"data" json,
	"ts" bigint NOT NULL,
	"received_at" timestamp with time zone NOT NULL,
	CONSTRAINT "events_pk" PRIMARY KEY("name","id")
);
--> statement-breakpoint
CREATE TABLE "engine"."jobs" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "engine"."jobs_id" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"run_id" text NOT NULL,
	"function_id" text NOT NULL,
	"partition" text,
	"kind" text NOT NULL,
	"step_id" text,
	"attempt" integer DEFAULT 0 NOT NULL,
	"due_at" timestamp with time zone NOT NULL,
	"slots" text[] NOT NULL,
	"generation" integer DEFAULT 0 NOT NULL,
	"holder" text,
	"lease_until" timestamp with time zone
);
--> statement-breakpoint
CREATE TABLE "engine"."pending" (
	"run_id" text NOT NULL,
	"step_id" text NOT NULL,
	CONSTRAINT "pending_pk" PRIMARY KEY("run_id","step_id")
);
--> statement-breakpoint
CREATE TABLE "engine"."runs" (
	"id" text PRIMARY KEY NOT NULL,
	"function_id" text NOT NULL,
	"event_name" text NOT NULL,
	"event_id" text NOT NULL,
	"event" json NOT NULL,
	"partition" text,
	"status" text NOT NULL,
	"force_plan" boolean DEFAULT false NOT NULL,
	"output" json,
	"started_at" timestamp with time zone NOT NULL,
	"ended_at" timestamp with time zone,
	CONSTRAINT "runs_function_event" UNIQUE("function_id","event_name","event_id")
);
--> statement-breakpoint
CREATE TABLE "engine"."steps" (
	"run_id" text NOT NULL,
	"step_id" text NOT NULL,
	"seq" bigint GENERATED ALWAYS AS IDENTITY (sequence name "engine"."steps_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"value" json NOT NULL,
	CONSTRAINT "steps_pk" PRIMARY KEY("run_id","step_id")
);
--> statement-breakpoint
ALTER TABLE "approvals" ADD CONSTRAINT "approvals_build_id_builds_id_fk" FOREIGN KEY ("build_id") REFERENCES "public"."builds"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "approvals" ADD CONSTRAINT "approvals_wave_id_waves_id_fk" FOREIGN KEY ("wave_id") REFERENCES "public"."waves"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "attempts" ADD CONSTRAINT "attempts_build_id_builds_id_fk" FOREIGN KEY ("build_id") REFERENCES "public"."builds"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "attempts" ADD CONSTRAINT "attempts_wave_id_waves_id_fk" FOREIGN KEY ("wave_id") REFERENCES "public"."waves"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "attempts" ADD CONSTRAINT "attempts_task_id_tasks_id_fk" FOREIGN KEY ("task_id") REFERENCES "public"."tasks"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "builds" ADD CONSTRAINT "builds_tenant_id_tenants_id_fk" FOREIGN KEY ("tenant_id") REFERENCES "public"."tenants"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "builds" ADD CONSTRAINT "builds_project_id_projects_id_fk" FOREIGN KEY ("project_id") REFERENCES "public"."projects"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "dependencies" ADD CONSTRAINT "dependencies_task_id_tasks_id_fk" FOREIGN KEY ("task_id") REFERENCES "public"."tasks"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "dependencies" ADD CONSTRAINT "dependencies_depends_on_id_tasks_id_fk" FOREIGN KEY ("depends_on_id") REFERENCES "public"."tasks"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "findings" ADD CONSTRAINT "findings_gate_run_id_gate_runs_id_fk" FOREIGN KEY ("gate_run_id") REFERENCES "public"."gate_runs"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "gate_runs" ADD CONSTRAINT "gate_runs_build_id_builds_id_fk" FOREIGN KEY ("build_id") REFERENCES "public"."builds"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "gate_runs" ADD CONSTRAINT "gate_runs_wave_id_waves_id_fk" FOREIGN KEY ("wave_id") REFERENCES "public"."waves"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "jobs" ADD CONSTRAINT "jobs_build_id_builds_id_fk" FOREIGN KEY ("build_id") REFERENCES "public"."builds"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "jobs" ADD CONSTRAINT "jobs_project_id_projects_id_fk" FOREIGN KEY ("project_id") REFERENCES "public"."projects"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "log_chunks" ADD CONSTRAINT "log_chunks_job_key_jobs_key_fk" FOREIGN KEY ("job_key") REFERENCES "public"."jobs"("key") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "previews" ADD CONSTRAINT "previews_build_id_builds_id_fk" FOREIGN KEY ("build_id") REFERENCES "public"."builds"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "projects" ADD CONSTRAINT "projects_tenant_id_tenants_id_fk" FOREIGN KEY ("tenant_id") REFERENCES "public"."tenants"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "restore_points" ADD CONSTRAINT "restore_points_build_id_builds_id_fk" FOREIGN KEY ("build_id") REFERENCES "public"."builds"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "sandboxes" ADD CONSTRAINT "sandboxes_project_id_projects_id_fk" FOREIGN KEY ("project_id") REFERENCES "public"."projects"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "tasks" ADD CONSTRAINT "tasks_build_id_builds_id_fk" FOREIGN KEY ("build_id") REFERENCES "public"."builds"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "tasks" ADD CONSTRAINT "tasks_wave_id_waves_id_fk" FOREIGN KEY ("wave_id") REFERENCES "public"."waves"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "wave_tasks" ADD CONSTRAINT "wave_tasks_wave_id_waves_id_fk" FOREIGN KEY ("wave_id") REFERENCES "public"."waves"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "wave_tasks" ADD CONSTRAINT "wave_tasks_task_id_tasks_id_fk" FOREIGN KEY ("task_id") REFERENCES "public"."tasks"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "waves" ADD CONSTRAINT "waves_build_id_builds_id_fk" FOREIGN KEY ("build_id") REFERENCES "public"."builds"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "engine"."jobs" ADD CONSTRAINT "jobs_run" FOREIGN KEY ("run_id") REFERENCES "engine"."runs"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "engine"."pending" ADD CONSTRAINT "pending_run" FOREIGN KEY ("run_id") REFERENCES "engine"."runs"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "engine"."steps" ADD CONSTRAINT "steps_run" FOREIGN KEY ("run_id") REFERENCES "engine"."runs"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "approvals_by_wave" ON "approvals" USING btree ("wave_id");--> statement-breakpoint
CREATE UNIQUE INDEX "one_live_attempt_per_task" ON "attempts" USING btree ("task_id") WHERE status <> 'settled' and task_id is not null;--> statement-breakpoint
CREATE UNIQUE INDEX "one_live_attempt_on_a_wave_head" ON "attempts" USING btree ("wave_id") WHERE status <> 'settled' and task_id is null;--> statement-breakpoint
CREATE UNIQUE INDEX "one_attempt_per_task_and_number" ON "attempts" USING btree ("task_id","number");--> statement-breakpoint
CREATE INDEX "attempts_by_build" ON "attempts" USING btree ("build_id");--> statement-breakpoint
CREATE UNIQUE INDEX "one_running_build_per_project" ON "builds" USING btree ("project_id") WHERE status in ('running', 'waiting', 'cancelling');--> statement-breakpoint
CREATE INDEX "builds_by_project" ON "builds" USING btree ("project_id","position");--> statement-breakpoint
CREATE INDEX "findings_by_gate_run" ON "findings" USING btree ("gate_run_id");--> statement-breakpoint
CREATE UNIQUE INDEX "one_live_gate_per_wave" ON "gate_runs" USING btree ("wave_id") WHERE status <> 'finished';--> statement-breakpoint
CREATE INDEX "jobs_by_build" ON "jobs" USING btree ("build_id");--> statement-breakpoint
CREATE INDEX "jobs_live" ON "jobs" USING btree ("project_id") WHERE status <> 'ended';--> statement-breakpoint
CREATE INDEX "outbox_unsent" ON "outbox" USING btree ("seq") WHERE sent_at is null;--> statement-breakpoint
CREATE INDEX "outbox_by_build" ON "outbox" USING btree ("build_id","seq");--> statement-breakpoint
CREATE UNIQUE INDEX "one_sandbox_per_project" ON "sandboxes" USING btree ("project_id") WHERE state <> 'removed';--> statement-breakpoint
CREATE UNIQUE INDEX "one_live_wave_per_build" ON "waves" USING btree ("build_id") WHERE status in ('running', 'joining', 'gating', 'fixing', 'waiting');--> statement-breakpoint
CREATE INDEX "events_received_at" ON "engine"."events" USING btree ("received_at") WHERE "engine"."events"."data" is not null;--> statement-breakpoint
CREATE UNIQUE INDEX "jobs_step" ON "engine"."jobs" USING btree ("run_id","step_id") WHERE "engine"."jobs"."step_id" is not null;--> statement-breakpoint
CREATE INDEX "jobs_run_id" ON "engine"."jobs" USING btree ("run_id");--> statement-breakpoint
CREATE INDEX "jobs_due" ON "engine"."jobs" USING btree ("due_at","id") WHERE "engine"."jobs"."holder" is null;--> statement-breakpoint
CREATE INDEX "jobs_held" ON "engine"."jobs" USING btree ("holder") WHERE "engine"."jobs"."holder" is not null;--> statement-breakpoint
CREATE INDEX "runs_partition" ON "engine"."runs" USING btree ("partition");--> statement-breakpoint
CREATE INDEX "runs_ended_at" ON "engine"."runs" USING btree ("ended_at") WHERE "engine"."runs"."ended_at" is not null;