import { isNull, or, type SQL, sql } from "drizzle-orm";
import type { PgColumn } from "drizzle-orm/pg-core";

/** Whether a row belongs to one of the projects in the placeholder `projectIds`; null means all. */
export function inProjects(projectId: PgColumn): SQL | undefined {
  const projectIds = sql`${sql.placeholder("projectIds")}::text[]`;
  return or(isNull(projectIds), sql`${projectId} = any(${projectIds})`);
}

/** The value of that placeholder. */
export const projectsValue = (projectIds: readonly string[] | "all"): string[] | null =>
  projectIds === "all" ? null : [...projectIds];
