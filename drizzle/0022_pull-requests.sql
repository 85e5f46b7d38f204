CREATE TABLE "forge_calls" (
	"build_id" text NOT NULL,
	"tenant_id" text DEFAULT '' NOT NULL,
	"pull_request_id" text NOT NULL,
	"step" text NOT NULL,
	"fingerprint" text NOT NULL,
	"done_at" timestamp with time zone NOT NULL,
	CONSTRAINT "forge_calls_pull_request_id_step_pk" PRIMARY KEY("pull_request_id","step")
);
--> statement-breakpoint
ALTER TABLE "forge_calls" ENABLE ROW LEVEL SECURITY;--> statement-breakpoint
CREATE TABLE "pull_requests" (
	"id" text PRIMARY KEY NOT NULL,
	"tenant_id" text DEFAULT '' NOT NULL,
	"project_id" text NOT NULL,
	"build_id" text NOT NULL,
	"key" text NOT NULL,
	"forge" text NOT NULL,
	"repo" text NOT NULL,
	"repo_id" text,
	"branch" text NOT NULL,
	"base" text,
	"wave_number" integer NOT NULL,
	"sha" text NOT NULL,
	"pushed_sha" text,
	"number" integer,
	"url" text,
	"status" text DEFAULT 'waiting' NOT NULL,
	"merge_state" text DEFAULT 'off' NOT NULL,
	"checks" jsonb DEFAULT '[]'::jsonb NOT NULL,
	"merge_sha" text,
	"problem" text,
	"remedy" text,
	"tries" integer DEFAULT 0 NOT NULL,
	"epoch" integer DEFAULT 0 NOT NULL,
	"next_at" timestamp with time zone,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "pull_request_status" CHECK ("status" in ('waiting', 'open', 'merged', 'blocked', 'closed')),
	CONSTRAINT "pull_request_merge_state" CHECK ("merge_state" in ('off', 'checks', 'approval', 'conflict', 'queued', 'merged'))
);
--> statement-breakpoint
ALTER TABLE "pull_requests" ENABLE ROW LEVEL SECURITY;--> statement-breakpoint
ALTER TABLE "forge_calls" ADD CONSTRAINT "forge_calls_build_id_builds_id_fk" FOREIGN KEY ("build_id") REFERENCES "public"."builds"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "forge_calls" ADD CONSTRAINT "forge_calls_pull_request_id_pull_requests_id_fk" FOREIGN KEY ("pull_request_id") REFERENCES "public"."pull_requests"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "pull_requests" ADD CONSTRAINT "pull_requests_project_id_projects_id_fk" FOREIGN KEY ("project_id") REFERENCES "public"."projects"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "pull_requests" ADD CONSTRAINT "pull_requests_build_id_builds_id_fk" FOREIGN KEY ("build_id") REFERENCES "public"."builds"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
CREATE UNIQUE INDEX "pull_requests_by_build" ON "pull_requests" USING btree ("build_id","key");--> statement-breakpoint
CREATE INDEX "pull_requests_by_time" ON "pull_requests" USING btree ("status","next_at");--> statement-breakpoint
CREATE INDEX "pull_requests_by_branch" ON "pull_requests" USING btree ("repo","branch");--> statement-breakpoint
CREATE POLICY "own_tenant" ON "forge_calls" AS PERMISSIVE FOR ALL TO public USING (tenant_id = (select current_setting('wavesmith.tenant', true)));--> statement-breakpoint
CREATE POLICY "own_tenant" ON "pull_requests" AS PERMISSIVE FOR ALL TO public USING (tenant_id = (select current_setting('wavesmith.tenant', true)));--> statement-breakpoint
CREATE TRIGGER "own_tenant" BEFORE INSERT ON "pull_requests" FOR EACH ROW EXECUTE FUNCTION "tenant_of_build"();--> statement-breakpoint
CREATE TRIGGER "own_tenant" BEFORE INSERT ON "forge_calls" FOR EACH ROW EXECUTE FUNCTION "tenant_of_build"();
