import { ForgeError, type ForgePlace, type News, type NewsItem } from "../port.ts";
import type { GitHubClient } from "./client.ts";
import { placeOf } from "./repositories.ts";

// GitHub's list of a repository's events has nearly the payloads of its webhooks. Checks are not in
// it. An answer that says that nothing is new does not count against the rate limit.

/** The names of GitHub's events as its webhooks have them. */
const webhookOf: Readonly<Record<string, string>> = {
  PushEvent: "push",
  IssuesEvent: "issues",
  IssueCommentEvent: "issue_comment",
  PullRequestEvent: "pull_request",
  PullRequestReviewEvent: "pull_request_review",
  PullRequestReviewCommentEvent: "pull_request_review_comment",
};

/** See `Forge.readEvents`. */
export async function readEvents(
  { request }: GitHubClient,
  { name }: ForgePlace,
  etag: string | null,
): Promise<News | null> {
  const place = { ...placeOf(name), per_page: 100 };
  const first = await unlessUnchanged(
    request("GET /repos/{owner}/{repo}/events", { ...place, headers: conditional(etag) }),
  );
  if (first === null) return null;
  const items = first.data.flatMap(({ id, type, actor, payload, created_at: at }): NewsItem[] => {
    const event = webhookOf[type ?? ""];
    if (event === undefined) return [];
    const fields = payload as Record<string, unknown>;
    const told = {
      ...fields,
      ...(event === "push" ? { after: fields.head } : {}),
      ...(event === "pull_request_review" && fields.action === "created" ? { action: "submitted" } : {}),
      ...{ repository: { full_name: name }, sender: { login: actor.login } },
    };
    return [{ id, event, payload: told, at: new Date(at ?? 0) }];
  });
  return { items: items.reverse(), etag: first.headers.etag ?? null, pauseMs: pauseOf(first.headers) };
}

/** See `Forge.readCheckNews`. */
export async function readCheckNews(
  { request }: GitHubClient,
  { name }: ForgePlace,
  { sha, etags }: { sha: string; etags: readonly (string | null)[] },
): Promise<readonly (News | null)[]> {
  const place = { ...placeOf(name), ref: sha, per_page: 100 };
  const [ofRuns = null, ofStatuses = null] = etags;
  const repository = { full_name: name };
  const runs = await unlessUnchanged(
    request("GET /repos/{owner}/{repo}/commits/{ref}/check-runs", { ...place, headers: conditional(ofRuns) }),
  );
  const statuses = await unlessUnchanged(
    request("GET /repos/{owner}/{repo}/commits/{ref}/statuses", { ...place, headers: conditional(ofStatuses) }),
  );
  const news = <Item extends { id: number | bigint }>(
    event: string,
    answer: { items: readonly Item[]; headers: Headers } | null,
    payloadOf: (item: Item) => object,
  ): News | null =>
    answer && {
      items: answer.items.map((item) => ({
        ...{ id: `${event}:${item.id}`, event, at: new Date(0) },
        payload: { repository, ...payloadOf(item) },
      })),
      ...{ etag: answer.headers.etag ?? null, pauseMs: 0 },
    };
  return [
    news("check_run", runs && { items: runs.data.check_runs, headers: runs.headers }, (run) => ({
      ...{ action: run.status === "completed" ? "completed" : "created", check_run: run },
    })),
    news("status", statuses && { items: statuses.data, headers: statuses.headers }, (status) => ({ ...status, sha })),
  ];
}

type Headers = Readonly<Record<string, string | number | undefined>> & { readonly etag?: string | undefined };

const conditional = (etag: string | null): Record<string, string> => (etag === null ? {} : { "if-none-match": etag });

const pauseOf = (headers: Headers): number => 1_000 * (Number(headers["x-poll-interval"]) || 0);

async function unlessUnchanged<Answer>(answer: Promise<Answer>): Promise<Answer | null> {
  return answer.catch((error: unknown) => {
    if (error instanceof ForgeError && error.fault === "unchanged") return null;
    throw error;
  });
}
