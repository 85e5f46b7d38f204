import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { projectIdFor } from "../../src/coordinator/build/request/project.ts";
import { pollForge } from "../../src/coordinator/outside/poll-forge.ts";
import { readGithub } from "../../src/webhooks/read-github.ts";
import { usualToken } from "../support/github-state.ts";
import { createWebhookSite, type WebhookSite } from "../support/webhook-site.ts";

// What people and CI say on GitHub is carried out once, however long GitHub does not answer, and
// whatever its repositories are called by then.

const gates = { testing: false, critic: false, integration: false };
const standing = JSON.stringify({
  on: { push: { branches: ["main"] }, label: "build-me" },
  plan: { name: "upkeep", gates, network: "none", approval: "wave", tasks: [{ id: "a", run: "echo a > a.txt" }] },
});
const hourMs = 3_600_000;

describe("a forge on a bad day", () => {
  let site: WebhookSite;
  beforeAll(async () => {
    site = await createWebhookSite({ WAVESMITH_GITHUB_REPOSITORIES: "octo/app" });
    await site.github.repository("octo/app", { "README.md": "# Hello\n", "wavesmith.yaml": standing });
  });
  afterAll(() => site.close());

  const repository = () => site.github.state.find("octo/app")!;
  const newIssue = (number: number) => {
    const comments: { id: number; body: string; user: string }[] = [];
    repository().issues.set(number, { comments });
    return comments;
  };
  const says = (number: number, body: string, more: object = {}) =>
    site.send("issue_comment", {
      ...{ action: "created", issue: { number, title: "", body: "" }, ...more },
      comment: { id: number * 10, body, user: { login: "octo", type: "User" } },
    });
  const labels = (number: number, on: { name: string; id: number } | null = null) =>
    site.send("issues", {
      ...{ action: "labeled", issue: { number, title: "", body: "", updated_at: randomUUID() } },
      ...{ label: { name: "build-me" }, sender: { login: "octo", type: "User" } },
      ...(on === null ? {} : { repository: { full_name: on.name, id: on.id } }),
    });
  const limited = () => site.github.calls.filter(({ status }) => status === 403).length;

  it("waits for rate limits to end, however many there are, and then does what was asked", async () => {
    const comments = newIssue(10);
    const reset = new Date(Math.ceil((Date.now() + hourMs) / 1_000) * 1_000);
    site.github.rateLimit(reset);
    await says(10, "/wavesmith help");
    // A failing function is tried five times in all.
    for (let time = 1; time <= 6; time += 1) {
      await expect.poll(limited, { timeout: 30_000 }).toBe(time);
      await expect.poll(async () => (await site.waits("forge-command")).length, { timeout: 30_000 }).toBe(1);
      const [until] = await site.waits("forge-command");
      expect(Math.abs(until!.getTime() - reset.getTime())).toBeLessThan(10_000);
      if (time === 6) site.github.rateLimit(null);
      await site.passWaits();
    }
    await expect.poll(() => comments.map(({ body }) => body).join(), { timeout: 30_000 }).toContain("may begin with");
    expect(site.fixture.warnings.join("\n")).toContain(
      "see whether they may push waits for the forge: GitHub answered",
    );
  });

  it("does what was asked while its token was revoked, once it has a valid one", async () => {
    const comments = newIssue(11);
    const user = site.github.state.users.get(usualToken)!;
    site.github.state.revoke(usualToken);
    await says(11, "/wavesmith help");
    await expect.poll(async () => (await site.waits("forge-command")).length, { timeout: 30_000 }).toBe(1);
    site.github.state.users.set(usualToken, user);
    await site.passWaits();
    await expect.poll(() => comments.length, { timeout: 30_000 }).toBe(1);
  });

  it("writes one comment for two events at the same moment", async () => {
    const comments = newIssue(12);
    // Both look for a comment before either has written one.
    const slow = site.github.fault({
      ...{ route: "POST /repos/{owner}/{repo}/issues/{issue_number}/comments", when: "before", delayMs: 1_000 },
    });
    await Promise.all([labels(12), labels(12)]);
    expect(await site.answers("forge-label")).toHaveLength(2);
    expect(slow.seen()).toBe(1);
    slow.clear();
    expect(comments.map(({ body }) => body)).toEqual([expect.stringContaining("has started for `build-me`")]);
  });

  it("handles a red check whose log it may not read", async () => {
    const { store } = site.fixture.app;
    const [build] = await store.builds.list({ projectId: projectIdFor("default", "octo/app") });
    await site.fixture.until(build!.id, ({ status }) => status === "waiting");
    const { headSha } = await store.waves.get({ buildId: build!.id });
    const answer = { status: 403, message: "Resource not accessible by integration" };
    const refused = site.github.fault({ route: "/actions/jobs/{job_id}/logs", when: "before", answer });
    const run = { id: 7, name: "unit", head_sha: headSha, conclusion: "failure", completed_at: new Date() };
    await site.send("check_run", { action: "completed", check_run: { ...run, app: { slug: "github-actions" } } });
    await site.answers("check-settle");
    refused.clear();
    expect(await store.comments.list({ buildId: build!.id })).toMatchObject([
      { text: "The check unit failed.", log: expect.stringContaining("[its log cannot be read: GitHub answered 403") },
    ]);
  });

  it("follows a renamed repository by its id when another one has taken its name", async () => {
    const { fixture, github } = site;
    const [former, present] = ["octo/shop", "octo/store"];
    const own = await github.repository(former);
    const plan = (task: string) => ({
      ...{ gates, network: "none", tasks: [{ id: task, run: `echo ${task} > ${task}.txt` }] },
      deliver: { forge: "github", repo: former },
    });
    const first = await fixture.build(plan("one"));
    await expect.poll(() => own.pulls.length, { timeout: 40_000 }).toBe(1);
    github.state.rename(former, present);
    const stranger = await github.repository(former);
    expect(stranger.id).not.toBe(own.id);

    // Nothing said in the other repository is about ours.
    const inStranger = { repository: { full_name: former, id: stranger.id } };
    expect((await says(1, "/wavesmith cancel", inStranger)).body.answer).toContain(`no project delivers to ${former}`);
    const review = { id: 5, body: "no", state: "changes_requested", user: { login: "octo", type: "User" } };
    const reviewed = { action: "submitted", pull_request: { number: 1 }, review, ...inStranger };
    expect((await site.send("pull_request_review", reviewed)).body.answer).toContain(`nothing to do: ${former}#1`);
    const check = { id: 6, name: "unit", head_sha: first.headSha, conclusion: "failure", completed_at: new Date() };
    const checked = { action: "completed", check_run: check, ...inStranger };
    expect((await site.send("check_run", checked)).body.answer).toContain("no build of octo/shop has this branch");

    // When we ask for news, we ask our own repository.
    const happens = (on: typeof own, login: string) =>
      on.events.push({
        ...{ id: `${on.id}`, type: "IssueCommentEvent", actor: { login }, created_at: new Date().toISOString() },
        payload: {
          ...{ action: "created", issue: { number: 1, title: "", body: "" } },
          comment: { id: on.id, body: "/wavesmith help", user: { login, type: "User" } },
        },
      });
    happens(stranger, "mallory");
    happens(own, "octo");
    const triggers = { label: "wavesmith", assignee: null };
    await pollForge(fixture.app.ports, (event, payload) => readGithub(event, payload, triggers));
    await fixture.app.flush();
    await expect.poll(() => own.pulls[0]!.comments.length, { timeout: 30_000 }).toBe(1);

    // The next build's plan uses the former name.
    const second = await fixture.build(plan("two"));
    await expect.poll(() => own.pulls.length, { timeout: 40_000 }).toBe(2);
    expect(await fixture.app.store.pullRequests.list({ buildId: second.id })).toMatchObject([
      { repo: present, repoId: String(own.id) },
    ]);
    expect(stranger.pulls).toEqual([]);
    expect(await github.git(former, "for-each-ref", "--format=%(refname:short)", "refs/heads")).toBe("main");
  });
});
