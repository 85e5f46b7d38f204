CREATE TABLE "notifications" (
	"id" text PRIMARY KEY NOT NULL,
	"tenant_id" text DEFAULT '' NOT NULL,
	"project_id" text NOT NULL,
	"build_id" text NOT NULL,
	"address" text NOT NULL,
	"event" text NOT NULL,
	"data" jsonb NOT NULL,
	"title" text NOT NULL,
	"text" text NOT NULL,
	"status" text DEFAULT 'waiting' NOT NULL,
	"tries" integer DEFAULT 0 NOT NULL,
	"next_at" timestamp with time zone NOT NULL,
	"problem" text,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	"sent_at" timestamp with time zone,
	CONSTRAINT "notification_status" CHECK ("status" in ('waiting', 'sent', 'dead'))
);
--> statement-breakpoint
ALTER TABLE "notifications" ENABLE ROW LEVEL SECURITY;--> statement-breakpoint
ALTER TABLE "notifications" ADD CONSTRAINT "notifications_project_id_projects_id_fk" FOREIGN KEY ("project_id") REFERENCES "public"."projects"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "notifications" ADD CONSTRAINT "notifications_build_id_builds_id_fk" FOREIGN KEY ("build_id") REFERENCES "public"."builds"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "notifications_by_time" ON "notifications" USING btree ("status","next_at");--> statement-breakpoint
CREATE INDEX "notifications_by_build" ON "notifications" USING btree ("build_id","created_at");--> statement-breakpoint
CREATE POLICY "own_tenant" ON "notifications" AS PERMISSIVE FOR ALL TO public USING (tenant_id = (select current_setting('wavesmith.tenant', true)));--> statement-breakpoint
CREATE TRIGGER "own_tenant" BEFORE INSERT ON "notifications" FOR EACH ROW EXECUTE FUNCTION "tenant_of_build"();
