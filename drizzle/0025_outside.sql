CREATE TABLE "ci_checks" (
	"tenant_id" text DEFAULT '' NOT NULL,
	"build_id" text NOT NULL,
	"sha" text NOT NULL,
	"name" text NOT NULL,
	"conclusion" text NOT NULL,
	"url" text,
	"completed_at" timestamp with time zone NOT NULL,
	"answer" text NOT NULL,
	CONSTRAINT "ci_checks_build_id_sha_name_pk" PRIMARY KEY("build_id","sha","name"),
	CONSTRAINT "ci_check_conclusion" CHECK ("conclusion" in ('passed', 'failed', 'cancelled'))
);
--> statement-breakpoint
ALTER TABLE "ci_checks" ENABLE ROW LEVEL SECURITY;--> statement-breakpoint
CREATE TABLE "webhook_deliveries" (
	"id" text PRIMARY KEY NOT NULL,
	"tenant_id" text NOT NULL,
	"event" text NOT NULL,
	"answer" text NOT NULL,
	"received_at" timestamp with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
ALTER TABLE "webhook_deliveries" ENABLE ROW LEVEL SECURITY;--> statement-breakpoint
ALTER TABLE "comments" ADD COLUMN "origin" text;--> statement-breakpoint
ALTER TABLE "comments" ADD COLUMN "log" text;--> statement-breakpoint
ALTER TABLE "ci_checks" ADD CONSTRAINT "ci_checks_build_id_builds_id_fk" FOREIGN KEY ("build_id") REFERENCES "public"."builds"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "webhook_deliveries" ADD CONSTRAINT "webhook_deliveries_tenant_id_tenants_id_fk" FOREIGN KEY ("tenant_id") REFERENCES "public"."tenants"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "webhook_deliveries_by_time" ON "webhook_deliveries" USING btree ("received_at");--> statement-breakpoint
ALTER TABLE "comments" ADD CONSTRAINT "comments_origin_unique" UNIQUE("origin");--> statement-breakpoint
CREATE POLICY "own_tenant" ON "ci_checks" AS PERMISSIVE FOR ALL TO public USING (tenant_id = (select current_setting('wavesmith.tenant', true)));--> statement-breakpoint
CREATE POLICY "own_tenant" ON "webhook_deliveries" AS PERMISSIVE FOR ALL TO public USING (tenant_id = (select current_setting('wavesmith.tenant', true)));--> statement-breakpoint
CREATE TRIGGER "own_tenant" BEFORE INSERT ON "ci_checks" FOR EACH ROW EXECUTE FUNCTION "tenant_of_build"();
