import type { ForgeName } from "../../domain/forge.ts";
import type { ForgeRepository } from "../../forge/port.ts";
import type { Ports } from "../port.ts";

/** How many of a project's latest requests we look through. */
const mostRequests = 100;

/**
 * Finds the repository that a plan of the project names: by the id under which the project already
 * delivers to that name, because the name may be another repository's by now (IDS1), or else by the
 * name. Null if there is none.
 */
export async function findDelivered(
  { store, forges }: Pick<Ports, "store" | "forges">,
  { projectId, forge, name }: { projectId: string; forge: ForgeName; name: string },
): Promise<ForgeRepository | null> {
  const order = { by: "createdAt", descending: true, limit: mostRequests } as const;
  const requests = await store.pullRequests.pick({ projectId, forge }, ["buildId", "repoId"], order);
  const builds = await store.builds.list({ id: requests.map(({ buildId }) => buildId) });
  const isNamed = (repo: string | null) => repo?.toLowerCase() === name.toLowerCase();
  const named = new Set(builds.filter(({ plan }) => isNamed(plan.deliver.repo)).map(({ id }) => id));
  const id = requests.find(({ buildId, repoId }) => repoId !== null && named.has(buildId))?.repoId ?? null;
  const known = id === null ? null : await forges.forge(forge).findRepository({ name, id });
  return known ?? forges.forge(forge).findRepository({ name, id: null });
}
