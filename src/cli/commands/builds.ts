import { projectIdFor } from "../../coordinator/start-build.ts";
import type { Context } from "../context.ts";
import { exit } from "../errors.ts";
import { ago, count, duration, shortSha, table } from "../format.ts";
import { withStore } from "../reading.ts";

const most = 50;

/** `builds`: the latest builds, newest first. */
export function builds(context: Context): Promise<number> {
  const { out, json, hints, options } = context;
  return withStore(context, "builds", {
    unused: (config) => {
      if (json) out.json({ builds: [] });
      else out.line(`no builds yet in ${config.dataDir}; begin with: ${hints.command("build PLAN")}`);
      return exit.ok;
    },
    read: async ({ store, config }) => {
      const where = options.project === undefined ? {} : { projectId: projectIdFor("default", options.project) };
      const rows = await store.builds.list(where, { by: "createdAt", descending: true, limit: most });
      const projects = new Map((await store.projects.list({})).map(({ id, name }) => [id, name]));
      if (json) {
        out.json({
          builds: rows.map(({ id, projectId, status, reason, plan, headSha, createdAt, startedAt, endedAt }) => ({
            id,
            project: projects.get(projectId),
            status,
            reason,
            tasks: plan.tasks.length,
            head: headSha,
            createdAt,
            startedAt,
            endedAt,
          })),
        });
        return exit.ok;
      }
      const now = new Date();
      const lines = rows.map(({ id, projectId, status, plan, headSha, createdAt, startedAt, endedAt }) => [
        id,
        projects.get(projectId) ?? "",
        status,
        count(plan.tasks.length, "task"),
        startedAt === null || endedAt === null ? "" : duration(endedAt.getTime() - startedAt.getTime()),
        ago(createdAt, now),
        headSha === null ? "" : shortSha(headSha),
      ]);
      if (lines.length === 0) out.line(`no builds in ${config.dataDir}`);
      for (const line of table(lines)) out.line(line);
      return exit.ok;
    },
  });
}
