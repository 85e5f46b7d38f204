import { steerableBuildStatuses } from "../../domain/status.ts";
import type { BuildRow, PullRequestRow, Tables } from "../../store/port.ts";

// IDS1. A name may belong to another repository by now, so where a forge says a repository's id,
// the id decides. Its own requests have its present name by then (`take-delivery.ts`).

/** How a forge or CI system names a repository. */
export interface RepositoryClues {
  readonly repository: string;
  /** The forge's id of it; null: nobody said. */
  readonly repositoryId: string | null;
}

/** Whether a request with this repository's name is in it (IDS1). */
export const isIn =
  ({ repositoryId }: RepositoryClues) =>
  ({ repoId }: Pick<PullRequestRow, "repoId">): boolean =>
    repositoryId === null || repoId === null || repoId === repositoryId;

/** How a forge or CI system names a build. */
interface BuildClues extends RepositoryClues {
  readonly branch: string | null;
  readonly sha: string | null;
}

/**
 * Finds the build that a branch or a commit belongs to. Returns null unless the repository is the
 * one that it delivers to, one that has a request of it, or its project.
 */
export async function findBuildOf(store: Tables, clues: BuildClues): Promise<BuildRow | null> {
  const { repository, branch, sha } = clues;
  const named = /^(?:refs\/heads\/)?wavesmith\/(bld_[0-9a-z]+)(?:\/|$)/.exec(branch ?? "")?.[1];
  const byBranch = named === undefined ? null : await store.builds.find({ id: named });
  const wave = byBranch !== null || sha === null ? null : await store.waves.find({ headSha: sha });
  const request =
    byBranch !== null || branch === null ? undefined : (await store.pullRequests.list({ repo: repository, branch }))[0];
  const id = wave?.buildId ?? request?.buildId;
  const build = byBranch ?? (id === undefined ? null : await store.builds.find({ id }));
  if (build === null || (await isOf(store, build, clues))) return build;
  return null;
}

async function isOf(
  store: Tables,
  { id: buildId, plan, projectId }: BuildRow,
  clues: RepositoryClues,
): Promise<boolean> {
  const { repository } = clues;
  const requests = await store.pullRequests.list({ buildId });
  // The plan may name no repository, or its former name, but the pull request has the right one.
  if (requests.some(({ repo, repoId }) => repo === repository && isIn(clues)({ repoId }))) return true;
  if (requests.some((request) => !isIn(clues)(request))) return false;
  if (plan.deliver.repo?.toLowerCase() === repository.toLowerCase()) return true;
  if (plan.deliver.forge !== "local") return false;
  return (await store.projects.get({ id: projectId })).name === repository;
}

/** Finds the build that a comment is about: that of its request, or the newest asked for there. */
export async function findBuildOfNumber(
  store: Tables,
  place: RepositoryClues & { readonly tenantId: string; readonly number: number },
): Promise<BuildRow | null> {
  const ofRequest = await findBuildOfRequest(store, place);
  if (ofRequest !== null) return ofRequest;
  const { tenantId, repository, number } = place;
  // A request's branch has its own project, so we do not look in one project alone.
  const builds = await store.builds.list(
    { tenantId, status: [...steerableBuildStatuses] },
    { by: "position", descending: true, limit: mostBuilds },
  );
  const ofNumber = builds.filter(({ plan: { deliver } }) => (deliver.issue ?? deliver.request) === number);
  if (ofNumber.length === 0) return null;
  const names = await namesOf(store, repository);
  return ofNumber.find(({ plan: { deliver } }) => names.has(deliver.repo?.toLowerCase() ?? "")) ?? null;
}

/** A comment is about recent builds. */
const mostBuilds = 500;

/** A repository's name, and those that recent builds which delivered there knew it by. */
async function namesOf(store: Tables, repository: string): Promise<ReadonlySet<string>> {
  const requests = await store.pullRequests.pick({ forge: "github", repo: repository }, ["buildId"], {
    ...{ by: "createdAt", descending: true, limit: mostRequests },
  });
  const builds = await store.builds.list({ id: requests.map(({ buildId }) => buildId) });
  const known = builds.flatMap(({ plan }) => plan.deliver.repo ?? []);
  return new Set([repository, ...known].map((name) => name.toLowerCase()));
}

const mostRequests = 100;

/** Finds the build of a pull request at GitHub; null if the request is not ours. */
export async function findBuildOfRequest(
  store: Tables,
  { number, ...clues }: RepositoryClues & { readonly number: number },
): Promise<BuildRow | null> {
  const requests = await store.pullRequests.list({ forge: "github", repo: clues.repository, number });
  const request = requests.find(isIn(clues));
  return request === undefined ? null : store.builds.find({ id: request.buildId });
}
