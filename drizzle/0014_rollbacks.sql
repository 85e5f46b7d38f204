CREATE TABLE "rollbacks" (
	"build_id" text NOT NULL,
	"epoch" integer NOT NULL,
	"from_sha" text,
	"to_sha" text NOT NULL,
	"before" jsonb NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "rollbacks_build_id_epoch_pk" PRIMARY KEY("build_id","epoch")
);
--> statement-breakpoint
ALTER TABLE "rollbacks" ADD CONSTRAINT "rollbacks_build_id_builds_id_fk" FOREIGN KEY ("build_id") REFERENCES "public"."builds"("id") ON DELETE no action ON UPDATE no action;