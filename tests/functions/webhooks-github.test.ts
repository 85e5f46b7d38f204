import { createHmac, randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type RunningServer, startServer } from "../../src/server/server.ts";
import { type BuildFixture, createBuildFixture } from "../support/build-fixture.ts";
import { createGitHubServer, type GitHubServer } from "../support/github-server.ts";
import { usualToken } from "../support/github-state.ts";

// GitHub's webhooks steer a build whose pull request is there.

const secret = "s3cret-of-github";
const repository = { full_name: "octo/app" };
const fixer = { runtime: "command", command: "cat > prompt.txt; echo blue > a.txt" };
const plan = {
  ...{ gates: { testing: false, integration: false }, agents: { fixer }, network: "none", approval: "wave" },
  tasks: [{ id: "a", run: "echo red > a.txt" }],
};

describe("a webhook of GitHub", () => {
  let github: GitHubServer;
  let fixture: BuildFixture;
  let server: RunningServer;
  let buildId: string;
  beforeAll(async () => {
    github = await createGitHubServer();
    await github.repository("octo/app");
    const env = {
      WAVESMITH_GITHUB_TOKEN: usualToken,
      WAVESMITH_GITHUB_API: github.url,
      WAVESMITH_GITHUB_URL: github.url,
    };
    fixture = await createBuildFixture({ env });
    server = await startServer({
      ...{
        app: fixture.app,
        engine: { kind: "embedded", serveOrigin: null },
        key: "s3cret-of-serve",
        host: "127.0.0.1",
      },
      webhooks: { githubSecrets: [secret], ciSecrets: [], triggers: { label: "wavesmith", assignee: null } },
      ...{ port: 0, inform: () => undefined, warn: () => undefined },
    });
    buildId = (await fixture.build(plan)).id;
    const sha = (await fixture.app.store.waves.get({ buildId, number: 1 })).headSha!;
    const branch = `wavesmith/${buildId}/build`;
    await fixture.app.store.pullRequests.insert({
      ...{ id: "pr_test", projectId: fixture.projectId, buildId, key: "build", forge: "github", repo: "octo/app" },
      ...{ branch, waveNumber: 1, sha, number: 1, status: "open" },
    });
    const pull = { title: "", body: "", head: branch, base: "main", state: "open" as const, merged: false };
    const rest = { mergeSha: null, mergeable: true, queued: false, reviews: [], comments: [] };
    github.state.find("octo/app")!.pulls.push({ number: 1, ...pull, ...rest });
  });
  afterAll(async () => {
    await server.stop(1_000);
    await fixture.close();
    await github.close();
  });

  const sign = (body: string, by = secret) => `sha256=${createHmac("sha256", by).update(body).digest("hex")}`;
  const send = async (event: string, payload: object, { id = randomUUID() as string, by = secret } = {}) => {
    const body = JSON.stringify({ repository, ...payload });
    const headers = { "content-type": "application/json", "x-github-event": event, "x-github-delivery": id };
    const signed = { ...headers, "x-hub-signature-256": sign(body, by) };
    const response = await fetch(`${server.origin}/webhooks/github`, { method: "POST", body, headers: signed });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };
  const command = (text: string, id: number, login = "octo") => ({
    ...{ action: "created", issue: { number: 1, title: "", body: "" } },
    comment: { id, body: text, user: { login, type: "User" } },
  });
  const replies = () => github.state.find("octo/app")!.pulls[0]!.comments.map(({ body }) => body);
  const until = (holds: () => Promise<boolean> | boolean) => fixture.until(buildId, () => holds());

  it("is refused when it is forged, with a line in the audit log", async () => {
    expect(await send("push", {}, { by: "another" })).toMatchObject({ status: 401, body: { code: "unauthorized" } });
    const lines = await fixture.app.store.auditEntries.list({ action: "POST /webhooks/github" });
    expect(lines).toMatchObject([{ actor: "unknown (github)", result: 401 }]);
  });

  it("says in words why nothing follows, for unknown events and repositories", async () => {
    expect((await send("fork", {})).body.answer).toBe("nothing to do: nothing follows from the event fork");
    const unknown = { repository: { full_name: "octo/other" }, ...command("/wavesmith cancel", 1) };
    expect((await send("issue_comment", unknown)).body.answer).toBe("nothing to do: no project delivers to octo/other");
    expect((await send("push", { ref: 1 })).status).toBe(400);
  });

  it("tells an outsider once that nothing follows, and starts nothing", async () => {
    for (const id of [21, 22]) await send("issue_comment", command("/wavesmith cancel", id, "mallory"));
    await until(() => replies().some((text) => text.includes("@mallory only people who may push")));
    await send("issue_comment", command("/wavesmith dance", 23));
    await until(() => replies().some((text) => text.includes("Comments may begin with")));
    expect(replies().filter((text) => text.includes("@mallory"))).toHaveLength(1);
    expect((await fixture.app.store.builds.get({ id: buildId })).status).toBe("waiting");
  });

  it("gives a red check to the fixer with the end of a huge log, once, however often it arrives", async () => {
    const { headSha } = await fixture.app.store.waves.get({ buildId, number: 1 });
    const filler = `${"all is well ".repeat(80)}\n`.repeat(100);
    github.state.find("octo/app")!.logs.set(9, function* () {
      for (let part = 0; part < 50; part += 1) yield filler;
      yield "FAILED: the door is red\n";
    });
    const run = { id: 9, name: "unit", head_sha: headSha, conclusion: "failure", app: { slug: "github-actions" } };
    const check = {
      ...run,
      check_suite: { head_branch: `wavesmith/${buildId}/build` },
      completed_at: "2026-11-23T05:00:00Z",
    };
    const id = randomUUID();
    const sent = await Promise.all(
      [id, id, randomUUID()].map((one) => send("check_run", { action: "completed", check_run: check }, { id: one })),
    );
    expect(sent.map(({ status }) => status)).toEqual([202, 202, 202]);
    expect(sent.filter(({ body }) => body.repeated === true)).toHaveLength(1);
    await until(async () => {
      const [build, wave] = [
        await fixture.app.store.builds.get({ id: buildId }),
        await fixture.app.store.waves.get({ buildId, number: 1 }),
      ];
      return build.status === "waiting" && wave.headSha !== headSha;
    });
    const prompt = await fixture.git("show", `wavesmith/${buildId}/wave-1:prompt.txt`);
    expect(prompt).toContain("FAILED: the door is red");
    expect(prompt).toContain("from outside, by CI");
    expect(await fixture.app.store.attempts.list({ buildId, kind: "fix" })).toHaveLength(1);
    expect(await fixture.app.store.ciChecks.list({ buildId })).toMatchObject([{ name: "unit", conclusion: "failed" }]);
  });

  it("approves for somebody who may push, and answers", async () => {
    await send("issue_comment", command("/wavesmith approve", 31));
    expect(await fixture.until(buildId, (build) => build.status === "completed")).toMatchObject({
      status: "completed",
    });
    await until(() => replies().some((text) => text.includes(`Approved. Build ${buildId} goes on.`)));
    expect(await fixture.app.store.approvals.list({ buildId })).toMatchObject([{ decision: "approved", by: "octo" }]);
  });
});
