import { createHmac, randomUUID } from "node:crypto";
import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { retryPullRequests } from "../../src/coordinator/forge/pull-request.ts";
import { takeCommand } from "../../src/coordinator/outside/forge-commands.ts";
import type { CommandVerb } from "../../src/domain/events/outside.ts";
import { buildIdForEvent } from "../../src/domain/events/request-ids.ts";
import { type RunningServer, startServer } from "../../src/server/server.ts";
import { type BuildFixture, createBuildFixture } from "../support/build-fixture.ts";
import {
  type FakeAnswer,
  type FakeProviders,
  type FakeRequest,
  startFakeProviders,
} from "../support/fake-providers.ts";
import { createGitHubServer, type GitHubServer } from "../support/github-server.ts";
import { usualToken } from "../support/github-state.ts";

// GitHub's webhooks steer a build that has a pull request.

const secret = "s3cret-of-github";
const repository = { full_name: "octo/app" };
const fixer = { runtime: "command", command: "cat > prompt.txt; echo blue > a.txt" };
const plan = {
  ...{ gates: { testing: false, integration: false }, agents: { fixer }, network: "none", approval: "wave" },
  tasks: [
    { id: "a", run: "echo red > a.txt" },
    { id: "b", run: "echo b > b.txt", dependsOn: ["a"] },
  ],
};

/** The planner drafts one task; its agent writes a file; the critic finds nothing. */
const modelAnswers: Record<string, FakeAnswer> = {
  "Make the plan for": {
    tools: [
      {
        name: "submit_result",
        input: {
          name: "door",
          description: "A blue door.",
          tasks: [
            {
              id: "paint",
              title: "Paint",
              agent: "backend",
              instructions: "Paint the door blue.",
              acceptance: [{ check: "grep blue door.txt" }],
            },
          ],
          gates: { testing: { command: "echo 1..1; echo ok 1 - blue" } },
        },
      },
    ],
  },
  "# Task: Paint": { tools: [{ name: "write_file", input: { path: "door.txt", content: "blue\n" } }] },
  "# Review of wave": { tools: [{ name: "submit_result", input: { findings: [] } }] },
};
const answerOf = ({ body }: FakeRequest): FakeAnswer => {
  const { messages } = body as { messages: { role: string }[] };
  const said = JSON.stringify(messages);
  const opening = Object.keys(modelAnswers).find((key) => said.includes(key));
  const isFirst = !messages.some(({ role }) => role === "assistant");
  return (isFirst && opening !== undefined && modelAnswers[opening]) || { text: "done" };
};

describe("a webhook of GitHub", () => {
  let github: GitHubServer;
  let fixture: BuildFixture;
  let server: RunningServer;
  let providers: FakeProviders;
  let buildId: string;
  beforeAll(async () => {
    github = await createGitHubServer();
    await github.repository("octo/app");
    providers = await startFakeProviders(answerOf);
    const env = {
      ...{ WAVESMITH_MODEL: "anthropic:claude-sonnet-4-5", ANTHROPIC_API_KEY: "key" },
      ANTHROPIC_BASE_URL: providers.url,
      WAVESMITH_GITHUB_TOKEN: usualToken,
      WAVESMITH_GITHUB_API: github.url,
      WAVESMITH_GITHUB_URL: github.url,
    };
    fixture = await createBuildFixture({ env, drivesAll: true });
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
    buildId = (await fixture.build({ ...plan, source: { git: `${github.url}/octo/app.git` } })).id;
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
    await providers.close();
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
    // Answered before its body arrives, because it has no signature.
    const unsigned = request(`${server.origin}/webhooks/github`, {
      method: "POST",
      headers: { "content-length": 10_000 },
    });
    unsigned.flushHeaders();
    const [answer] = (await once(unsigned, "response")) as [IncomingMessage];
    expect(answer.statusCode).toBe(401);
    unsigned.destroy();
    const lines = await fixture.app.store.auditEntries.list({ action: "POST /webhooks/github" });
    expect(lines).toMatchObject(new Array(2).fill({ actor: "unknown (github)", result: 401 }));
  });

  it("says why nothing happens, for unknown events and repositories", async () => {
    expect((await send("fork", {})).body.answer).toBe("nothing to do: nothing follows from the event fork");
    const unknown = { repository: { full_name: "octo/other" }, ...command("/wavesmith cancel", 1) };
    expect((await send("issue_comment", unknown)).body.answer).toContain("no project delivers to octo/other");
    expect((await send("push", { ref: 1 })).status).toBe(400);
    const suite = { id: 3, head_sha: "0".repeat(40), conclusion: null, updated_at: "2026-11-23T05:00:00Z" };
    const begun = await send("check_suite", { action: "requested", check_suite: suite });
    expect(begun.body.answer).toBe("nothing to do: its checks have not ended");
  });

  it("tells an outsider once that nothing happens, and starts nothing", async () => {
    for (const id of [21, 22]) await send("issue_comment", command("/wavesmith cancel", id, "mallory"));
    await until(() => replies().some((text) => text.includes("@mallory only people who may push")));
    await send("issue_comment", command("/wavesmith dance", 23));
    await until(() => replies().some((text) => text.includes("Comments may begin with")));
    expect(replies().filter((text) => text.includes("@mallory"))).toHaveLength(1);
    expect((await fixture.app.store.builds.get({ id: buildId })).status).toBe("waiting");
  });

  it("gives a red check to the fixer with the end of a log of 100 MB, once, sent twice at once and replayed", async () => {
    const { headSha } = await fixture.app.store.waves.get({ buildId, number: 1 });
    const filler = `${"all is well ".repeat(80)}\n`.repeat(100);
    github.state.find("octo/app")!.logs.set(9, function* () {
      // 100 MB
      for (let part = 0; part < 1_042; part += 1) yield filler;
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
    const { answer } = sent[0]!.body;
    const replayed = await send("check_run", { action: "completed", check_run: check }, { id });
    expect(replayed).toMatchObject({ status: 202, body: { answer, repeated: true } });
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

  /** Carries out a command as the webhook's function does, or repeats it after a crash. */
  const carryOut = async (verb: CommandVerb, id: number) => {
    const { tenantId, projectId } = await fixture.app.store.builds.get({ id: buildId });
    const place = { repository: "octo/app", number: 1, origin: `github:octo/app:comment:${id}`, by: "octo" };
    const data = { tenantId, projectId, project: "octo/app", buildId, ...place, verb, text: "" };
    return takeCommand(fixture.app.ports, data, "local");
  };
  const secondWaits = () =>
    until(async () => {
      const wave = await fixture.app.store.waves.find({ buildId, number: 2 });
      return wave?.status === "waiting" && (await buildNow()).status === "waiting";
    });
  const buildNow = () => fixture.app.store.builds.get({ id: buildId });

  it("approves on behalf of somebody who may push, and answers", async () => {
    await send("issue_comment", command("/wavesmith approve", 31));
    await secondWaits();
    await until(() => replies().some((text) => text.includes(`Approved. Build ${buildId} goes on.`)));
    expect(await fixture.app.store.approvals.list({ buildId })).toMatchObject([{ decision: "approved", by: "octo" }]);
  });

  it("carries out a command once, even if a crash repeats its step while the next wave waits", async () => {
    const before = await buildNow();
    expect(await carryOut("approve", 31)).toBe(`Approved. Build ${buildId} goes on.`);
    expect(await buildNow()).toEqual(before);
    await carryOut("reject", 32);
    await fixture.until(buildId, ({ status }) => status === "failed");
    await carryOut("retry", 33);
    await secondWaits();
    const retried = await buildNow();
    for (const [verb, id] of [["reject", 32] as const, ["retry", 33] as const]) await carryOut(verb, id);
    expect(await buildNow()).toEqual(retried);
    await carryOut("cancel", 34);
    await fixture.until(buildId, ({ status }) => status === "cancelled");
    await carryOut("retry", 35);
    await secondWaits();
    expect(await carryOut("cancel", 34)).toBe(`Build ${buildId} is being cancelled.`);
    await carryOut("approve", 36);
    expect(await fixture.until(buildId, ({ status }) => status === "completed")).toMatchObject({ reason: null });
    const decisions = (await fixture.app.store.approvals.list({ buildId })).map(({ decision }) => decision);
    expect(decisions.sort()).toEqual(["approved", "approved", "rejected"]);
  });

  it("delivers a build of an issue as a request that closes the issue, and links to it once", async () => {
    const repository = github.state.find("octo/app")!;
    const comments: { id: number; body: string; user: string }[] = [];
    repository.issues.set(50, { comments });
    const issue = { number: 50, title: "Paint the door", body: "It is red.", state: "open" };
    await send("issues", { action: "labeled", issue, label: { name: "wavesmith" }, sender: { login: "octo" } });
    const id = buildIdForEvent("forge-build:github:octo/app:issue:50");
    await until(() => comments.length === 1);
    await fixture.until(id, (build) => build.status === "waiting");
    expect(comments[0]!.body).toContain(`Build ${id} has started`);
    const approve = { issue, comment: { id: 51, body: "/wavesmith approve", user: { login: "octo", type: "User" } } };
    await send("issue_comment", { action: "created", ...approve });
    expect(await fixture.until(id, (build) => build.status === "completed")).toMatchObject({ reason: null });
    const pull = () => repository.pulls.find(({ head }) => head === `wavesmith/${id}/result`);
    await until(() => comments.length === 3);
    expect(pull()).toMatchObject({ title: "door", base: "main", state: "open" });
    expect(pull()!.body).toContain("\nCloses #50\n");
    const links = () => comments.filter(({ body }) => body.includes(`${github.url}/octo/app/pull/${pull()!.number}`));
    expect(links()).toHaveLength(1);
    // As after a crash between the request and its record.
    const row = await fixture.app.store.pullRequests.get({ buildId: id, key: "build" });
    await fixture.app.store.forgeCalls.remove({ pullRequestId: row.id });
    await retryPullRequests(fixture.app.ports, id);
    await fixture.app.flush();
    await until(
      async () => (await fixture.app.store.forgeCalls.find({ pullRequestId: row.id, step: "issue" })) !== null,
    );
    expect(links()).toHaveLength(1);
  });

  it("builds what a person asks for in a request on that request's branch, but not in our own requests", async () => {
    const repository = github.state.find("octo/app")!;
    await send("issue_comment", command("/wavesmith build more", 60));
    await until(() => replies().some((text) => text.includes("this request is a build's own")));
    const sha = await github.commit("octo/app", {
      branch: "topic",
      path: "t.txt",
      text: "t\n",
      from: "refs/heads/main",
    });
    const number = repository.pulls.length + 1;
    const pull = {
      ...repository.pulls[0]!,
      number,
      head: "topic",
      comments: [] as { id: number; body: string; user: string }[],
    };
    repository.pulls.push(pull);
    const comment = (id: number, body: string) =>
      send("issue_comment", {
        ...{ action: "created", issue: { number, title: "", body: "" } },
        comment: { id, body, user: { login: "octo", type: "User" } },
      });
    await comment(61, "/wavesmith build Paint the door");
    const id = buildIdForEvent("forge-build:github:octo/app:comment:61");
    await expect.poll(() => fixture.app.store.builds.find({ id }), { timeout: 30_000 }).not.toBeNull();
    const { projectId } = await fixture.app.store.builds.get({ id });
    expect((await fixture.app.store.projects.get({ id: projectId })).name).toBe("octo/app@topic");
    await fixture.until(id, (build) => build.status === "waiting");
    expect(await fixture.app.store.builds.get({ id })).toMatchObject({ baseSha: sha });
    await comment(62, "/wavesmith approve");
    expect(await fixture.until(id, (build) => build.status === "completed")).toMatchObject({ reason: null });
    const made = () => repository.pulls.find(({ head }) => head === `wavesmith/${id}/result`);
    await expect.poll(made, { timeout: 30_000 }).toMatchObject({ base: "topic" });
    expect(made()!.body).not.toContain("Closes");
    await expect.poll(() => pull.comments.at(-1)?.body, { timeout: 30_000 }).toContain("answers this request in");
    await fixture.app.ports.driver(fixture.app.config.sandboxDriver).remove(projectId, { volume: true });
  });

  it("follows a repository that was renamed, from the first webhook under its new name", async () => {
    const { id, pulls } = github.state.find("octo/app")!;
    const { buildId: delivered, number } = await fixture.app.store.pullRequests.get({ repoId: String(id), number: 2 });
    const issue = { number: 80, title: "Paint the door", body: "It is red.", state: "open" };
    github.state.find("octo/app")!.issues.set(80, { comments: [] });
    await send("issues", { action: "labeled", issue, label: { name: "wavesmith" }, sender: { login: "octo" } });
    const waiting = buildIdForEvent("forge-build:github:octo/app:issue:80");
    await expect.poll(() => fixture.app.store.builds.find({ id: waiting }), { timeout: 30_000 }).not.toBeNull();
    await fixture.until(waiting, ({ status }) => status === "waiting");
    github.state.rename("octo/app", "octo/door");
    const comment = {
      ...{ action: "created", issue: { number, title: "", body: "" } },
      comment: { id: 71, body: "/wavesmith help", user: { login: "octo", type: "User" } },
    };
    const ofAnother = await send("issue_comment", { ...comment, repository: { full_name: "octo/door", id: id + 1 } });
    expect(ofAnother.body.answer).toContain("no project delivers to octo/door");
    const { body } = await send("issue_comment", { ...comment, repository: { full_name: "octo/door", id } });
    expect(body.answer).toContain("is passed on to the project");
    const said = () => pulls.find((pull) => pull.number === number)!.comments.map((one) => one.body);
    await expect.poll(() => said().join(), { timeout: 30_000 }).toContain("Comments may begin with");
    expect(await fixture.app.store.pullRequests.list({ buildId: delivered })).toMatchObject([{ repo: "octo/door" }]);
    // The plan of this issue's build uses the former name.
    await send("issue_comment", {
      ...{ action: "created", issue, repository: { full_name: "octo/door", id } },
      comment: { id: 72, body: "/wavesmith cancel", user: { login: "octo", type: "User" } },
    });
    expect(await fixture.until(waiting, ({ status }) => status === "cancelled")).toMatchObject({ id: waiting });
  });
});
