ALTER TABLE "model_calls" DROP CONSTRAINT "model_call_status";--> statement-breakpoint
ALTER TABLE "model_calls" DROP CONSTRAINT "model_call_ended";--> statement-breakpoint
ALTER TABLE "model_calls" ADD COLUMN "estimated" boolean DEFAULT false NOT NULL;--> statement-breakpoint
ALTER TABLE "model_calls" ADD CONSTRAINT "model_call_status" CHECK ("status" in ('waiting', 'open', 'done', 'failed', 'cut'));--> statement-breakpoint
ALTER TABLE "model_calls" ADD CONSTRAINT "model_call_ended" CHECK ((status in ('waiting', 'open')) = (ended_at is null));