CREATE TABLE "build_spending" (
	"build_id" text PRIMARY KEY NOT NULL,
	"reserved_tokens" bigint DEFAULT 0 NOT NULL,
	"spent_tokens" bigint DEFAULT 0 NOT NULL,
	"reserved_micro_usd" bigint DEFAULT 0 NOT NULL,
	"spent_micro_usd" bigint DEFAULT 0 NOT NULL,
	"unpriced_calls" integer DEFAULT 0 NOT NULL
);
--> statement-breakpoint
CREATE TABLE "model_calls" (
	"id" text PRIMARY KEY NOT NULL,
	"build_id" text NOT NULL,
	"owner_kind" text NOT NULL,
	"owner_id" text NOT NULL,
	"provider" text NOT NULL,
	"model" text NOT NULL,
	"status" text NOT NULL,
	"reserved_tokens" bigint NOT NULL,
	"reserved_micro_usd" bigint,
	"input_tokens" bigint,
	"cached_tokens" bigint,
	"output_tokens" bigint,
	"micro_usd" bigint,
	"http_status" integer,
	"error" text,
	"started_at" timestamp with time zone DEFAULT now() NOT NULL,
	"ended_at" timestamp with time zone,
	CONSTRAINT "model_call_status" CHECK ("status" in ('open', 'done', 'failed', 'cut')),
	CONSTRAINT "model_call_ended" CHECK ((status = 'open') = (ended_at is null))
);
--> statement-breakpoint
ALTER TABLE "installations" ADD COLUMN "model_secret" text;--> statement-breakpoint
ALTER TABLE "build_spending" ADD CONSTRAINT "build_spending_build_id_builds_id_fk" FOREIGN KEY ("build_id") REFERENCES "public"."builds"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "model_calls" ADD CONSTRAINT "model_calls_build_id_builds_id_fk" FOREIGN KEY ("build_id") REFERENCES "public"."builds"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "model_calls_by_owner" ON "model_calls" USING btree ("owner_id");--> statement-breakpoint
CREATE INDEX "model_calls_by_build" ON "model_calls" USING btree ("build_id","started_at");--> statement-breakpoint
CREATE INDEX "model_calls_open" ON "model_calls" USING btree ("build_id") WHERE status = 'open';