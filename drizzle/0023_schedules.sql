CREATE TABLE "schedules" (
	"id" text PRIMARY KEY NOT NULL,
	"tenant_id" text DEFAULT '' NOT NULL,
	"project_id" text NOT NULL,
	"name" text NOT NULL,
	"origin" text NOT NULL,
	"cron" text NOT NULL,
	"timezone" text NOT NULL,
	"request" jsonb NOT NULL,
	"status" text DEFAULT 'active' NOT NULL,
	"next_at" timestamp with time zone NOT NULL,
	"failures" integer DEFAULT 0 NOT NULL,
	"last_build_id" text,
	"last_run_at" timestamp with time zone,
	"is_settled" boolean DEFAULT true NOT NULL,
	"note" text,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "schedule_status" CHECK ("status" in ('active', 'paused')),
	CONSTRAINT "schedule_origin" CHECK ("origin" in ('main', 'file'))
);
--> statement-breakpoint
ALTER TABLE "schedules" ENABLE ROW LEVEL SECURITY;--> statement-breakpoint
ALTER TABLE "schedules" ADD CONSTRAINT "schedules_project_id_projects_id_fk" FOREIGN KEY ("project_id") REFERENCES "public"."projects"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "schedules_by_time" ON "schedules" USING btree ("status","next_at");--> statement-breakpoint
CREATE POLICY "own_tenant" ON "schedules" AS PERMISSIVE FOR ALL TO public USING (tenant_id = (select current_setting('wavesmith.tenant', true)));--> statement-breakpoint
CREATE TRIGGER "own_tenant" BEFORE INSERT ON "schedules" FOR EACH ROW EXECUTE FUNCTION "tenant_of_project"();
