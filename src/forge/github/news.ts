import { ForgeError, type ForgePlace, type News, type NewsItem } from "../port.ts";
import type { GitHubClient } from "./client.ts";
import { allPages } from "./pages.ts";
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
  repository: ForgePlace,
  etag: string | null,
): Promise<News | null> {
  const { route, place } = below(repository, "GET /repos/{owner}/{repo}/events");
  const first = await unlessUnchanged(request(route, { ...place, per_page: 100, headers: conditional(etag) }));
  if (first === null) return null;
  const items = first.data.flatMap(({ id, type, actor, repo, payload, created_at: at }): NewsItem[] => {
    const event = webhookOf[type ?? ""];
    if (event === undefined) return [];
    const fields = payload as Record<string, unknown>;
    const told = {
      ...fields,
      ...(event === "push" ? { after: fields.head } : {}),
      ...(event === "pull_request_review" && fields.action === "created" ? { action: "submitted" } : {}),
      ...{ repository: { full_name: repo.name, id: repo.id }, sender: { login: actor.login } },
    };
    return [{ id, event, payload: told, at: new Date(at ?? 0) }];
  });
  return { items: items.reverse(), etag: first.headers.etag ?? null, pauseMs: pauseOf(first.headers) };
}

/** See `Forge.readCheckNews`. */
export async function readCheckNews(
  { request }: GitHubClient,
  at: ForgePlace,
  { sha, etags }: { sha: string; etags: readonly (string | null)[] },
): Promise<readonly (News | null)[]> {
  const [ofRuns = null, ofStatuses = null] = etags;
  const repository = { full_name: at.name };
  const checks = below(at, "GET /repos/{owner}/{repo}/commits/{ref}/check-runs");
  const commit = { ...checks.place, ref: sha, per_page: 100 };
  const runs = await unlessUnchanged(request(checks.route, { ...commit, headers: conditional(ofRuns) }));
  const { route } = below(at, "GET /repos/{owner}/{repo}/commits/{ref}/statuses");
  const statuses = await unlessUnchanged(request(route, { ...commit, headers: conditional(ofStatuses) }));
  const news = (answer: { headers: Headers } | null, items: readonly NewsItem[]): News | null =>
    answer && { items, etag: answer.headers.etag ?? null, pauseMs: 0 };
  return [
    news(runs, runs?.data.check_runs.map((run) => itemOfRun(repository, run)) ?? []),
    news(statuses, statuses?.data.map((status) => itemOf("status", status.id, { repository, ...status, sha })) ?? []),
  ];
}

/** See `Forge.readSuite`. */
export async function readSuite(
  { request }: GitHubClient,
  { name }: ForgePlace,
  suiteId: number,
): Promise<readonly NewsItem[]> {
  const suite = { ...placeOf(name), check_suite_id: suiteId, per_page: 100 };
  const path = "GET /repos/{owner}/{repo}/check-suites/{check_suite_id}/check-runs";
  const runs = await allPages(async (page) => (await request(path, { ...suite, page })).data.check_runs);
  return runs.map((run) => itemOfRun({ full_name: name }, run));
}

const itemOf = (event: string, id: number | bigint, payload: object): NewsItem => ({
  ...{ id: `${event}:${id}`, event, payload, at: new Date(0) },
});

const itemOfRun = (repository: { full_name: string }, run: { id: number | bigint; status: string }): NewsItem =>
  itemOf("check_run", run.id, {
    ...{ repository, action: run.status === "completed" ? "completed" : "created", check_run: run },
  });

/**
 * A route below the repository's id, to which GitHub leads callers with a former name, because that
 * name may be another repository's.
 */
function below<Route extends string>({ id, name }: ForgePlace, route: Route) {
  if (!/^\d+$/.test(id)) return { route, place: placeOf(name) };
  const ofId = route.replace("/repos/{owner}/{repo}", `/repositories/${id}`) as Route;
  return { route: ofId, place: {} as ReturnType<typeof placeOf> };
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
