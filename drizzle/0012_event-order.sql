-- The order in which events became visible: see docs/adr/0025-event-streams-follow-commits.md.
ALTER TABLE "outbox" ADD COLUMN "committed_by" xid8 NOT NULL DEFAULT pg_current_xact_id();--> statement-breakpoint
CREATE INDEX "outbox_in_order" ON "outbox" ("committed_by", "seq");--> statement-breakpoint
CREATE INDEX "outbox_by_project" ON "outbox" ("project_id", "committed_by", "seq");
