ALTER TABLE "jobs" DROP CONSTRAINT "job_owner";--> statement-breakpoint
ALTER TABLE "jobs" ADD CONSTRAINT "job_owner" CHECK ("owner_kind" in ('attempt', 'gate', 'preview', 'setup'));