import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { buildIdForEvent } from "../../src/domain/events/request-ids.ts";
import { createWebhookSite, type WebhookSite } from "../support/webhook-site.ts";

// Comments of reviewers in a build's pull request become its findings.

const gates = { testing: false, critic: false, integration: false };
const standing = JSON.stringify({
  on: { push: { branches: ["main"] } },
  plan: { name: "upkeep", gates, network: "none", approval: "wave", tasks: [{ id: "a", run: "echo a > a.txt" }] },
});

describe("a review on GitHub", () => {
  let site: WebhookSite;
  let buildId: string;
  beforeAll(async () => {
    site = await createWebhookSite({ WAVESMITH_GITHUB_REPOSITORIES: "octo/app" });
    const repository = await site.github.repository("octo/app", { "wavesmith.yaml": standing });
    const after = await site.github.git("octo/app", "rev-parse", "main");
    await site.send("push", { ref: "refs/heads/main", after, sender: { login: "octo", type: "User" } });
    const { store } = site.fixture.app;
    buildId = buildIdForEvent(`forge-push:github:${repository.id}:main:${after}`);
    const { projectId } = await vi.waitFor(() => store.builds.get({ id: buildId }), { timeout: 40_000, interval: 200 });
    await site.fixture.until(buildId, ({ status }) => status === "waiting");
    const sha = (await store.waves.get({ buildId, number: 1 })).headSha!;
    await store.pullRequests.insert({
      ...{ id: "pr_review", projectId, buildId, key: "build", forge: "github", repo: "octo/app" },
      ...{ branch: `wavesmith/${buildId}/result`, waveNumber: 1, sha, pushedSha: sha, number: 1, status: "open" },
    });
    const pull = { title: "", body: "", head: "main", base: "main", state: "open" as const, merged: false };
    const rest = { mergeSha: null, mergeable: true, queued: false, reviews: [], comments: [] };
    repository.pulls.push({ number: 1, ...pull, ...rest });
  });
  afterAll(() => site.close());

  const of = (login: string) => ({ login, type: "User" });
  const comments = (id: number, body: string, login = "octo") =>
    site.send("pull_request_review_comment", {
      ...{ action: "created", pull_request: { number: 1 } },
      comment: { id, body, user: of(login), path: "a.txt", line: 1 },
    });
  const thread = (action: "resolved" | "unresolved", id: number) =>
    site.send("pull_request_review_thread", {
      ...{ action, pull_request: { number: 1 }, thread: { node_id: `T${id}`, comments: [{ id }] }, sender: of("octo") },
    });
  const findings = async () => {
    const rows = await site.fixture.app.store.comments.list({ buildId }, { by: "id" });
    return rows.map(({ text, file, line, state }) => [text, file, line, state].join(" "));
  };
  const become = (expected: string[]) => expect.poll(findings, { timeout: 30_000 }).toEqual(expected);

  it("becomes a finding at its line, dropped while its thread is resolved", async () => {
    await comments(1, "Why a?");
    await become(["Why a? a.txt 1 open"]);
    await thread("resolved", 1);
    await become(["Why a? a.txt 1 superseded"]);
    await thread("unresolved", 1);
    await become(["Why a? a.txt 1 open"]);
  });

  it("becomes a finding when it requests changes, once", async () => {
    const review = { id: 2, body: "Use b.", state: "changes_requested", user: of("octo"), commit_id: null };
    for (const _ of [1, 2])
      await site.send("pull_request_review", { action: "submitted", pull_request: { number: 1 }, review });
    await become(["Why a? a.txt 1 open", "A reviewer asked for changes. Use b.   open"]);
    expect(await site.answers("forge-review")).toHaveLength(1);
  });

  it("is ignored, with an answer, if its author may not push", async () => {
    const before = await findings();
    await comments(3, "Ship it to me", "mallory");
    const said = () =>
      site.github.state
        .find("octo/app")!
        .pulls[0]!.comments.map(({ body }) => body)
        .join();
    await expect.poll(said, { timeout: 30_000 }).toContain("@mallory only people who may push");
    expect(await findings()).toEqual(before);
  });
});
