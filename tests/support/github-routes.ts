import { Readable } from "node:stream";
import type { components } from "@octokit/openapi-types";
import { findInstallation, listInstallations, mintToken, showApp } from "./github-apps.ts";
import type { GitHubState, Pull, Repository, User } from "./github-state.ts";

// The calls that we make, each with an answer of GitHub's own type, as far as we read it.

type Schemas = components["schemas"];
type Part<Name extends keyof Schemas, Field extends keyof Schemas[Name]> = Pick<Schemas[Name], Field>;

export interface Answer {
  readonly status: number;
  readonly body: unknown;
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

export interface RouteContext {
  readonly state: GitHubState;
  readonly user: User;
  readonly body: Readonly<Record<string, unknown>>;
  readonly query: URLSearchParams;
  readonly parameters: Readonly<Record<string, string>>;
  readonly base: string;
  readonly method: string;
  /** The path below the repository, with its query. */
  readonly below: string;
  git(name: string, ...args: string[]): Promise<string>;
}

type Handler = (context: RouteContext) => Answer | Promise<Answer>;

const ok = (body: unknown, headers?: Record<string, string>): Answer => ({ status: 200, body, headers });
const created = (body: unknown): Answer => ({ status: 201, body });
const missing: Answer = { status: 404, body: { message: "Not Found" } };
const invalid = (message: string): Answer => ({
  status: 422,
  body: { message: "Validation Failed", errors: [{ resource: "PullRequest", code: "custom", message }] },
});

type InRepository = (repository: Repository, context: RouteContext) => Answer | Promise<Answer>;

/**
 * A route below a repository. An old name is redirected to the path below the repository's id, as
 * on GitHub.
 */
const of =
  (handler: InRepository): Handler =>
  (context) => {
    const { owner, repo } = context.parameters;
    const repository = context.state.find(`${owner}/${repo}`);
    if (repository === null) return missing;
    if (repository.fullName.toLowerCase() !== `${owner}/${repo}`.toLowerCase()) {
      const location = `${context.base}/repositories/${repository.id}${context.below}`;
      const status = context.method === "GET" ? 301 : 307;
      return { status, body: { message: "Moved Permanently", url: location }, headers: { location } };
    }
    return handler(repository, context);
  };

/** A route about one pull request. */
const ofPull = (handler: (pull: Pull, repository: Repository, context: RouteContext) => Answer | Promise<Answer>) =>
  of((repository, context) => {
    const number = Number(context.parameters.pull_number ?? context.parameters.issue_number);
    const pull = repository.pulls.find((one) => one.number === number);
    return pull === undefined ? missing : handler(pull, repository, context);
  });

/** A route about an issue or a request. */
const ofIssue = (
  handler: (issue: Pick<Pull, "comments"> & { number: number }, ...rest: [Repository, RouteContext]) => Answer,
) =>
  of((repository, context) => {
    const number = Number(context.parameters.issue_number);
    const issue = repository.pulls.find((pull) => pull.number === number) ?? repository.issues.get(number);
    return issue === undefined ? missing : handler({ number, comments: issue.comments }, repository, context);
  });

const repositoryAnswer = (
  repository: Repository,
  { base, user }: RouteContext,
): Part<"full-repository", "id" | "full_name" | "html_url" | "default_branch" | "private" | "permissions"> => ({
  id: repository.id,
  full_name: repository.fullName,
  html_url: `${base}/${repository.fullName}`,
  default_branch: "main",
  private: repository.isPrivate,
  permissions: { admin: user.mayPush, pull: true, push: user.mayPush },
});

const create =
  (ownerOf: (context: RouteContext) => string): Handler =>
  async (context) => {
    const name = `${ownerOf(context)}/${context.body.name}`;
    if (context.state.find(name) !== null) return invalid("name already exists on this account");
    const made = await context.state.create(name);
    made.isPrivate = context.body.private === true;
    return created(repositoryAnswer(made, context));
  };

const shaOf = ({ git }: RouteContext, { fullName }: Repository, branch: string): Promise<string | null> =>
  git(fullName, "rev-parse", "--verify", "-q", `refs/heads/${branch}`).catch(() => null);

type PullAnswer = Pick<
  Schemas["pull-request"],
  | "number"
  | "html_url"
  | "state"
  | "merged"
  | "merged_at"
  | "mergeable"
  | "merge_commit_sha"
  | "body"
  | "title"
  | "node_id"
> & { head: { ref: string; sha: string; repo: { full_name: string } }; base: { ref: string } };

async function pullAnswer(pull: Pull, repository: Repository, context: RouteContext): Promise<PullAnswer> {
  return {
    number: pull.number,
    node_id: `PR_${repository.id}_${pull.number}`,
    html_url: `${context.base}/${repository.fullName}/pull/${pull.number}`,
    ...{ title: pull.title, body: pull.body, state: pull.state, merged: pull.merged },
    merged_at: pull.merged ? "2026-11-23T00:00:00Z" : null,
    mergeable: pull.mergeable,
    merge_commit_sha: pull.mergeSha,
    head: {
      ref: pull.head,
      sha: (await shaOf(context, repository, pull.head)) ?? "0".repeat(40),
      repo: { full_name: pull.fork ?? repository.fullName },
    },
    base: { ref: pull.base },
  };
}

const listPulls = of(async (repository, context) => {
  const head = (context.query.get("head") ?? "").split(":")[1];
  const state = context.query.get("state") ?? "open";
  const found = repository.pulls.filter(
    (pull) => (head === undefined || pull.head === head) && (state === "all" || pull.state === state),
  );
  return ok(await Promise.all(found.reverse().map((pull) => pullAnswer(pull, repository, context))));
});

const createPull = of(async (repository, context) => {
  const { head, base, title, body } = context.body as Record<"head" | "base" | "title" | "body", string>;
  const headSha = await shaOf(context, repository, head);
  const baseSha = await shaOf(context, repository, base);
  if (headSha === null) return invalid(`head ${head} does not exist`);
  if (baseSha === null) return invalid(`base ${base} does not exist`);
  const open = (pull: Pull): boolean => pull.head === head && pull.base === base && pull.state === "open";
  if (repository.pulls.some(open)) return invalid(`A pull request already exists for ${head}.`);
  const related = await context.git(repository.fullName, "merge-base", headSha, baseSha).catch(() => null);
  if (related === null) return invalid(`The ${head} branch has no history in common with ${base}`);
  if (related === headSha) return invalid(`No commits between ${base} and ${head}`);
  const pull: Pull = {
    ...{ number: repository.pulls.length + 1, title, body, head, base, state: "open", merged: false },
    ...{ mergeSha: null, mergeable: true, queued: false, reviews: [], comments: [] },
  };
  repository.pulls.push(pull);
  return created(await pullAnswer(pull, repository, context));
});

const updatePull = ofPull(async (pull, repository, context) => {
  const { body, base, title, state } = context.body as Partial<Record<string, string>>;
  if (body !== undefined) pull.body = body;
  if (base !== undefined) pull.base = base;
  if (title !== undefined) pull.title = title;
  if (state === "open" || state === "closed") pull.state = state;
  return ok(await pullAnswer(pull, repository, context));
});

/** Merges as GitHub does with a merge commit. */
export async function mergePull(pull: Pull, repository: Repository, git: RouteContext["git"]): Promise<string> {
  const { fullName } = repository;
  const tree = await git(fullName, "merge-tree", "--write-tree", pull.base, pull.head);
  const parents = ["-p", `refs/heads/${pull.base}`, "-p", `refs/heads/${pull.head}`];
  const sha = await git(fullName, "commit-tree", tree, ...parents, "-m", `Merge pull request #${pull.number}`);
  await git(fullName, "update-ref", `refs/heads/${pull.base}`, sha);
  Object.assign(pull, { merged: true, state: "closed", mergeSha: sha, queued: false });
  return sha;
}

const merge = ofPull(async (pull, repository, context) => {
  const headSha = await shaOf(context, repository, pull.head);
  if (context.body.sha !== headSha) return { status: 409, body: { message: "Head branch was modified." } };
  const approvals = pull.reviews.filter(({ state }) => state === "APPROVED").length;
  const isHeld = repository.hasMergeQueue || approvals < repository.requiredApprovals;
  if (pull.state === "closed" || pull.mergeable === false || isHeld) {
    return { status: 405, body: { message: "Pull Request is not mergeable" } };
  }
  const sha = await mergePull(pull, repository, context.git);
  return ok({
    sha,
    merged: true,
    message: "Pull Request successfully merged",
  } satisfies Schemas["pull-request-merge-result"]);
});

const branch = of(async (repository, context) => {
  const name = context.parameters.branch ?? "";
  const sha = await shaOf(context, repository, name);
  if (sha === null) return { status: 404, body: { message: "Branch not found" } };
  const isProtected = repository.protectedBranches.has(name) || repository.requiredChecks.length > 0;
  const contexts = repository.requiredChecks;
  return ok({
    ...{ name, commit: { sha }, protected: isProtected },
    protection: { enabled: isProtected, required_status_checks: { contexts, checks: [] } },
  });
});

const rules = of((repository) => {
  const parameters = { required_approving_review_count: repository.requiredApprovals };
  return ok([
    ...(repository.hasMergeQueue ? [{ type: "merge_queue" }] : []),
    ...(repository.requiredApprovals > 0 ? [{ type: "pull_request", parameters }] : []),
  ]);
});

const checkRuns = of((repository, { parameters, query }) => {
  const name = query.get("check_name");
  const found = repository.checkRuns.filter(
    (run) => run.sha === parameters.ref && (name === null || run.name === name),
  );
  const runs = found.map(({ id, name: check, externalId, status, conclusion }) => ({
    ...{ id, name: check, external_id: externalId, status, conclusion, html_url: null },
    head_sha: String(parameters.ref),
  }));
  return ok({ total_count: runs.length, check_runs: runs });
});

const suiteRuns = of((repository, { parameters }) => {
  const found = repository.checkRuns.filter(({ suiteId }) => suiteId === Number(parameters.suite));
  const runs = found.map(({ id, name, sha, status, conclusion }) => ({
    ...{ id, name, head_sha: sha, status, conclusion, html_url: null, completed_at: "2026-11-23T05:00:00Z" },
  }));
  return ok({ total_count: runs.length, check_runs: runs });
});

const createCheckRun = of((repository, { body, state, user }) => {
  if (user.kind !== "installation") {
    return { status: 403, body: { message: "You must authenticate via a GitHub App." } };
  }
  const run = {
    ...{
      id: state.nextId(),
      name: String(body.name),
      sha: String(body.head_sha),
      externalId: String(body.external_id),
    },
    ...{ status: String(body.status), conclusion: String(body.conclusion), output: body.output },
  };
  repository.checkRuns.push(run);
  return created({ id: run.id, name: run.name });
});

const combinedStatus = of((repository, { parameters }) => {
  const newest = new Map(
    repository.statuses.filter(({ sha }) => sha === parameters.ref).map((status) => [status.context, status]),
  );
  const statuses = [...newest.values()].map((status) => ({ ...status, target_url: null }));
  return ok({ state: "success", statuses, total_count: statuses.length });
});

const createStatus = of((repository, { parameters, body }) => {
  const { context, state, description } = body as Record<string, string>;
  repository.statuses.push({ sha: parameters.sha!, context: context!, state: state!, description: description ?? "" });
  return created({ context, state, description });
});

const listComments = ofIssue((pull, repository, { base }) =>
  ok(
    pull.comments.map(({ id, body, user }) => ({
      ...{ id, body, user: { login: user }, html_url: `${base}/${repository.fullName}/pull/${pull.number}#c${id}` },
    })),
  ),
);

const createComment = ofIssue((pull, repository, { body, state, user, base }) => {
  const comment = { id: state.nextId(), body: String(body.body), user: user.login };
  pull.comments.push(comment);
  const { id } = comment;
  return created({ id, body: comment.body, html_url: `${base}/${repository.fullName}/pull/${pull.number}#c${id}` });
});

const updateComment = of((repository, { parameters, body }) => {
  const comment = [...repository.pulls, ...repository.issues.values()]
    .flatMap(({ comments }) => comments)
    .find(({ id }) => id === Number(parameters.comment_id));
  if (comment === undefined) return missing;
  comment.body = String(body.body);
  return ok({ id: comment.id, body: comment.body });
});

const permission = of(({ writers }, { state, parameters }) => {
  const login = String(parameters.username);
  const isUsual = [...state.users.values()].some((user) => user.login === login && user.mayPush);
  const level: Part<"repository-collaborator-permission", "permission"> = {
    permission: isUsual || writers.has(login) ? "write" : "read",
  };
  return ok(level);
});

const jobLog = of(({ logs }, { parameters }) => {
  const log = logs.get(Number(parameters.job_id));
  return log === undefined
    ? missing
    : { status: 200, body: Readable.from(log()), headers: { "content-type": "text/plain" } };
});

const reviews = ofPull(async (pull, repository, context) => {
  const headSha = await shaOf(context, repository, pull.head);
  return ok(
    pull.reviews.map(({ user, state, association, sha = headSha }, index) => ({
      ...{ id: index + 1, user: { login: user }, state, author_association: association, commit_id: sha },
    })),
  );
});

const contents = of(async ({ fullName }, { parameters, query, git }) => {
  const path = parameters.path ?? "";
  const found = await git(fullName, "cat-file", "-s", `${query.get("ref")}:${path}`).catch(() => null);
  if (found === null) return missing;
  const size = Number(found);
  // GitHub sends no content for a file above 1 MB.
  const text = size > 1024 * 1024 ? "" : await git(fullName, "cat-file", "-p", `${query.get("ref")}:${path}`);
  // The test's `git` trims its output.
  const content = Buffer.from(text.padEnd(text === "" ? 0 : size, "\n")).toString("base64");
  return ok({ type: "file", encoding: "base64", size, path, content } satisfies Partial<Schemas["content-file"]>);
});

const gitCommit = of(async ({ fullName }, { parameters, git }) => {
  const shown = await git(fullName, "show", "-s", "--format=%P", parameters.sha!).catch(() => null);
  if (shown === null) return missing;
  const parents = shown.split(" ").flatMap((sha) => (sha === "" ? [] : { sha, url: "", html_url: "" }));
  return ok({ sha: parameters.sha!, parents } satisfies Partial<Schemas["git-commit"]>);
});

/** The pull requests that brought a commit into the default branch. */
const pullsOfCommit = of(async (repository, context) => {
  const own = repository.pulls.filter(({ mergeSha }) => mergeSha === context.parameters.sha);
  return ok(await Promise.all(own.map((pull) => pullAnswer(pull, repository, context))));
});

/** Newest first, as on GitHub. */
const events = of(({ id, fullName, events: all, pollSeconds }) => {
  const listed = [...all].reverse().map((event) => ({ ...event, repo: { id, name: fullName, url: "" } }));
  return ok(listed, { "x-poll-interval": String(pollSeconds) });
});

const statusList = of(({ statuses }, { parameters }) => {
  const found = statuses.flatMap((status, index) =>
    status.sha === parameters.ref ? [{ ...status, id: index + 1, target_url: null, updated_at: new Date(index) }] : [],
  );
  return ok(found.reverse());
});

const graphql: Handler = async ({ body, state, git }) => {
  const variables = (body.variables ?? {}) as Record<string, string | number>;
  if (!String(body.query).includes("enqueuePullRequest")) {
    const repository = state.find(`${variables.owner}/${variables.repo}`);
    const pull = repository?.pulls.find(({ number }) => number === variables.number);
    if (repository === null || pull === undefined) return ok({ data: { repository: null } });
    const entry = pull.queued ? { state: "QUEUED" } : null;
    const pullRequest = { id: `PR_${repository.id}_${pull.number}`, mergeQueueEntry: entry };
    return ok({ data: { repository: { pullRequest } } });
  }
  const [, repositoryId, number] = String(variables.id).split("_");
  const repository = state.repositories.find(({ id }) => id === Number(repositoryId));
  const pull = repository?.pulls.find((one) => one.number === Number(number));
  if (repository === undefined || pull === undefined)
    return ok({ errors: [{ message: "Could not resolve to a node" }] });
  const headSha = await git(repository.fullName, "rev-parse", `refs/heads/${pull.head}`);
  if (headSha !== variables.sha) return ok({ errors: [{ message: "Head sha did not match" }] });
  pull.queued = true;
  return ok({ data: { enqueuePullRequest: { mergeQueueEntry: { state: "QUEUED" } } } });
};

const rateLimit: Handler = () => {
  const core = { limit: 5000, remaining: 4987, reset: 1_900_000_000, used: 13 };
  return ok({ resources: { core, search: core }, rate: core } satisfies Part<
    "rate-limit-overview",
    "resources" | "rate"
  >);
};

export const routes: Readonly<Record<string, Handler>> = {
  "GET /user": ({ user }) =>
    user.kind === "user"
      ? ok({ login: user.login, id: 1 }, { "x-oauth-scopes": user.scopes.join(", ") })
      : { status: 403, body: { message: "Resource not accessible by integration" } },
  "GET /app": ({ state, user, base }) => showApp(state, user, base),
  "GET /app/installations": ({ state, user }) => listInstallations(state, user),
  "GET /rate_limit": rateLimit,
  "POST /user/repos": create(({ user }) => user.login),
  "POST /orgs/{org}/repos": (context) =>
    context.state.organisations.has(context.parameters.org ?? "")
      ? create(({ parameters }) => parameters.org ?? "")(context)
      : missing,
  "GET /repositories/{id}": (context) => {
    const found = context.state.repositories.find(({ id }) => id === Number(context.parameters.id));
    return found === undefined ? missing : ok(repositoryAnswer(found, context));
  },
  "GET /repos/{owner}/{repo}": of((repository, context) => ok(repositoryAnswer(repository, context))),
  "GET /repos/{owner}/{repo}/installation": of((_, { state, user, parameters }) =>
    findInstallation(state, user, parameters.owner ?? ""),
  ),
  "GET /users/{username}/installation": ({ state, user, parameters }) =>
    findInstallation(state, user, parameters.username ?? ""),
  "POST /app/installations/{id}/access_tokens": ({ state, user }) => mintToken(state, user),
  "GET /repos/{owner}/{repo}/branches/{branch}": branch,
  "GET /repos/{owner}/{repo}/rules/branches/{branch}": rules,
  "GET /repos/{owner}/{repo}/pulls": listPulls,
  "POST /repos/{owner}/{repo}/pulls": createPull,
  "GET /repos/{owner}/{repo}/pulls/{pull_number}": ofPull(async (pull, repository, context) => {
    if (pull.queued && repository.mergesQueued) await mergePull(pull, repository, context.git);
    return ok(await pullAnswer(pull, repository, context));
  }),
  "PATCH /repos/{owner}/{repo}/pulls/{pull_number}": updatePull,
  "PUT /repos/{owner}/{repo}/pulls/{pull_number}/merge": merge,
  "GET /repos/{owner}/{repo}/pulls/{pull_number}/reviews": reviews,
  "GET /repos/{owner}/{repo}/issues/{issue_number}/comments": listComments,
  "POST /repos/{owner}/{repo}/issues/{issue_number}/comments": createComment,
  "PATCH /repos/{owner}/{repo}/issues/comments/{comment_id}": updateComment,
  "GET /repos/{owner}/{repo}/contents/{path}": contents,
  "GET /repos/{owner}/{repo}/git/commits/{sha}": gitCommit,
  "GET /repos/{owner}/{repo}/commits/{sha}/pulls": pullsOfCommit,
  "GET /repos/{owner}/{repo}/commits/{ref}/check-runs": checkRuns,
  "GET /repos/{owner}/{repo}/check-suites/{suite}/check-runs": suiteRuns,
  "POST /repos/{owner}/{repo}/check-runs": createCheckRun,
  "GET /repos/{owner}/{repo}/events": events,
  "GET /repos/{owner}/{repo}/commits/{ref}/statuses": statusList,
  "GET /repos/{owner}/{repo}/commits/{ref}/status": combinedStatus,
  "POST /repos/{owner}/{repo}/statuses/{sha}": createStatus,
  "GET /repos/{owner}/{repo}/collaborators/{username}/permission": permission,
  "GET /repos/{owner}/{repo}/actions/jobs/{job_id}/logs": jobLog,
  "POST /graphql": graphql,
};
