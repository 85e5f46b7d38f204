CREATE TABLE "questions" (
	"id" bigserial PRIMARY KEY NOT NULL,
	"build_id" text NOT NULL,
	"job_key" text NOT NULL,
	"name" text NOT NULL,
	"attempt_id" text,
	"role" text NOT NULL,
	"text" text NOT NULL,
	"reason" text NOT NULL,
	"options" jsonb NOT NULL,
	"asked_at" timestamp with time zone NOT NULL,
	"deadline_at" timestamp with time zone NOT NULL,
	"answer" text,
	"answered_by" text,
	"answered_at" timestamp with time zone,
	"delivered_at" timestamp with time zone,
	"closed_at" timestamp with time zone,
	CONSTRAINT "one_question_per_name" UNIQUE("job_key","name"),
	CONSTRAINT "question_answer" CHECK ("answer" in ('allow', 'deny')),
	CONSTRAINT "question_answered" CHECK ((answer is null) = (answered_at is null))
);
--> statement-breakpoint
ALTER TABLE "builds" ADD COLUMN "interactive" boolean DEFAULT false NOT NULL;--> statement-breakpoint
ALTER TABLE "questions" ADD CONSTRAINT "questions_build_id_builds_id_fk" FOREIGN KEY ("build_id") REFERENCES "public"."builds"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "questions" ADD CONSTRAINT "questions_job_key_jobs_key_fk" FOREIGN KEY ("job_key") REFERENCES "public"."jobs"("key") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "questions" ADD CONSTRAINT "questions_attempt_id_attempts_id_fk" FOREIGN KEY ("attempt_id") REFERENCES "public"."attempts"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "questions_by_build" ON "questions" USING btree ("build_id");