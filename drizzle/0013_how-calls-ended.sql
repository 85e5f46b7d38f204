ALTER TABLE "jobs" ADD COLUMN "last_action" text;--> statement-breakpoint
ALTER TABLE "model_calls" ADD COLUMN "offers_tools" boolean DEFAULT false NOT NULL;--> statement-breakpoint
ALTER TABLE "model_calls" ADD COLUMN "ending" text;--> statement-breakpoint
ALTER TABLE "model_calls" ADD CONSTRAINT "model_call_ending" CHECK ("ending" in ('whole', 'limit', 'broken', 'unreadable', 'error', 'left'));