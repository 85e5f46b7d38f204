ALTER TABLE "previews" ADD COLUMN "sandbox_id" text;--> statement-breakpoint
ALTER TABLE "previews" ADD COLUMN "requested_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "projects" ADD COLUMN "preview_port" integer;