CREATE TABLE "snapshots" (
	"id" text PRIMARY KEY NOT NULL,
	"project_id" text NOT NULL,
	"sandbox_id" text NOT NULL,
	"state" text NOT NULL,
	"reason" text NOT NULL,
	"format" text NOT NULL,
	"size_bytes" bigint,
	"sha256" text,
	"error" text,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	"ended_at" timestamp with time zone,
	"expires_at" timestamp with time zone NOT NULL,
	CONSTRAINT "snapshot_state" CHECK ("state" in ('writing', 'kept', 'failed', 'removed')),
	CONSTRAINT "snapshot_kept_has_checksum" CHECK (state <> 'kept' or (sha256 is not null and size_bytes is not null))
);
--> statement-breakpoint
ALTER TABLE "sandboxes" DROP CONSTRAINT "sandbox_state";--> statement-breakpoint
ALTER TABLE "sandboxes" ADD COLUMN "network" jsonb;--> statement-breakpoint
ALTER TABLE "sandboxes" ADD COLUMN "limits" jsonb;--> statement-breakpoint
ALTER TABLE "sandboxes" ADD COLUMN "started_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "sandboxes" ADD COLUMN "checked_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "sandboxes" ADD COLUMN "stopped_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "sandboxes" ADD COLUMN "reason" text;--> statement-breakpoint
ALTER TABLE "snapshots" ADD CONSTRAINT "snapshots_project_id_projects_id_fk" FOREIGN KEY ("project_id") REFERENCES "public"."projects"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "snapshots" ADD CONSTRAINT "snapshots_sandbox_id_sandboxes_id_fk" FOREIGN KEY ("sandbox_id") REFERENCES "public"."sandboxes"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "snapshots_by_project" ON "snapshots" USING btree ("project_id","created_at");--> statement-breakpoint
ALTER TABLE "sandboxes" ADD CONSTRAINT "sandbox_state" CHECK ("state" in ('wanted', 'running', 'stopped', 'lost', 'removed'));