import { buildListJson, type ListedBuild } from "../../api/build-list.ts";
import { sumFromJson, sumJson } from "../../api/spending.ts";
import { projectIdFor } from "../../coordinator/build/request/project.ts";
import type { SpendingSum } from "../../domain/models.ts";
import type { Context } from "../context.ts";
import { withStore } from "../data/reading.ts";
import { exit } from "../output/exit-codes.ts";
import { ago, count, duration, shortSha, table } from "../output/format.ts";
import type { Store } from "../parts.ts";
import { briefText } from "../view/plan-lines.ts";
import { sumText } from "../view/spending.ts";

const most = 50;

interface BuildList {
  readonly builds: readonly ListedBuild[];
  /** Whether there are older ones. */
  readonly more: boolean;
  /** What all builds of their tenants have spent, the older ones included. */
  readonly spent: SpendingSum;
}

/** `builds`: lists the latest builds, newest first, and says if there are older ones. */
export function listBuilds(context: Context): Promise<number> {
  const { out, json, hints } = context;
  return withStore(context, "builds", {
    unused: (config) => {
      if (json) out.json({ builds: [] });
      else out.line(`no builds yet in ${config.dataDir}; start with: ${hints.command("build PLAN")}`);
      return exit.ok;
    },
    read: async ({ store, config }) => {
      const list = await readList(store, context.options.project);
      if (json) out.json({ ...list, spent: sumJson(list.spent) });
      else if (list.builds.length === 0) out.line(`no builds in ${config.dataDir}`);
      else printList(context, list);
      return exit.ok;
    },
  });
}

async function readList(store: Store, project: string | undefined): Promise<BuildList> {
  const where = project === undefined ? {} : { projectId: projectIdFor("default", project) };
  const rows = await store.builds.list(where, { by: "createdAt", descending: true, limit: most + 1 });
  const tenants = [...new Set(rows.map(({ tenantId }) => tenantId))];
  return {
    builds: await buildListJson(store, rows.slice(0, most)),
    more: rows.length > most,
    spent: sumOf(await Promise.all(tenants.map((tenantId) => store.tenantSpending(tenantId)))),
  };
}

const sumOf = (sums: readonly SpendingSum[]): SpendingSum =>
  sums.reduce(
    (all, one) => ({
      tokens: all.tokens + one.tokens,
      microUsd: all.microUsd + one.microUsd,
      unpricedCalls: all.unpricedCalls + one.unpricedCalls,
    }),
    { tokens: 0, microUsd: 0, unpricedCalls: 0 },
  );

function printList({ out, hints }: Context, { builds, more, spent }: BuildList): void {
  const now = new Date();
  for (const line of table(builds.map((build) => cells(build, now)))) out.line(line);
  for (const { id, waitsForSandbox: wait } of builds)
    if (wait !== null) out.note(`${id} waits for a free sandbox slot: ${wait.reason}; ${wait.remedy}`);
  if (spent.tokens > 0) out.note(`total spent on models: ${sumText(spent)}`);
  if (more) out.note(`showing the latest ${most}; for an older one, give its id: ${hints.command("status BUILD")}`);
}

function cells(build: ListedBuild, now: Date): string[] {
  const { startedAt, endedAt } = build;
  return [
    build.id,
    build.project,
    build.waitsForSandbox === null ? build.status : `${build.status}, waiting for a slot`,
    count(build.tasks, "task"),
    startedAt === null || endedAt === null ? "" : duration(Date.parse(endedAt) - Date.parse(startedAt)),
    ago(new Date(build.createdAt), now),
    build.head === null ? "" : shortSha(build.head),
    build.spent.tokens === 0 ? "" : sumText(sumFromJson(build.spent)),
    build.brief === null ? "" : briefText(build.brief),
  ];
}
