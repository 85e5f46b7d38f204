import { type Forge, ForgeError, type ForgePlace, type MergeResult, type RequestState } from "../port.ts";
import { readChecks } from "./checks.ts";
import type { GitHubClient } from "./client.ts";
import { allPages } from "./pages.ts";
import { placeOf } from "./repositories.ts";

interface QueueAnswer {
  readonly repository: {
    readonly pullRequest: { readonly id: string; readonly mergeQueueEntry: { readonly state: string } | null } | null;
  } | null;
}

const queueQuery = `query($owner: String!, $repo: String!, $number: Int!) {
  repository(owner: $owner, name: $repo) { pullRequest(number: $number) { id mergeQueueEntry { state } } }
}`;

const enqueueMutation = `mutation($id: ID!, $sha: GitObjectID!) {
  enqueuePullRequest(input: { pullRequestId: $id, expectedHeadOid: $sha }) { mergeQueueEntry { state } }
}`;

/** See `Forge.readRequest`. */
export async function readRequest(
  client: GitHubClient,
  repository: ForgePlace,
  { number, mayPush }: { number: number; mayPush: Forge["mayPush"] },
): Promise<RequestState> {
  const { name } = repository;
  const place = placeOf(name);
  const { data } = await client.request("GET /repos/{owner}/{repo}/pulls/{pull_number}", {
    ...place,
    pull_number: number,
  });
  const headSha = data.head.sha;
  const state = data.merged ? "merged" : data.state === "closed" ? "closed" : "open";
  return {
    ...{ number, url: data.html_url, state, headSha, base: data.base.ref },
    isMergeable: data.mergeable,
    checks: await readChecks(client, name, headSha),
    review: await readReview(client, repository, { number, headSha, mayPush }),
    mergeSha: data.merged ? data.merge_commit_sha : null,
  };
}

/** The latest verdict of each reviewer counts; an approval counts only for the present head. */
async function readReview(
  { request }: GitHubClient,
  repository: ForgePlace,
  { number, headSha, mayPush }: Pick<RequestState, "number" | "headSha"> & Pick<Forge, "mayPush">,
): Promise<RequestState["review"]> {
  const place = { ...placeOf(repository.name), pull_number: number, per_page: 100 };
  const reviews = await allPages(async (page) => {
    return (await request("GET /repos/{owner}/{repo}/pulls/{pull_number}/reviews", { ...place, page })).data;
  });
  const words = new Map<string, string>();
  for (const { user, state, commit_id: sha } of reviews) {
    if (user === null || !["APPROVED", "CHANGES_REQUESTED", "DISMISSED"].includes(state)) continue;
    const isOld = state === "APPROVED" && sha !== headSha;
    words.set(user.login, isOld ? "" : state);
  }
  // Anybody may review a public repository, and a member of its organisation may be a mere reader.
  for (const [login, word] of words) if (word !== "" && !(await mayPush(repository, login))) words.delete(login);
  const last = [...words.values()];
  if (last.includes("CHANGES_REQUESTED")) return "changes-requested";
  return last.includes("APPROVED") ? "approved" : "none";
}

/** See `Forge.mergeRequest`. */
export async function mergeRequest(
  client: GitHubClient,
  { repository, number, sha, queue }: { repository: ForgePlace; number: number; sha: string; queue: boolean },
): Promise<MergeResult> {
  const place = placeOf(repository.name);
  const { data } = await client.request("GET /repos/{owner}/{repo}/pulls/{pull_number}", {
    ...place,
    pull_number: number,
  });
  if (data.merged) return { merged: true, sha: data.merge_commit_sha ?? sha };
  if (data.head.sha !== sha) {
    throw new ForgeError(
      "rejected",
      `pull request ${number} of ${repository.name} is no longer at ${sha.slice(0, 12)}`,
    );
  }
  if (queue) {
    await enqueue(client, { ...place, number, sha });
    return { merged: false };
  }
  const merged = await client.request("PUT /repos/{owner}/{repo}/pulls/{pull_number}/merge", {
    ...place,
    ...{ pull_number: number, sha },
  });
  return { merged: true, sha: merged.data.sha };
}

async function enqueue(
  { graphql }: GitHubClient,
  { owner, repo, number, sha }: { owner: string; repo: string; number: number; sha: string },
): Promise<void> {
  const answer = await graphql<QueueAnswer>(queueQuery, { owner, repo, number });
  const found = answer.repository?.pullRequest ?? null;
  if (found === null) throw new ForgeError("not-found", `${owner}/${repo} has no pull request ${number}`);
  if (found.mergeQueueEntry === null) await graphql(enqueueMutation, { id: found.id, sha });
}
