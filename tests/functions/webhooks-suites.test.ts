import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { buildIdForEvent } from "../../src/domain/events/request-ids.ts";
import { createWebhookSite, type WebhookSite } from "../support/webhook-site.ts";

// A repository whose webhook sends only `check_suite`, or only `workflow_run`, loses no verdict;
// one that sends `check_run` as well has each verdict once.

const gates = { testing: false, critic: false, integration: false };
const standing = JSON.stringify({
  on: { push: { branches: ["main"] } },
  plan: { name: "upkeep", gates, network: "none", approval: "wave", tasks: [{ id: "a", run: "echo a > a.txt" }] },
});

describe("a suite of checks that ended", () => {
  let site: WebhookSite;
  let buildId: string;
  let sha: string;
  beforeAll(async () => {
    site = await createWebhookSite({ WAVESMITH_GITHUB_REPOSITORIES: "octo/app" });
    await site.github.repository("octo/app", { "wavesmith.yaml": standing });
    const after = await site.github.git("octo/app", "rev-parse", "main");
    await site.send("push", { ref: "refs/heads/main", after, sender: { login: "octo", type: "User" } });
    const { store } = site.fixture.app;
    buildId = buildIdForEvent(`forge-push:github:${site.github.state.find("octo/app")!.id}:main:${after}`);
    await vi.waitFor(() => store.builds.get({ id: buildId }), { timeout: 40_000, interval: 200 });
    await site.fixture.until(buildId, ({ status }) => status === "waiting");
    sha = (await store.waves.get({ buildId, number: 1 })).headSha!;
  });
  afterAll(() => site.close());

  const runs = (...added: { id: number; name: string; conclusion: string; suiteId: number }[]) =>
    site.github.state
      .find("octo/app")!
      .checkRuns.push(...added.map((run) => ({ ...run, sha, externalId: "", status: "completed", output: null })));
  const branch = () => `wavesmith/${buildId}/result`;
  const ended = (id: number, conclusion: string, at = "2026-11-23T05:00:01Z") =>
    ({ id, head_branch: branch(), head_sha: sha, conclusion, updated_at: at }) as const;
  const suite = (...given: Parameters<typeof ended>) =>
    site.send("check_suite", { action: "completed", check_suite: { ...ended(...given), app: { name: "Actions" } } });
  const workflow = (...given: Parameters<typeof ended>) => {
    const run = { ...ended(...given), id: 900 + given[0], name: "CI", check_suite_id: given[0] };
    return site.send("workflow_run", { action: "completed", workflow_run: run });
  };
  const verdicts = async () => {
    await site.answers("suite-take");
    await site.answers("check-settle");
    const checks = await site.fixture.app.store.ciChecks.list({ buildId }, { by: "name" });
    return checks.map(({ name, conclusion }) => `${name} ${conclusion}`);
  };
  const findings = async () =>
    (await site.fixture.app.store.comments.list({ buildId }, { by: "id" })).map(
      ({ text, state }) => `${text} ${state}`,
    );
  const eventually = (what: () => Promise<string[]>, expected: string[]) =>
    expect.poll(what, { timeout: 30_000 }).toEqual(expected);

  it("gives the verdict of each of its checks once, even if they and its workflow report it as well", async () => {
    runs(
      { id: 51, name: "unit", conclusion: "failure", suiteId: 5 },
      { id: 52, name: "lint", conclusion: "success", suiteId: 5 },
      { id: 53, name: "wavesmith/testing", conclusion: "failure", suiteId: 5 },
    );
    expect((await suite(5, "failure")).body.answer).toBe(`the suite Actions (failed) is passed on to build ${buildId}`);
    await eventually(verdicts, ["lint passed", "unit failed"]);
    expect((await workflow(5, "failure", "2026-11-23T05:00:02Z")).body.answer).toContain("the suite CI (failed)");
    const run = { id: 51, name: "unit", head_sha: sha, conclusion: "failure", completed_at: "2026-11-23T05:00:00Z" };
    await site.send("check_run", { action: "completed", check_run: run });
    await eventually(verdicts, ["lint passed", "unit failed"]);
    expect(await findings()).toEqual(["The check unit failed. open"]);
  });

  it("withdraws a verdict when a later one is green", async () => {
    runs({ id: 61, name: "unit", conclusion: "success", suiteId: 6 });
    await workflow(6, "success");
    await eventually(verdicts, ["lint passed", "unit passed"]);
    expect(await findings()).toEqual(["The check unit failed. superseded"]);
  });

  it("counts as one verdict itself if it ended before its first check", async () => {
    await Promise.all([workflow(7, "startup_failure"), suite(7, "startup_failure", "2026-11-23T05:00:03Z")]);
    await expect.poll(async () => (await verdicts()).length, { timeout: 30_000 }).toBe(3);
    expect((await findings()).slice(1)).toEqual([expect.stringMatching(/^The check (Actions|CI) failed\..* open$/)]);
    const [, own] = await site.fixture.app.store.comments.list({ buildId }, { by: "id" });
    expect(own!.log).toContain("failed before its first job");
  });

  it("is ignored if it is not about a build", async () => {
    const other = { ...ended(8, "failure"), head_branch: "main", head_sha: "0".repeat(40) };
    const { body } = await site.send("check_suite", { action: "completed", check_suite: other });
    expect(body.answer).toContain("no build of octo/app has this branch or commit");
  });
});
