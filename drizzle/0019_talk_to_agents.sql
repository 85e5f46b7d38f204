CREATE TABLE "comments" (
	"tenant_id" text DEFAULT '' NOT NULL,
	"id" bigserial PRIMARY KEY NOT NULL,
	"build_id" text NOT NULL,
	"wave_id" text,
	"task_id" text,
	"sha" text,
	"file" text,
	"line" integer,
	"end_line" integer,
	"text" text NOT NULL,
	"made_by" text NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	"state" text NOT NULL,
	"attempt_id" text,
	"settled_at" timestamp with time zone,
	CONSTRAINT "comment_state" CHECK ("state" in ('open', 'given', 'resolved', 'superseded')),
	CONSTRAINT "comment_given_has_attempt" CHECK (state <> 'given' or attempt_id is not null),
	CONSTRAINT "comment_settled" CHECK ((state in ('resolved', 'superseded')) = (settled_at is not null))
);
--> statement-breakpoint
ALTER TABLE "comments" ENABLE ROW LEVEL SECURITY;--> statement-breakpoint
CREATE TABLE "messages" (
	"tenant_id" text DEFAULT '' NOT NULL,
	"id" bigserial PRIMARY KEY NOT NULL,
	"build_id" text NOT NULL,
	"task_id" text NOT NULL,
	"text" text NOT NULL,
	"sent_by" text NOT NULL,
	"urgent" boolean DEFAULT false NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	"attempt_id" text,
	"number" integer,
	"sent_at" timestamp with time zone,
	"delivered_at" timestamp with time zone,
	CONSTRAINT "one_message_per_number" UNIQUE("attempt_id","number"),
	CONSTRAINT "message_numbered_has_attempt" CHECK (number is null or attempt_id is not null)
);
--> statement-breakpoint
ALTER TABLE "messages" ENABLE ROW LEVEL SECURITY;--> statement-breakpoint
ALTER TABLE "projects" ADD COLUMN "memory" text DEFAULT '' NOT NULL;--> statement-breakpoint
ALTER TABLE "comments" ADD CONSTRAINT "comments_build_id_builds_id_fk" FOREIGN KEY ("build_id") REFERENCES "public"."builds"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "comments" ADD CONSTRAINT "comments_wave_id_waves_id_fk" FOREIGN KEY ("wave_id") REFERENCES "public"."waves"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "comments" ADD CONSTRAINT "comments_task_id_tasks_id_fk" FOREIGN KEY ("task_id") REFERENCES "public"."tasks"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "comments" ADD CONSTRAINT "comments_attempt_id_attempts_id_fk" FOREIGN KEY ("attempt_id") REFERENCES "public"."attempts"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "messages" ADD CONSTRAINT "messages_build_id_builds_id_fk" FOREIGN KEY ("build_id") REFERENCES "public"."builds"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "messages" ADD CONSTRAINT "messages_task_id_tasks_id_fk" FOREIGN KEY ("task_id") REFERENCES "public"."tasks"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "messages" ADD CONSTRAINT "messages_attempt_id_attempts_id_fk" FOREIGN KEY ("attempt_id") REFERENCES "public"."attempts"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "comments_by_build" ON "comments" USING btree ("build_id");--> statement-breakpoint
CREATE INDEX "messages_by_task" ON "messages" USING btree ("task_id");--> statement-breakpoint
CREATE INDEX "messages_by_build" ON "messages" USING btree ("build_id");--> statement-breakpoint
CREATE POLICY "own_tenant" ON "comments" AS PERMISSIVE FOR ALL TO public USING (tenant_id = (select current_setting('wavesmith.tenant', true)));--> statement-breakpoint
CREATE POLICY "own_tenant" ON "messages" AS PERMISSIVE FOR ALL TO public USING (tenant_id = (select current_setting('wavesmith.tenant', true)));--> statement-breakpoint
CREATE TRIGGER "own_tenant" BEFORE INSERT ON "messages" FOR EACH ROW EXECUTE FUNCTION "tenant_of_build"();
--> statement-breakpoint
CREATE TRIGGER "own_tenant" BEFORE INSERT ON "comments" FOR EACH ROW EXECUTE FUNCTION "tenant_of_build"();
