import type { PoolClient } from "pg";

// BK3. A build names its uploaded source by its path and reads it once, when it starts. So a backup
// holds the uploads of builds without a base, and a restore tells those builds the new paths.

/** An uploaded source, by its name in the folder of uploads. */
export interface WaitingSource {
  readonly projectId: string;
  /** Such as `src_0123456789abcdef01234567`. */
  readonly id: string;
}

const waiting = "base_sha is null and ended_at is null and plan->'source'->>'kind' = 'git'";

/** Lists the uploads that builds will read when they start. */
export async function findWaitingSources(client: PoolClient): Promise<WaitingSource[]> {
  const { rows } = await client.query<{ project: string; url: string }>(
    `select distinct project_id as project, plan->'source'->>'url' as url from builds where ${waiting} order by 1, 2`,
  );
  return rows.flatMap(({ project, url }) => {
    const [, projectId, id] = /^\/.*\/uploads\/([\w-]+)\/(src_[0-9a-f]{24})\.git$/.exec(url) ?? [];
    return id === undefined || projectId !== project ? [] : [{ projectId, id }];
  });
}

/** Gives the builds that wait for an upload its new path. */
export async function moveWaitingSource(
  client: PoolClient,
  { projectId, id }: WaitingSource,
  path: string,
): Promise<void> {
  await client.query(
    `update builds set plan = jsonb_set(plan, '{source,url}', to_jsonb($1::text))
     where ${waiting} and project_id = $2 and starts_with(plan->'source'->>'url', '/')
       and right(plan->'source'->>'url', length($3)) = $3`,
    [path, projectId, `/uploads/${projectId}/${id}.git`],
  );
}
