ALTER TABLE "builds" ADD COLUMN "metadata" jsonb;--> statement-breakpoint
ALTER TABLE "sandboxes" ADD COLUMN "wall" jsonb;