import type { BranchState, ForgeRepository } from "../port.ts";
import { ForgeError } from "../port.ts";
import type { GitHubClient, GitHubClients } from "./client.ts";

interface Answer {
  readonly id: number | bigint;
  readonly full_name: string;
  readonly html_url: string;
  readonly default_branch: string;
  readonly private: boolean;
  readonly permissions?: { readonly push?: boolean | undefined } | undefined;
}

/** Splits `owner/name`. */
export function placeOf(name: string): { owner: string; repo: string } {
  const [owner = "", repo = ""] = name.split("/");
  return { owner, repo };
}

/** Returns what `find` finds; null when GitHub has no such thing. */
export async function unlessMissing<Found>(find: Promise<Found>): Promise<Found | null> {
  return find.catch((error: unknown) => {
    if (error instanceof ForgeError && error.fault === "not-found") return null;
    throw error;
  });
}

function repositoryOf(data: Answer, webUrl: string): ForgeRepository {
  return {
    id: String(data.id),
    name: data.full_name,
    url: data.html_url,
    gitUrl: `${webUrl}/${data.full_name}.git`,
    defaultBranch: data.default_branch,
    isPrivate: data.private,
    mayPush: data.permissions?.push ?? null,
  };
}

/** Finds a repository under its name or, when it was renamed, by its id. */
export async function findRepository(
  clients: GitHubClients,
  webUrl: string,
  { name, id }: { name: string; id: string | null },
): Promise<ForgeRepository | null> {
  const { request } = await clients.of(name);
  // GitHub answers the old name of a renamed repository with the new one, until somebody takes it.
  const found =
    id === null
      ? await unlessMissing(request("GET /repos/{owner}/{repo}", placeOf(name)))
      : await unlessMissing(request("GET /repositories/{id}", { id: Number(id) }));
  return found === null ? null : repositoryOf(found.data as Answer, webUrl);
}

/** Creates a repository for the user who signed in or for an organisation. */
export async function ensureRepository(
  clients: GitHubClients,
  webUrl: string,
  wanted: { name: string; isPrivate: boolean; description: string },
): Promise<ForgeRepository> {
  const present = await findRepository(clients, webUrl, { name: wanted.name, id: null });
  if (present !== null) return present;
  const client = await clients.of(wanted.name);
  const { owner, repo } = placeOf(wanted.name);
  const body = { name: repo, private: wanted.isPrivate, description: wanted.description.slice(0, 350) };
  try {
    const isOurs = (await loginOf(client)) === owner.toLowerCase();
    const { data } = isOurs
      ? await client.request("POST /user/repos", body)
      : await client.request("POST /orgs/{org}/repos", { org: owner, ...body });
    return repositoryOf(data, webUrl);
  } catch (error) {
    // Another process may have created it at the same moment.
    const made = await findRepository(clients, webUrl, { name: wanted.name, id: null });
    if (made !== null) return made;
    throw error;
  }
}

/** The user of a token, in lower case; null for an App. */
async function loginOf({ request }: GitHubClient): Promise<string | null> {
  try {
    return (await request("GET /user")).data.login.toLowerCase();
  } catch (error) {
    if (error instanceof ForgeError && error.fault === "forbidden") return null;
    throw error;
  }
}

/** Reads a branch with the rules for merging into it. */
export async function readBranch({ request }: GitHubClient, name: string, branch: string): Promise<BranchState | null> {
  const found = await unlessMissing(
    request("GET /repos/{owner}/{repo}/branches/{branch}", { ...placeOf(name), branch }),
  );
  if (found === null) return null;
  const { data: rules } = await request("GET /repos/{owner}/{repo}/rules/branches/{branch}", {
    ...placeOf(name),
    branch,
    per_page: 100,
  });
  const checks = new Set(found.data.protection.required_status_checks?.contexts ?? []);
  let requiredApprovals = 0;
  for (const rule of rules) {
    if (rule.type === "required_status_checks") {
      for (const { context } of rule.parameters?.required_status_checks ?? []) checks.add(context);
    }
    if (rule.type === "pull_request") {
      requiredApprovals = Math.max(requiredApprovals, rule.parameters?.required_approving_review_count ?? 0);
    }
  }
  return {
    sha: found.data.commit.sha,
    isProtected: found.data.protected,
    requiredChecks: [...checks],
    requiredApprovals,
    hasMergeQueue: rules.some(({ type }) => type === "merge_queue"),
  };
}
