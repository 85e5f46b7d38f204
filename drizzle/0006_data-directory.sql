ALTER TABLE "installations" ADD COLUMN "data_dir_id" text;--> statement-breakpoint
ALTER TABLE "installations" ADD COLUMN "data_dir_path" text;