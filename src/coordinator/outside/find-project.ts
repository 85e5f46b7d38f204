import type { Tables } from "../../store/port.ts";
import { defaultTenant, projectIdFor, tenantIdFor } from "../build/request/project.ts";
import type { Ports } from "../port.ts";
import { isIn, type RepositoryClues } from "./find-build.ts";

// FJ1. A project continues from its own main, so it belongs to one branch of a repository: work on
// one branch never brings another one's commits along.

/** A project, which exists once a build was requested in it. */
export interface KnownProject {
  readonly tenantId: string;
  readonly projectId: string;
  readonly project: string;
}

const named = (project: string): KnownProject => ({
  ...{ tenantId: tenantIdFor(defaultTenant), projectId: projectIdFor(defaultTenant, project), project },
});

/** The name of the project for a branch other than the default one. */
const branchProject = (repository: string, branch: string): string => `${repository}@${branch}`;

/**
 * Finds the project of a repository: the newest that delivers there, or else one with the
 * repository's name if a setting allows it. Null for a repository that we do not know.
 */
export async function findProjectOf(
  store: Tables,
  { forgeRepositories }: Pick<Ports, "forgeRepositories">,
  clues: RepositoryClues,
): Promise<KnownProject | null> {
  const { repository } = clues;
  const rows = await store.pullRequests.pick({ forge: "github", repo: repository }, ["projectId", "repoId"], {
    ...{ by: "createdAt", descending: true, limit: mostRows },
  });
  for (const projectId of new Set(rows.filter(isIn(clues)).map((row) => row.projectId))) {
    const { tenantId, name: project } = await store.projects.get({ id: projectId });
    if (!project.startsWith(branchProject(repository, ""))) return { tenantId, projectId, project };
  }
  return forgeRepositories.some((pattern) => isNamed(pattern, repository)) ? named(repository) : null;
}

const mostRows = 200;

function isNamed(pattern: string, repository: string): boolean {
  const [text, name] = [pattern.toLowerCase(), repository.toLowerCase()];
  return text.endsWith("/*") ? name.startsWith(text.slice(0, -1)) : text === name;
}

/** Returns the project in which work for this branch is built (FJ1). */
export async function projectOfBranch(
  store: Tables,
  known: Pick<KnownProject, "project">,
  { repository, branch, defaultBranch }: { repository: string; branch: string; defaultBranch: string },
): Promise<string> {
  const here = { forge: "github", repo: repository, base: branch } as const;
  const row = await store.pullRequests.find(here, { by: "createdAt", descending: true });
  if (row !== null) return (await store.projects.get({ id: row.projectId })).name;
  return branch === defaultBranch ? known.project : branchProject(repository, branch);
}
