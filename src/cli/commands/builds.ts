import { sumJson } from "../../api/spending.ts";
import { sandboxWaits } from "../../coordinator/build/read-build.ts";
import { projectIdFor } from "../../coordinator/build/request/project.ts";
import type { SpendingSum } from "../../domain/models.ts";
import { roomRemedy } from "../../domain/sandbox/sandbox.ts";
import type { Context } from "../context.ts";
import { withStore } from "../data/reading.ts";
import { exit } from "../output/exit-codes.ts";
import { ago, count, duration, shortSha, table } from "../output/format.ts";
import type { Store } from "../parts.ts";
import { briefText } from "../view/plan-lines.ts";
import { sumText } from "../view/spending.ts";

const most = 50;

const sumOf = (sums: readonly SpendingSum[]): SpendingSum =>
  sums.reduce(
    (all, one) => ({
      tokens: all.tokens + one.tokens,
      microUsd: all.microUsd + one.microUsd,
      unpricedCalls: all.unpricedCalls + one.unpricedCalls,
    }),
    { tokens: 0, microUsd: 0, unpricedCalls: 0 },
  );

/** Returns the model spending of each of these builds. */
async function spentOf(store: Store, builds: readonly { readonly id: string }[]): Promise<(id: string) => SpendingSum> {
  const rows = await store.buildSpending.list({ buildId: builds.map(({ id }) => id) });
  const known = new Map<string, (typeof rows)[number]>(rows.map((row) => [row.buildId, row]));
  return (id) => {
    const { spentTokens = 0, spentMicroUsd = 0, unpricedCalls = 0 } = known.get(id) ?? {};
    return { tokens: spentTokens, microUsd: spentMicroUsd, unpricedCalls };
  };
}

/** `builds`: lists the latest builds, newest first, and says if there are older ones. */
export function listBuilds(context: Context): Promise<number> {
  const { out, json, hints, options } = context;
  return withStore(context, "builds", {
    unused: (config) => {
      if (json) out.json({ builds: [] });
      else out.line(`no builds yet in ${config.dataDir}; start with: ${hints.command("build PLAN")}`);
      return exit.ok;
    },
    read: async ({ store, config }) => {
      const where = options.project === undefined ? {} : { projectId: projectIdFor("default", options.project) };
      const found = await store.builds.list(where, { by: "createdAt", descending: true, limit: most + 1 });
      const rows = found.slice(0, most);
      const more = found.length > most;
      const spent = await spentOf(store, rows);
      const waits = await sandboxWaits(store, rows);
      const tenants = [...new Set(rows.map(({ tenantId }) => tenantId))];
      const all = sumOf(await Promise.all(tenants.map((tenantId) => store.tenantSpending(tenantId))));
      const projects = new Map((await store.projects.list({})).map(({ id, name }) => [id, name]));
      if (json) {
        out.json({
          builds: rows.map(
            ({ id, projectId, status, reason, plan, brief, headSha, createdAt, startedAt, endedAt }) => ({
              id,
              project: projects.get(projectId),
              status,
              reason,
              waitsForSandbox: waits.has(id) ? { reason: waits.get(id), remedy: roomRemedy } : null,
              tasks: plan.tasks.length,
              ...(brief === null ? {} : { brief: brief.text }),
              head: headSha,
              spent: sumJson(spent(id)),
              createdAt,
              startedAt,
              endedAt,
            }),
          ),
          more,
          spent: sumJson(all),
        });
        return exit.ok;
      }
      const now = new Date();
      const lines = rows.map(({ id, projectId, status, plan, brief, headSha, createdAt, startedAt, endedAt }) => [
        id,
        projects.get(projectId) ?? "",
        waits.has(id) ? `${status}, waiting for a slot` : status,
        count(plan.tasks.length, "task"),
        startedAt === null || endedAt === null ? "" : duration(endedAt.getTime() - startedAt.getTime()),
        ago(createdAt, now),
        headSha === null ? "" : shortSha(headSha),
        spent(id).tokens === 0 ? "" : sumText(spent(id)),
        brief === null ? "" : briefText(brief.text),
      ]);
      if (lines.length === 0) out.line(`no builds in ${config.dataDir}`);
      for (const line of table(lines)) out.line(line);
      for (const [id, reason] of waits) out.note(`${id} waits for a free sandbox slot: ${reason}; ${roomRemedy}`);
      if (all.tokens > 0) out.note(`total spent on models: ${sumText(all)}`);
      if (more) out.note(`showing the latest ${most}; for an older one, give its id: ${hints.command("status BUILD")}`);
      return exit.ok;
    },
  });
}
