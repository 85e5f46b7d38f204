import { z } from "zod";

// The fields of GitHub's webhooks that we use; all others are dropped.

const longestText = 100_000;
const text = z
  .string()
  .nullish()
  .transform((value) => (value ?? "").slice(0, longestText));
const id = z.number().int();
const user = z.object({ login: z.string().max(100), type: z.string().max(50).default("User") });
const place = z.object({
  repository: z.object({ full_name: z.string().regex(/^[\w.-]{1,100}\/[\w.-]{1,100}$/), id: id.optional() }),
  sender: user.optional(),
});
const base = place.extend({ action: z.string().max(100).optional() });
const label = z.object({ name: z.string().max(100) }).optional();
const onRequest = base.extend({ pull_request: z.object({ number: id }) });
const url = z.string().max(2_000).nullish();
const moment = z.coerce.date();

/** A suite or a workflow, which may have ended. */
const ended = z.object({
  id,
  head_branch: z.string().max(500).nullish(),
  head_sha: z.string().max(64),
  conclusion: z.string().max(50).nullish(),
  updated_at: moment,
});

export const githubPayloads = {
  push: place.extend({
    ref: z.string().max(500),
    after: z.string().max(64),
    deleted: z.boolean().default(false),
    pusher: z.object({ name: z.string().max(100) }).optional(),
  }),
  pull_request: base.extend({
    pull_request: z.object({
      number: id,
      state: z.string().default("open"),
      merged: z.boolean().nullish(),
      closed_at: z.string().nullish(),
      updated_at: z.string().nullish(),
    }),
    label,
  }),
  pull_request_review: onRequest.extend({
    review: z.object({ id, body: text, state: z.string().max(50), user, commit_id: z.string().max(64).nullish() }),
  }),
  pull_request_review_comment: onRequest.extend({
    comment: z.object({
      id,
      body: text,
      user,
      path: z.string().max(1_000),
      line: id.nullish(),
      original_line: id.nullish(),
      html_url: url,
    }),
  }),
  pull_request_review_thread: onRequest.extend({
    thread: z.object({ node_id: z.string().max(200), comments: z.array(z.object({ id })).max(1_000) }),
    updated_at: z.string().nullish(),
  }),
  issue_comment: base.extend({
    issue: z.object({ number: id, title: text, body: text }),
    comment: z.object({ id, body: text, user }),
  }),
  issues: base.extend({
    issue: z.object({
      ...{ number: id, title: text, body: text },
      state: z.string().default("open"),
      updated_at: z.string().nullish(),
    }),
    label,
    assignee: user.nullish(),
  }),
  check_run: base.extend({
    check_run: z.object({
      id,
      name: z.string().max(300),
      head_sha: z.string().max(64),
      conclusion: z.string().max(50).nullish(),
      completed_at: moment.nullish(),
      html_url: url,
      app: z.object({ slug: z.string().max(100).nullish() }).nullish(),
      check_suite: z.object({ head_branch: z.string().max(500).nullish() }).nullish(),
      output: z.object({ title: text, summary: text, text }).partial().nullish(),
    }),
  }),
  check_suite: base.extend({
    check_suite: ended.extend({ app: z.object({ name: z.string().max(200).nullish() }).nullish() }),
  }),
  workflow_run: base.extend({
    workflow_run: ended.extend({ name: z.string().max(300).nullish(), check_suite_id: id.optional(), html_url: url }),
  }),
  status: place.extend({
    id,
    sha: z.string().max(64),
    context: z.string().max(300),
    state: z.string().max(50),
    description: text,
    target_url: url,
    updated_at: moment,
    branches: z
      .array(z.object({ name: z.string().max(500) }))
      .max(100)
      .default([]),
  }),
} as const;

export type GithubEvent = keyof typeof githubPayloads;
export type GithubPayload<Event extends GithubEvent> = z.infer<(typeof githubPayloads)[Event]>;
