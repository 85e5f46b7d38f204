CREATE TABLE "exported_spans" (
	"id" text NOT NULL,
	"ended_at" timestamp with time zone NOT NULL,
	CONSTRAINT "exported_spans_id_ended_at_pk" PRIMARY KEY("id","ended_at")
);
