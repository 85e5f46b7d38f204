import { matchSchema } from "../domain/check-input.ts";
import { boundedLog } from "./bounded-log.ts";
import { readCommand } from "./commands.ts";
import { conclusionOf } from "./conclusions.ts";
import { type GithubEvent, type GithubPayload, githubPayloads } from "./github-payloads.ts";
import type { IssueTriggers, LabelFact, OutsideFact, ReadDelivery, SuiteFact } from "./port.ts";

/** Marks everything that we write on a forge, so that we never answer ourselves. */
const ownMark = "<!-- wavesmith";
/** The names of our own checks begin with this. */
const ownCheck = /^wavesmith\b/i;

const ignore = (ignored: string): ReadDelivery => ({ facts: [], ignored });
const act = (...facts: OutsideFact[]): ReadDelivery => ({ facts, ignored: null });

type Readers = {
  readonly [Event in GithubEvent]: (payload: GithubPayload<Event>, triggers: IssueTriggers) => ReadDelivery;
};

/** The repository of something, and its id there. */
const placeOf = ({ repository: { full_name: repository } }: { repository: { full_name: string } }, what: string) => ({
  repository,
  origin: originOf(repository, what),
});

/** The id of something on GitHub, which is the same in a webhook and when we poll. */
export const originOf = (repository: string, what: string): string => `github:${repository.toLowerCase()}:${what}`;

const isBot = ({ type, login }: { type: string; login: string }): boolean => type === "Bot" || login.endsWith("[bot]");

/** A label that somebody put on an open issue or request; null for anything else. */
function readLabel(
  payload: GithubPayload<"issues"> | GithubPayload<"pull_request">,
  { number, state, updated_at: at }: { number: number; state: string; updated_at?: string | null | undefined },
): LabelFact | null {
  if (payload.action !== "labeled" || payload.label === undefined || state !== "open") return null;
  const { name: label } = payload.label;
  const by = payload.sender?.login ?? "";
  return { kind: "label", ...placeOf(payload, `label:${number}:${label}:${at ?? ""}`), number, by, label };
}

/** A suite of checks that has ended, or the workflow whose jobs it has. */
function readSuite(
  payload: GithubPayload<"check_suite"> | GithubPayload<"workflow_run">,
  { head_branch: branch = null, head_sha: sha, conclusion, updated_at: completedAt }: EndedSuite,
  suite: Pick<SuiteFact, "suiteId" | "name" | "url">,
): ReadDelivery {
  if (payload.action !== "completed" || conclusion == null) return ignore("its checks have not ended");
  const place = placeOf(payload, `suite:${suite.suiteId}:${completedAt.toISOString()}`);
  return act({
    kind: "suite",
    ...place,
    ...suite,
    branch,
    sha,
    completedAt,
    conclusion: conclusionOf(conclusion) ?? "failed",
  });
}

type EndedSuite = Omit<GithubPayload<"check_suite">["check_suite"], "app" | "id">;

const readers: Readers = {
  push(payload) {
    const branch = /^refs\/heads\/(.+)$/.exec(payload.ref)?.[1];
    if (branch === undefined || payload.deleted) return ignore("only pushes of commits to branches matter");
    const by = payload.pusher?.name ?? payload.sender?.login ?? "somebody";
    return act({
      kind: "push",
      ...placeOf(payload, `push:${branch}:${payload.after}`),
      by,
      branch,
      sha: payload.after,
    });
  },

  pull_request(payload) {
    const labelled = readLabel(payload, payload.pull_request);
    if (labelled !== null) return act(labelled);
    if (payload.action !== "closed") return ignore(`a request that was ${payload.action} needs nothing`);
    const { number, merged, closed_at: at } = payload.pull_request;
    const by = payload.sender?.login ?? "somebody";
    return act({
      kind: "closed",
      ...placeOf(payload, `closed:${number}:${at ?? ""}`),
      number,
      by,
      merged: merged === true,
    });
  },

  pull_request_review(payload) {
    const { id, body, user, commit_id: sha = null } = payload.review;
    const state = payload.review.state.toLowerCase();
    if (payload.action !== "submitted" || isBot(user)) return ignore("only reviews that people submit matter");
    if (state !== "approved" && state !== "changes_requested") return ignore("its comments arrive by themselves");
    const { number } = payload.pull_request;
    return act({ kind: "review", ...placeOf(payload, `review:${id}`), number, by: user.login, state, text: body, sha });
  },

  pull_request_review_comment(payload) {
    const { id, body: text, user, path: file, html_url: url = null } = payload.comment;
    const { number } = payload.pull_request;
    const by = user.login;
    if (payload.action === "deleted") {
      const comments = [originOf(payload.repository.full_name, `review-comment:${id}`)];
      return act({ kind: "thread", ...placeOf(payload, `deleted:${id}`), number, by, comments, resolved: true });
    }
    if (payload.action !== "created") return ignore(`a comment that was ${payload.action} stays as it was taken`);
    if (text.includes(ownMark) || isBot(user)) return ignore("programs' comments are not taken");
    const line = payload.comment.line ?? payload.comment.original_line ?? null;
    return act({
      kind: "comment",
      ...placeOf(payload, `review-comment:${id}`),
      ...{ number, by, text, file, url, line: line !== null && line > 0 ? line : null },
    });
  },

  pull_request_review_thread(payload) {
    const { node_id: node, comments } = payload.thread;
    const { action, updated_at: at } = payload;
    if (action !== "resolved" && action !== "unresolved") return ignore(`a thread that was ${action} needs nothing`);
    return act({
      kind: "thread",
      ...placeOf(payload, `thread:${node}:${action}:${at ?? ""}`),
      number: payload.pull_request.number,
      by: payload.sender?.login ?? "somebody",
      comments: comments.map(({ id }) => originOf(payload.repository.full_name, `review-comment:${id}`)),
      resolved: action === "resolved",
    });
  },

  issue_comment(payload) {
    const { id, body, user } = payload.comment;
    if (payload.action !== "created" || body.includes(ownMark) || isBot(user))
      return ignore("only new comments of people are read");
    const command = readCommand(body);
    if (command === null) return ignore("the comment does not begin with /wavesmith");
    const place = { ...placeOf(payload, `comment:${id}`), number: payload.issue.number, by: user.login };
    if (command === "unknown") return act({ kind: "command", ...place, verb: "help", text: "" });
    const { title, body: rest } = payload.issue;
    const text = command.verb === "build" && command.text === "" ? `${title}\n\n${rest}` : command.text;
    return act({ kind: "command", ...place, verb: command.verb, text });
  },

  issues(payload, { label, assignee }) {
    const { number, title, body: text, state } = payload.issue;
    if (state !== "open") return ignore("the issue is closed");
    const isLabelled = payload.action === "labeled" && payload.label?.name.toLowerCase() === label.toLowerCase();
    const isAssigned =
      payload.action === "assigned" &&
      assignee !== null &&
      payload.assignee?.login.toLowerCase() === assignee.toLowerCase();
    const other = isLabelled ? null : readLabel(payload, payload.issue);
    if (other !== null) return act(other);
    if (!isLabelled && !isAssigned) return ignore("only a label or an assignment starts a build");
    const by = payload.sender?.login ?? "";
    return act({ kind: "issue", ...placeOf(payload, `issue:${number}`), number, by, title, text });
  },

  check_run(payload) {
    const { id, name, head_sha: sha, conclusion, html_url: url = null, app, check_suite: suite } = payload.check_run;
    const { output, completed_at: completedAt } = payload.check_run;
    if (payload.action !== "completed" || conclusion == null) return ignore("the check has not ended");
    if (ownCheck.test(name)) return ignore("it is our own check");
    const text = [output?.title, output?.summary, output?.text].filter(Boolean).join("\n\n");
    return act({
      kind: "check",
      ...placeOf(payload, `check:${id}:${conclusion}`),
      ...{ branch: suite?.head_branch ?? null, sha, name, url, log: text === "" ? null : boundedLog(text) },
      conclusion: conclusionOf(conclusion) ?? "failed",
      jobId: app?.slug === "github-actions" ? id : null,
      completedAt: completedAt ?? new Date(0),
    });
  },

  check_suite(payload) {
    const { id, app } = payload.check_suite;
    return readSuite(payload, payload.check_suite, { suiteId: id, name: app?.name ?? "checks", url: null });
  },

  workflow_run(payload) {
    const { check_suite_id: suiteId, name, html_url: url = null } = payload.workflow_run;
    if (suiteId === undefined) return ignore("its jobs report as check runs");
    return readSuite(payload, payload.workflow_run, { suiteId, name: name ?? "workflow", url });
  },

  status(payload) {
    const { id, sha, context: name, state, description, target_url: url = null, branches } = payload;
    if (state === "pending") return ignore("the check has not ended");
    if (ownCheck.test(name)) return ignore("it is our own check");
    const branch = branches.find((one) => one.name.startsWith("wavesmith/"))?.name ?? branches[0]?.name ?? null;
    return act({
      kind: "check",
      ...placeOf(payload, `status:${id}`),
      ...{ branch, sha, name, url, log: description === "" ? null : description, jobId: null },
      conclusion: conclusionOf(state) ?? "failed",
      completedAt: payload.updated_at,
    });
  },
};

/**
 * Reads one delivery of GitHub. Unknown events have no facts. Fails with `usage` for a payload that
 * lacks a field that we use.
 */
export function readGithub(event: string, payload: unknown, triggers: IssueTriggers): ReadDelivery {
  if (event === "ping") return ignore("GitHub reaches this server");
  if (!Object.hasOwn(githubPayloads, event)) return ignore(`nothing follows from the event ${event.slice(0, 100)}`);
  return readKnown(event as GithubEvent, payload, triggers);
}

function readKnown<Event extends GithubEvent>(event: Event, payload: unknown, triggers: IssueTriggers): ReadDelivery {
  const known = matchSchema(githubPayloads[event as GithubEvent], payload, {
    where: "it",
    intro: `the payload of ${event} is not as GitHub documents it: `,
    remedy: "send what GitHub sends; docs/webhooks.md has examples",
  });
  const { full_name: name, id } = known.repository;
  const reading = readers[event](known as GithubPayload<Event>, triggers);
  return id === undefined ? reading : { ...reading, repository: { name, id: String(id) } };
}
