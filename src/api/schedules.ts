import type { ScheduleRow } from "../store/port.ts";

export type ScheduleView = ReturnType<typeof scheduleJson>;

/** Returns a schedule as JSON. */
export const scheduleJson = (row: ScheduleRow, project: string) => ({
  id: row.id,
  project,
  projectId: row.projectId,
  name: row.name,
  cron: row.cron,
  timezone: row.timezone,
  origin: row.origin,
  status: row.status,
  nextAt: row.status === "active" ? row.nextAt.toISOString() : null,
  failures: row.failures,
  lastBuildId: row.lastBuildId,
  lastRunAt: row.lastRunAt?.toISOString() ?? null,
  note: row.note,
});
