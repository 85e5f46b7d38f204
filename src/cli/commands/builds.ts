import { projectIdFor } from "../../coordinator/start-build.ts";
import type { Context } from "../context.ts";
import { exit } from "../errors.ts";
import { ago, count, duration, shortSha, table } from "../format.ts";
import { withStore } from "../reading.ts";

const most = 50;

/** `builds`: the latest builds, newest first; says so when there are older ones. */
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
      const found = await store.builds.list(where, { by: "createdAt", descending: true, limit: most + 1 });
      const rows = found.slice(0, most);
      const more = found.length > most;
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
          more,
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
      if (more)
        out.note(`these are the latest ${most}; of older ones ask by their id: ${hints.command("status BUILD")}`);
      return exit.ok;
    },
  });
}
