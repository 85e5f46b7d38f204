ALTER TABLE "api_keys" ENABLE ROW LEVEL SECURITY;--> statement-breakpoint
ALTER TABLE "approvals" ENABLE ROW LEVEL SECURITY;--> statement-breakpoint
ALTER TABLE "attempts" ENABLE ROW LEVEL SECURITY;--> statement-breakpoint
ALTER TABLE "audit_entries" ENABLE ROW LEVEL SECURITY;--> statement-breakpoint
ALTER TABLE "build_spending" ENABLE ROW LEVEL SECURITY;--> statement-breakpoint
ALTER TABLE "builds" ENABLE ROW LEVEL SECURITY;--> statement-breakpoint
ALTER TABLE "dependencies" ENABLE ROW LEVEL SECURITY;--> statement-breakpoint
ALTER TABLE "findings" ENABLE ROW LEVEL SECURITY;--> statement-breakpoint
ALTER TABLE "gate_runs" ENABLE ROW LEVEL SECURITY;--> statement-breakpoint
ALTER TABLE "jobs" ENABLE ROW LEVEL SECURITY;--> statement-breakpoint
ALTER TABLE "log_chunks" ENABLE ROW LEVEL SECURITY;--> statement-breakpoint
ALTER TABLE "model_calls" ENABLE ROW LEVEL SECURITY;--> statement-breakpoint
ALTER TABLE "outbox" ENABLE ROW LEVEL SECURITY;--> statement-breakpoint
ALTER TABLE "previews" ENABLE ROW LEVEL SECURITY;--> statement-breakpoint
ALTER TABLE "projects" ENABLE ROW LEVEL SECURITY;--> statement-breakpoint
ALTER TABLE "questions" ENABLE ROW LEVEL SECURITY;--> statement-breakpoint
ALTER TABLE "restore_points" ENABLE ROW LEVEL SECURITY;--> statement-breakpoint
ALTER TABLE "rollbacks" ENABLE ROW LEVEL SECURITY;--> statement-breakpoint
ALTER TABLE "sandboxes" ENABLE ROW LEVEL SECURITY;--> statement-breakpoint
ALTER TABLE "sessions" ENABLE ROW LEVEL SECURITY;--> statement-breakpoint
ALTER TABLE "snapshots" ENABLE ROW LEVEL SECURITY;--> statement-breakpoint
ALTER TABLE "tasks" ENABLE ROW LEVEL SECURITY;--> statement-breakpoint
ALTER TABLE "tenants" ENABLE ROW LEVEL SECURITY;--> statement-breakpoint
ALTER TABLE "wave_tasks" ENABLE ROW LEVEL SECURITY;--> statement-breakpoint
ALTER TABLE "waves" ENABLE ROW LEVEL SECURITY;--> statement-breakpoint
ALTER TABLE "approvals" ADD COLUMN "tenant_id" text DEFAULT '' NOT NULL;--> statement-breakpoint
ALTER TABLE "attempts" ADD COLUMN "tenant_id" text DEFAULT '' NOT NULL;--> statement-breakpoint
ALTER TABLE "build_spending" ADD COLUMN "tenant_id" text DEFAULT '' NOT NULL;--> statement-breakpoint
ALTER TABLE "dependencies" ADD COLUMN "tenant_id" text DEFAULT '' NOT NULL;--> statement-breakpoint
ALTER TABLE "findings" ADD COLUMN "tenant_id" text DEFAULT '' NOT NULL;--> statement-breakpoint
ALTER TABLE "gate_runs" ADD COLUMN "tenant_id" text DEFAULT '' NOT NULL;--> statement-breakpoint
ALTER TABLE "jobs" ADD COLUMN "tenant_id" text DEFAULT '' NOT NULL;--> statement-breakpoint
ALTER TABLE "log_chunks" ADD COLUMN "tenant_id" text DEFAULT '' NOT NULL;--> statement-breakpoint
ALTER TABLE "model_calls" ADD COLUMN "tenant_id" text DEFAULT '' NOT NULL;--> statement-breakpoint
ALTER TABLE "outbox" ADD COLUMN "tenant_id" text DEFAULT '' NOT NULL;--> statement-breakpoint
ALTER TABLE "previews" ADD COLUMN "tenant_id" text DEFAULT '' NOT NULL;--> statement-breakpoint
ALTER TABLE "questions" ADD COLUMN "tenant_id" text DEFAULT '' NOT NULL;--> statement-breakpoint
ALTER TABLE "restore_points" ADD COLUMN "tenant_id" text DEFAULT '' NOT NULL;--> statement-breakpoint
ALTER TABLE "rollbacks" ADD COLUMN "tenant_id" text DEFAULT '' NOT NULL;--> statement-breakpoint
ALTER TABLE "sandboxes" ADD COLUMN "tenant_id" text DEFAULT '' NOT NULL;--> statement-breakpoint
ALTER TABLE "snapshots" ADD COLUMN "tenant_id" text DEFAULT '' NOT NULL;--> statement-breakpoint
ALTER TABLE "tasks" ADD COLUMN "tenant_id" text DEFAULT '' NOT NULL;--> statement-breakpoint
ALTER TABLE "wave_tasks" ADD COLUMN "tenant_id" text DEFAULT '' NOT NULL;--> statement-breakpoint
ALTER TABLE "waves" ADD COLUMN "tenant_id" text DEFAULT '' NOT NULL;--> statement-breakpoint
CREATE POLICY "own_tenant" ON "api_keys" AS PERMISSIVE FOR ALL TO public USING (tenant_id = (select current_setting('wavesmith.tenant', true)));--> statement-breakpoint
CREATE POLICY "own_tenant" ON "approvals" AS PERMISSIVE FOR ALL TO public USING (tenant_id = (select current_setting('wavesmith.tenant', true)));--> statement-breakpoint
CREATE POLICY "own_tenant" ON "attempts" AS PERMISSIVE FOR ALL TO public USING (tenant_id = (select current_setting('wavesmith.tenant', true)));--> statement-breakpoint
CREATE POLICY "own_tenant" ON "audit_entries" AS PERMISSIVE FOR ALL TO public USING (tenant_id = (select current_setting('wavesmith.tenant', true)));--> statement-breakpoint
CREATE POLICY "own_tenant" ON "build_spending" AS PERMISSIVE FOR ALL TO public USING (tenant_id = (select current_setting('wavesmith.tenant', true)));--> statement-breakpoint
CREATE POLICY "own_tenant" ON "builds" AS PERMISSIVE FOR ALL TO public USING (tenant_id = (select current_setting('wavesmith.tenant', true)));--> statement-breakpoint
CREATE POLICY "own_tenant" ON "dependencies" AS PERMISSIVE FOR ALL TO public USING (tenant_id = (select current_setting('wavesmith.tenant', true)));--> statement-breakpoint
CREATE POLICY "own_tenant" ON "findings" AS PERMISSIVE FOR ALL TO public USING (tenant_id = (select current_setting('wavesmith.tenant', true)));--> statement-breakpoint
CREATE POLICY "own_tenant" ON "gate_runs" AS PERMISSIVE FOR ALL TO public USING (tenant_id = (select current_setting('wavesmith.tenant', true)));--> statement-breakpoint
CREATE POLICY "own_tenant" ON "jobs" AS PERMISSIVE FOR ALL TO public USING (tenant_id = (select current_setting('wavesmith.tenant', true)));--> statement-breakpoint
CREATE POLICY "own_tenant" ON "log_chunks" AS PERMISSIVE FOR ALL TO public USING (tenant_id = (select current_setting('wavesmith.tenant', true)));--> statement-breakpoint
CREATE POLICY "own_tenant" ON "model_calls" AS PERMISSIVE FOR ALL TO public USING (tenant_id = (select current_setting('wavesmith.tenant', true)));--> statement-breakpoint
CREATE POLICY "own_tenant" ON "outbox" AS PERMISSIVE FOR ALL TO public USING (tenant_id = (select current_setting('wavesmith.tenant', true)));--> statement-breakpoint
CREATE POLICY "own_tenant" ON "previews" AS PERMISSIVE FOR ALL TO public USING (tenant_id = (select current_setting('wavesmith.tenant', true)));--> statement-breakpoint
CREATE POLICY "own_tenant" ON "projects" AS PERMISSIVE FOR ALL TO public USING (tenant_id = (select current_setting('wavesmith.tenant', true)));--> statement-breakpoint
CREATE POLICY "own_tenant" ON "questions" AS PERMISSIVE FOR ALL TO public USING (tenant_id = (select current_setting('wavesmith.tenant', true)));--> statement-breakpoint
CREATE POLICY "own_tenant" ON "restore_points" AS PERMISSIVE FOR ALL TO public USING (tenant_id = (select current_setting('wavesmith.tenant', true)));--> statement-breakpoint
CREATE POLICY "own_tenant" ON "rollbacks" AS PERMISSIVE FOR ALL TO public USING (tenant_id = (select current_setting('wavesmith.tenant', true)));--> statement-breakpoint
CREATE POLICY "own_tenant" ON "sandboxes" AS PERMISSIVE FOR ALL TO public USING (tenant_id = (select current_setting('wavesmith.tenant', true)));--> statement-breakpoint
CREATE POLICY "own_tenant" ON "sessions" AS PERMISSIVE FOR ALL TO public USING (tenant_id = (select current_setting('wavesmith.tenant', true)));--> statement-breakpoint
CREATE POLICY "own_tenant" ON "snapshots" AS PERMISSIVE FOR ALL TO public USING (tenant_id = (select current_setting('wavesmith.tenant', true)));--> statement-breakpoint
CREATE POLICY "own_tenant" ON "tasks" AS PERMISSIVE FOR ALL TO public USING (tenant_id = (select current_setting('wavesmith.tenant', true)));--> statement-breakpoint
CREATE POLICY "own_tenant" ON "tenants" AS PERMISSIVE FOR ALL TO public USING (id = (select current_setting('wavesmith.tenant', true)));--> statement-breakpoint
CREATE POLICY "own_tenant" ON "wave_tasks" AS PERMISSIVE FOR ALL TO public USING (tenant_id = (select current_setting('wavesmith.tenant', true)));--> statement-breakpoint
CREATE POLICY "own_tenant" ON "waves" AS PERMISSIVE FOR ALL TO public USING (tenant_id = (select current_setting('wavesmith.tenant', true)));
--> statement-breakpoint
-- Rows from before this migration, and a trigger for those of each table to come.
UPDATE "sandboxes" SET "tenant_id" = "parent"."tenant_id" FROM "projects" AS "parent" WHERE "parent"."id" = "sandboxes"."project_id";
--> statement-breakpoint
UPDATE "snapshots" SET "tenant_id" = "parent"."tenant_id" FROM "projects" AS "parent" WHERE "parent"."id" = "snapshots"."project_id";
--> statement-breakpoint
UPDATE "waves" SET "tenant_id" = "parent"."tenant_id" FROM "builds" AS "parent" WHERE "parent"."id" = "waves"."build_id";
--> statement-breakpoint
UPDATE "tasks" SET "tenant_id" = "parent"."tenant_id" FROM "builds" AS "parent" WHERE "parent"."id" = "tasks"."build_id";
--> statement-breakpoint
UPDATE "attempts" SET "tenant_id" = "parent"."tenant_id" FROM "builds" AS "parent" WHERE "parent"."id" = "attempts"."build_id";
--> statement-breakpoint
UPDATE "gate_runs" SET "tenant_id" = "parent"."tenant_id" FROM "builds" AS "parent" WHERE "parent"."id" = "gate_runs"."build_id";
--> statement-breakpoint
UPDATE "jobs" SET "tenant_id" = "parent"."tenant_id" FROM "builds" AS "parent" WHERE "parent"."id" = "jobs"."build_id";
--> statement-breakpoint
UPDATE "questions" SET "tenant_id" = "parent"."tenant_id" FROM "builds" AS "parent" WHERE "parent"."id" = "questions"."build_id";
--> statement-breakpoint
UPDATE "approvals" SET "tenant_id" = "parent"."tenant_id" FROM "builds" AS "parent" WHERE "parent"."id" = "approvals"."build_id";
--> statement-breakpoint
UPDATE "previews" SET "tenant_id" = "parent"."tenant_id" FROM "builds" AS "parent" WHERE "parent"."id" = "previews"."build_id";
--> statement-breakpoint
UPDATE "restore_points" SET "tenant_id" = "parent"."tenant_id" FROM "builds" AS "parent" WHERE "parent"."id" = "restore_points"."build_id";
--> statement-breakpoint
UPDATE "rollbacks" SET "tenant_id" = "parent"."tenant_id" FROM "builds" AS "parent" WHERE "parent"."id" = "rollbacks"."build_id";
--> statement-breakpoint
UPDATE "build_spending" SET "tenant_id" = "parent"."tenant_id" FROM "builds" AS "parent" WHERE "parent"."id" = "build_spending"."build_id";
--> statement-breakpoint
UPDATE "model_calls" SET "tenant_id" = "parent"."tenant_id" FROM "builds" AS "parent" WHERE "parent"."id" = "model_calls"."build_id";
--> statement-breakpoint
UPDATE "dependencies" SET "tenant_id" = "parent"."tenant_id" FROM "tasks" AS "parent" WHERE "parent"."id" = "dependencies"."task_id";
--> statement-breakpoint
UPDATE "wave_tasks" SET "tenant_id" = "parent"."tenant_id" FROM "waves" AS "parent" WHERE "parent"."id" = "wave_tasks"."wave_id";
--> statement-breakpoint
UPDATE "findings" SET "tenant_id" = "parent"."tenant_id" FROM "gate_runs" AS "parent" WHERE "parent"."id" = "findings"."gate_run_id";
--> statement-breakpoint
UPDATE "log_chunks" SET "tenant_id" = "parent"."tenant_id" FROM "jobs" AS "parent" WHERE "parent"."key" = "log_chunks"."job_key";
--> statement-breakpoint
UPDATE "outbox" SET "tenant_id" = coalesce((SELECT "tenant_id" FROM "projects" WHERE "projects"."id" = "outbox"."project_id"), 'ten_l56tyrlkkuyvm302');
--> statement-breakpoint
CREATE FUNCTION "tenant_of_project"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.tenant_id = '' THEN
    NEW.tenant_id := coalesce((SELECT tenant_id FROM public.projects WHERE id = NEW.project_id), '');
  END IF;
  RETURN NEW;
END $$;
--> statement-breakpoint
CREATE FUNCTION "tenant_of_build"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.tenant_id = '' THEN
    NEW.tenant_id := coalesce((SELECT tenant_id FROM public.builds WHERE id = NEW.build_id), '');
  END IF;
  RETURN NEW;
END $$;
--> statement-breakpoint
CREATE FUNCTION "tenant_of_task"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.tenant_id = '' THEN
    NEW.tenant_id := coalesce((SELECT tenant_id FROM public.tasks WHERE id = NEW.task_id), '');
  END IF;
  RETURN NEW;
END $$;
--> statement-breakpoint
CREATE FUNCTION "tenant_of_wave"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.tenant_id = '' THEN
    NEW.tenant_id := coalesce((SELECT tenant_id FROM public.waves WHERE id = NEW.wave_id), '');
  END IF;
  RETURN NEW;
END $$;
--> statement-breakpoint
CREATE FUNCTION "tenant_of_gate_run"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.tenant_id = '' THEN
    NEW.tenant_id := coalesce((SELECT tenant_id FROM public.gate_runs WHERE id = NEW.gate_run_id), '');
  END IF;
  RETURN NEW;
END $$;
--> statement-breakpoint
CREATE FUNCTION "tenant_of_job"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.tenant_id = '' THEN
    NEW.tenant_id := coalesce((SELECT tenant_id FROM public.jobs WHERE key = NEW.job_key), '');
  END IF;
  RETURN NEW;
END $$;
--> statement-breakpoint
-- A request may come before its project. One that names no tenant is of the default tenant.
CREATE FUNCTION "tenant_of_event"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.tenant_id = '' THEN
    NEW.tenant_id := coalesce(
      (SELECT tenant_id FROM public.projects WHERE id = NEW.project_id),
      NEW.data ->> 'tenantId',
      'ten_l56tyrlkkuyvm302');
  END IF;
  RETURN NEW;
END $$;
--> statement-breakpoint
CREATE TRIGGER "own_tenant" BEFORE INSERT ON "sandboxes" FOR EACH ROW EXECUTE FUNCTION "tenant_of_project"();
--> statement-breakpoint
CREATE TRIGGER "own_tenant" BEFORE INSERT ON "snapshots" FOR EACH ROW EXECUTE FUNCTION "tenant_of_project"();
--> statement-breakpoint
CREATE TRIGGER "own_tenant" BEFORE INSERT ON "waves" FOR EACH ROW EXECUTE FUNCTION "tenant_of_build"();
--> statement-breakpoint
CREATE TRIGGER "own_tenant" BEFORE INSERT ON "tasks" FOR EACH ROW EXECUTE FUNCTION "tenant_of_build"();
--> statement-breakpoint
CREATE TRIGGER "own_tenant" BEFORE INSERT ON "attempts" FOR EACH ROW EXECUTE FUNCTION "tenant_of_build"();
--> statement-breakpoint
CREATE TRIGGER "own_tenant" BEFORE INSERT ON "gate_runs" FOR EACH ROW EXECUTE FUNCTION "tenant_of_build"();
--> statement-breakpoint
CREATE TRIGGER "own_tenant" BEFORE INSERT ON "jobs" FOR EACH ROW EXECUTE FUNCTION "tenant_of_build"();
--> statement-breakpoint
CREATE TRIGGER "own_tenant" BEFORE INSERT ON "questions" FOR EACH ROW EXECUTE FUNCTION "tenant_of_build"();
--> statement-breakpoint
CREATE TRIGGER "own_tenant" BEFORE INSERT ON "approvals" FOR EACH ROW EXECUTE FUNCTION "tenant_of_build"();
--> statement-breakpoint
CREATE TRIGGER "own_tenant" BEFORE INSERT ON "previews" FOR EACH ROW EXECUTE FUNCTION "tenant_of_build"();
--> statement-breakpoint
CREATE TRIGGER "own_tenant" BEFORE INSERT ON "restore_points" FOR EACH ROW EXECUTE FUNCTION "tenant_of_build"();
--> statement-breakpoint
CREATE TRIGGER "own_tenant" BEFORE INSERT ON "rollbacks" FOR EACH ROW EXECUTE FUNCTION "tenant_of_build"();
--> statement-breakpoint
CREATE TRIGGER "own_tenant" BEFORE INSERT ON "build_spending" FOR EACH ROW EXECUTE FUNCTION "tenant_of_build"();
--> statement-breakpoint
CREATE TRIGGER "own_tenant" BEFORE INSERT ON "model_calls" FOR EACH ROW EXECUTE FUNCTION "tenant_of_build"();
--> statement-breakpoint
CREATE TRIGGER "own_tenant" BEFORE INSERT ON "dependencies" FOR EACH ROW EXECUTE FUNCTION "tenant_of_task"();
--> statement-breakpoint
CREATE TRIGGER "own_tenant" BEFORE INSERT ON "wave_tasks" FOR EACH ROW EXECUTE FUNCTION "tenant_of_wave"();
--> statement-breakpoint
CREATE TRIGGER "own_tenant" BEFORE INSERT ON "findings" FOR EACH ROW EXECUTE FUNCTION "tenant_of_gate_run"();
--> statement-breakpoint
CREATE TRIGGER "own_tenant" BEFORE INSERT ON "log_chunks" FOR EACH ROW EXECUTE FUNCTION "tenant_of_job"();
--> statement-breakpoint
CREATE TRIGGER "own_tenant" BEFORE INSERT ON "outbox" FOR EACH ROW EXECUTE FUNCTION "tenant_of_event"();
