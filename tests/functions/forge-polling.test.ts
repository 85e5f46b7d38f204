import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createPolling } from "../../src/app/polling.ts";
import { pollForge } from "../../src/coordinator/outside/poll-forge.ts";
import { buildIdForEvent } from "../../src/domain/events/request-ids.ts";
import { readGithub } from "../../src/webhooks/read-github.ts";
import { createWebhookSite, type WebhookSite } from "../support/webhook-site.ts";

// A server that GitHub's webhooks cannot reach asks for news.

const hour = 3_600_000;
const gates = { testing: false, critic: false, integration: false };
const standing = JSON.stringify({
  on: { push: { branches: ["main"] } },
  plan: { name: "upkeep", gates, network: "none", approval: "wave", tasks: [{ id: "a", run: "echo a > a.txt" }] },
});

describe("polling GitHub", () => {
  let site: WebhookSite;
  let passedMs = 0;
  beforeAll(async () => {
    site = await createWebhookSite({ WAVESMITH_GITHUB_REPOSITORIES: "octo/app, octo/gone" });
    await site.github.repository("octo/app", { "README.md": "# Hello\n", "wavesmith.yaml": standing });
  });
  afterAll(() => site.close());

  const repository = () => site.github.state.find("octo/app")!;
  const now = () => new Date(Date.now() + passedMs);
  const poll = () =>
    pollForge({ ...site.fixture.app.ports, clock: { now } }, (event, payload) =>
      readGithub(event, payload, { label: "wavesmith", assignee: null }),
    );
  const happens = (type: string, payload: object, { login = "octo", at = now() } = {}) =>
    repository().events.push({
      ...{ id: String(repository().events.length + 1), type, actor: { login }, payload },
      created_at: at.toISOString(),
    });
  const later = (seconds = 61) => {
    passedMs += seconds * 1_000;
  };
  const looks = () => site.github.calls.filter(({ route }) => route.endsWith("/events")).map(({ status }) => status);
  const builds = () => site.fixture.app.store.builds.list({});
  const pushed = async () => ({ ref: "refs/heads/main", head: await site.github.git("octo/app", "rev-parse", "main") });
  const buildId = async () => buildIdForEvent(`forge-push:github:${repository().id}:main:${(await pushed()).head}`);

  it("ignores events from before its first look, and a repository that is gone", async () => {
    happens("PushEvent", await pushed(), { at: new Date(Date.now() - hour) });
    expect(await poll()).toBeNull();
    expect(await site.answers("forge-push")).toEqual([]);
    expect(site.fixture.warnings.join("\n")).toContain("the events of octo/gone at GitHub cannot be read");
  });

  it("asks again when GitHub says to, and pays nothing when there is no news", async () => {
    await poll();
    expect(looks().filter((status) => status === 200)).toHaveLength(1);
    later();
    await poll();
    expect(looks().filter((status) => status === 304)).toHaveLength(1);
  });

  it("starts one build for a push, even if a webhook and a killed process reported it before", async () => {
    later();
    happens("PushEvent", await pushed());
    const { store } = site.fixture.app;
    const cursor = await store.webhookDeliveries.get({ id: "poll:github:octo/app" });
    await poll();
    // As after a kill before the cursor was stored, in a process that has other news to read, too.
    await store.webhookDeliveries.update({ id: cursor.id }, { answer: cursor.answer });
    await poll();
    const { ref, head: after } = await pushed();
    await site.send("push", { ref, after, sender: { login: "octo", type: "User" } });
    expect(await site.answers("forge-push")).toHaveLength(1);
    const id = await buildId();
    await expect.poll(() => store.builds.find({ id }), { timeout: 40_000 }).not.toBeNull();
    expect(await site.fixture.until(id, ({ status }) => status === "waiting")).toMatchObject({ reason: null });
    expect(await builds()).toHaveLength(1);
  });

  it("steers by comments, and notices red checks of open requests", async () => {
    const { store } = site.fixture.app;
    const id = await buildId();
    const { projectId } = await store.builds.get({ id });
    const sha = (await store.waves.get({ buildId: id })).headSha!;
    await store.pullRequests.insert({
      ...{ id: "pr_poll", projectId, buildId: id, key: "build", forge: "github", repo: "octo/app" },
      ...{ branch: `wavesmith/${id}/result`, waveNumber: 1, sha, pushedSha: sha, number: 1, status: "open" },
    });
    const pull = { title: "", body: "", head: "main", base: "main", state: "open" as const, merged: false };
    const rest = { mergeSha: null, mergeable: true, queued: false, reviews: [], comments: [] };
    repository().pulls.push({ number: 1, ...pull, ...rest });
    const run = { id: 5, name: "unit", sha, externalId: "", status: "completed", output: null };
    repository().checkRuns.push({ ...run, conclusion: "failure" });
    repository().statuses.push({ sha, context: "ci/old", state: "failure", description: "red" });
    later();
    await poll();
    await poll();
    await site.answers("check-settle");
    const checks = await store.ciChecks.list({ buildId: id }, { by: "name" });
    expect(checks).toMatchObject([
      { name: "ci/old", conclusion: "failed" },
      { name: "unit", conclusion: "failed" },
    ]);
    expect((await store.comments.list({ buildId: id })).map(({ by }) => by)).toEqual(["CI", "CI"]);
    later();
    const comment = { id: 71, body: "/wavesmith cancel", user: { login: "octo" } };
    happens("IssueCommentEvent", { action: "created", issue: { number: 1, title: "", body: "" }, comment });
    await poll();
    expect(await site.fixture.until(id, ({ status }) => status === "cancelled")).toMatchObject({
      reason: "cancelled by octo on GitHub",
    });
  });

  it("waits until the end of a rate limit", async () => {
    later();
    const reset = new Date(Math.ceil((Date.now() + hour) / 1_000) * 1_000);
    site.github.rateLimit(reset);
    expect(await poll()).toEqual(reset);
    site.github.rateLimit(null);
    expect(site.fixture.warnings.join("\n")).toContain("GitHub is not polled until");
  });

  it("is repeated by one process at a time, through failures and rate limits", async () => {
    repository().pollSeconds = 0;
    later();
    const settings = { everyMs: 20, triggers: { label: "wavesmith", assignee: null } };
    const ports = { ...site.fixture.app.ports, clock: { now } };
    const loops = [1, 2].map(() => createPolling(ports, settings, (warning) => site.fixture.warnings.push(warning)));
    const seen = looks().length;
    for (const loop of loops) loop.start();
    await expect.poll(() => looks().length, { timeout: 20_000 }).toBeGreaterThan(seen + 3);
    const [asking, most] = [{ now: 0 }, { atOnce: 0 }];
    const failure = site.github.fault({
      ...{ route: "/repos/{owner}/{repo}/events", when: "before", delayMs: 50 },
      answer: { status: 500, message: "Oops" },
      act() {
        most.atOnce = Math.max(most.atOnce, ++asking.now);
        setTimeout(() => asking.now--, 20);
      },
    });
    await expect.poll(() => failure.seen(), { timeout: 20_000 }).toBeGreaterThan(6);
    expect(most.atOnce).toBe(1);
    failure.clear();
    const limits = () => site.github.calls.filter(({ status }) => status === 403).length;
    const before = limits();
    site.github.rateLimit(new Date(Math.ceil(Date.now() / 1_000) * 1_000 + 1_000));
    await expect.poll(() => limits(), { timeout: 20_000 }).toBeGreaterThan(before);
    site.github.rateLimit(null);
    const after = looks().length;
    await expect.poll(() => looks().length, { timeout: 20_000 }).toBeGreaterThan(after);
    // Each loop has hit the limit at most once.
    expect(limits() - before).toBeLessThanOrEqual(2);
    await Promise.all(loops.map((loop) => loop.stop()));
  });
});
