import { sandboxWaits } from "../coordinator/build/read-build.ts";
import type { SpendingSum } from "../domain/models.ts";
import { roomRemedy } from "../domain/sandbox/sandbox.ts";
import type { BuildRow, Store } from "../store/port.ts";
import { sumJson } from "./spending.ts";

/** A build in a list of builds, as JSON. */
export type ListedBuild = ReturnType<typeof listedBuild>;

/** Returns these builds as JSON, in their order, with their projects and what they have spent. */
export async function buildListJson(store: Store, rows: readonly BuildRow[]): Promise<ListedBuild[]> {
  const [spent, waits, projects] = await Promise.all([
    spentByBuilds(store, rows),
    sandboxWaits(store, rows),
    store.projects.list({ id: [...new Set(rows.map(({ projectId }) => projectId))] }),
  ]);
  const names = new Map(projects.map(({ id, name }) => [id, name]));
  return rows.map((row) =>
    listedBuild(row, {
      project: names.get(row.projectId) ?? row.projectId,
      wait: waits.get(row.id) ?? null,
      spent: spent(row.id),
    }),
  );
}

function listedBuild(row: BuildRow, extra: { project: string; wait: string | null; spent: SpendingSum }) {
  const { id, projectId, status, reason, plan, brief, headSha, requestedBy, createdAt, startedAt, endedAt } = row;
  return {
    id,
    project: extra.project,
    projectId,
    status,
    reason,
    waitsForSandbox: extra.wait === null ? null : { reason: extra.wait, remedy: roomRemedy },
    tasks: plan.tasks.length,
    brief: brief?.text ?? null,
    head: headSha,
    requestedBy,
    spent: sumJson(extra.spent),
    createdAt: createdAt.toISOString(),
    startedAt: startedAt?.toISOString() ?? null,
    endedAt: endedAt?.toISOString() ?? null,
  };
}

/** Returns a lookup of what each of these builds has spent on models. */
async function spentByBuilds(store: Store, rows: readonly BuildRow[]): Promise<(buildId: string) => SpendingSum> {
  const spending = await store.buildSpending.list({ buildId: rows.map(({ id }) => id) });
  const byBuild = new Map<string, (typeof spending)[number]>(spending.map((row) => [row.buildId, row]));
  return (buildId) => {
    const { spentTokens = 0, spentMicroUsd = 0, unpricedCalls = 0 } = byBuild.get(buildId) ?? {};
    return { tokens: spentTokens, microUsd: spentMicroUsd, unpricedCalls };
  };
}

/** Returns what the models of every build cost, of the tenants that these builds belong to. */
export async function spentInAll(store: Store, rows: readonly BuildRow[]): Promise<ReturnType<typeof sumJson>> {
  const tenants = [...new Set(rows.map(({ tenantId }) => tenantId))];
  const sums = await Promise.all(tenants.map((tenantId) => store.tenantSpending(tenantId)));
  const all: SpendingSum = { tokens: 0, microUsd: 0, unpricedCalls: 0 };
  return sumJson(
    sums.reduce(
      (left, right) => ({
        tokens: left.tokens + right.tokens,
        microUsd: left.microUsd + right.microUsd,
        unpricedCalls: left.unpricedCalls + right.unpricedCalls,
      }),
      all,
    ),
  );
}

const mostAlike = 6;

/** Returns at most six ids of builds that begin like this, or the one that is exactly this. */
export async function buildIdsLike(store: Store, start: string): Promise<string[]> {
  if ((await store.builds.find({ id: start })) !== null) return [start];
  const rows = await store.builds.pick({}, ["id"], { by: "id", after: start, limit: mostAlike });
  return rows.map(({ id }) => id).filter((id) => id.startsWith(start));
}
