import { desc, inArray, isNotNull, sql } from "drizzle-orm";
import type { ProjectId } from "../../domain/ids.ts";
import { movingBuildStatuses } from "../../domain/status.ts";
import type { StoreSession } from "../connection/session.ts";
import { builds } from "../schema.ts";

/** Finds the projects with a build that continues without a person. */
export async function findMovingProjects(session: StoreSession): Promise<ProjectId[]> {
  const isMoving = inArray(builds.status, [...movingBuildStatuses]);
  const rows = await session.once((db) =>
    db.selectDistinct({ projectId: builds.projectId }).from(builds).where(isMoving),
  );
  return rows.map(({ projectId }) => projectId);
}

/** Finds the newest head of each project. */
export const findHeads = (session: StoreSession): Promise<{ projectId: ProjectId; headSha: string }[]> =>
  session.once((db) =>
    db
      .selectDistinctOn([builds.projectId], { projectId: builds.projectId, headSha: sql<string>`${builds.headSha}` })
      .from(builds)
      .where(isNotNull(builds.headSha))
      .orderBy(builds.projectId, desc(builds.position)),
  );
