import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { requestCancel } from "../../src/coordinator/build/stop/cancel-build.ts";
import { buildIdForEvent } from "../../src/domain/events/request-ids.ts";
import type { Pull } from "../support/github-state.ts";
import { createWebhookSite, type WebhookSite } from "../support/webhook-site.ts";

// The builds that `on.push` and `on.label` of a repository's `wavesmith.yaml` start, through
// GitHub's webhooks.

const gates = { testing: false, critic: false, integration: false };
const yaml = (run: string, more: object = {}) =>
  JSON.stringify({
    on: { push: { branches: ["main", "release/*"] }, label: "build-me" },
    plan: { name: "upkeep", gates, network: "none", tasks: [{ id: "a", run }], ...more },
  });

describe("wavesmith.yaml in a repository", () => {
  let site: WebhookSite;
  beforeAll(async () => {
    site = await createWebhookSite({ WAVESMITH_GITHUB_REPOSITORIES: "octo/app" });
    const files = { "README.md": "# Hello\n", "wavesmith.yaml": yaml("cat README.md > made.txt") };
    await site.github.repository("octo/app", files);
    await site.github.repository("octo/other", files);
  });
  afterAll(() => site.close());

  const repository = () => site.github.state.find("octo/app")!;
  const builds = () => site.fixture.app.store.builds.list({}, { by: "position" });
  const head = (branch = "main", name = "octo/app") => site.github.git(name, "rev-parse", `refs/heads/${branch}`);
  const push = (sha: string, branch = "main", login = "octo") =>
    site.send("push", { ref: `refs/heads/${branch}`, after: sha, sender: { login, type: "User" } });
  const idOf = (sha: string, branch = "main") =>
    buildIdForEvent(`forge-push:github:${repository().id}:${branch}:${sha}`);
  const commit = (path: string, text: string, branch = "main", from?: string) =>
    site.github.commit("octo/app", { branch, path, text, ...(from === undefined ? {} : { from }) });
  const lastAnswer = async (of: string) => (await site.answers(of)).at(-1);
  const pull = (change: Partial<Pull>): Pull => {
    const made: Pull = {
      ...{ number: repository().pulls.length + 1, title: "", body: "", head: "", base: "main", state: "open" as const },
      ...{ merged: false, mergeSha: null, mergeable: true, queued: false, reviews: [], comments: [] },
      ...change,
    };
    repository().pulls.push(made);
    return made;
  };
  const label = (number: number, name: string, login: string, id: string = randomUUID()) =>
    site.send(
      "issues",
      {
        ...{ action: "labeled", issue: { number, title: "", body: "", updated_at: id }, label: { name } },
        sender: { login, type: "User" },
      },
      { id },
    );

  it("builds a commit that a person pushed once, however often it is reported", async () => {
    const sha = await head();
    const sent = await Promise.all([push(sha), push(sha)]);
    expect(sent.map(({ status }) => status)).toEqual([202, 202]);
    const build = await site.ended(idOf(sha));
    expect(build).toMatchObject({ status: "completed", baseSha: sha });
    expect(build.requestedBy).toBe(`the push of ${sha.slice(0, 12)} to main by octo`);
    expect(build.plan.deliver).toMatchObject({ forge: "github", repo: "octo/app", base: "main" });
    await expect.poll(() => repository().pulls.length, { timeout: 30_000 }).toBe(1);
    expect(await site.github.git("octo/app", "show", `${repository().pulls[0]!.head}:made.txt`)).toBe("# Hello");
    expect(await builds()).toHaveLength(1);
  });

  it("is ignored in a repository that no project delivers to and no setting names", async () => {
    const other = { repository: { full_name: "octo/other" }, ref: "refs/heads/main" };
    const { body } = await site.send("push", { ...other, after: await head("main", "octo/other") });
    expect(body.answer).toContain("WAVESMITH_GITHUB_REPOSITORIES does not name it");
  });

  it("starts nothing for our own work: our branches, our request's merge, our commits in a person's merge", async () => {
    const [own] = repository().pulls;
    await push(await head(own!.head), own!.head);
    const ours = "nothing to do: we put that commit there, or the branch is gone";
    expect(await lastAnswer("forge-push")).toBe(ours);
    // A person squashes it on GitHub.
    const squashed = await commit("made.txt", "# Hello\n");
    Object.assign(own!, { merged: true, state: "closed", mergeSha: squashed });
    await push(squashed, "main", "ada");
    expect(await lastAnswer("forge-push")).toBe(ours);
    // A person merges it on her machine, and pushes the result.
    Object.assign(own!, { mergeSha: null });
    const tree = `${squashed}^{tree}`;
    const merge = ["-c", "user.name=ada", "-c", "user.email=a@example.org", "commit-tree", tree, "-m", "Merge"];
    const merged = await site.github.git("octo/app", ...merge, "-p", squashed, "-p", await head(own!.head));
    await site.github.git("octo/app", "update-ref", "refs/heads/main", merged);
    await push(merged, "main", "ada");
    expect(await lastAnswer("forge-push")).toBe(ours);
    expect(await builds()).toHaveLength(1);
  });

  it("reports its faults at the commit, with their lines", async () => {
    const sha = await commit("wavesmith.yaml", "on:\n  push: { branches: [main] }\n  pusch: 1\nbrief: Update\n");
    await push(sha);
    expect(await lastAnswer("forge-push")).toContain("line 3: on.pusch");
    expect(repository().statuses).toContainEqual({
      ...{ sha, context: "wavesmith/wavesmith.yaml", state: "failure" },
      description: expect.stringContaining("line 3: on.pusch"),
    });
    const huge = await commit("wavesmith.yaml", `brief: |\n${"  more\n".repeat(60_000)}`);
    await push(huge);
    expect(await lastAnswer("forge-push")).toContain("wavesmith.yaml is larger than 256 KB");
    expect(repository().statuses.filter((status) => status.sha === huge)).toHaveLength(1);
    expect(await builds()).toHaveLength(1);
  });

  it("lets a running build go on, and builds only the newest waiting commit", async () => {
    const running = await commit("wavesmith.yaml", yaml("sleep 300; echo 1 > one.txt"));
    await push(running);
    await expect
      .poll(() => site.fixture.app.store.builds.find({ id: idOf(running) }), { timeout: 30_000 })
      .toBeTruthy();
    await site.fixture.until(idOf(running), ({ status }) => status === "running");
    const waiting = await commit("wavesmith.yaml", yaml("echo 2 > two.txt"));
    await push(waiting);
    expect(await lastAnswer("forge-push")).toContain(idOf(waiting));
    const newest = await commit("wavesmith.yaml", yaml("echo 3 > three.txt"));
    // They arrive in the wrong order.
    await push(newest);
    await site.answers("forge-push");
    await push(waiting, "main", "late");
    await site.answers("forge-push");
    const status = async (sha: string) => (await site.fixture.app.store.builds.get({ id: idOf(sha) })).status;
    expect(await Promise.all([running, waiting, newest].map(status))).toEqual(["running", "cancelled", "queued"]);
    const { reason } = await site.fixture.app.store.builds.get({ id: idOf(waiting) });
    expect(reason).toBe(`${newest.slice(0, 12)} was pushed to main before it started`);
    await requestCancel(site.fixture.app.ports, idOf(running), "the test goes on");
    expect(await site.ended(idOf(newest))).toMatchObject({ status: "completed" });
  });

  it("builds another branch in its own project, so that no branch's work gets into another", async () => {
    const sha = await commit("notes.txt", "one\n", "release/1.x", "refs/heads/main");
    await push(sha, "release/1.x");
    const build = await site.ended(idOf(sha, "release/1.x"));
    expect(build).toMatchObject({ status: "completed", baseSha: sha });
    expect((await site.fixture.app.store.projects.get({ id: build.projectId })).name).toBe("octo/app@release/1.x");
    await push(await commit("notes.txt", "one\n", "topic", "refs/heads/main"), "topic");
    expect(await lastAnswer("forge-push")).toBe("nothing to do: on.push does not name topic");
  });

  it("builds for its label, for people who may push, and answers below the issue", async () => {
    const comments: { id: number; body: string; user: string }[] = [];
    repository().issues.set(70, { comments });
    await label(70, "question", "octo");
    expect(await lastAnswer("forge-label")).toBe("nothing to do: on.label of wavesmith.yaml is not question");
    for (const _ of [1, 2]) await label(70, "build-me", "mallory");
    expect(await lastAnswer("forge-label")).toBe("mallory may not push to octo/app");
    expect(comments.map(({ body }) => body)).toEqual([expect.stringContaining("@mallory only people who may push")]);
    const before = (await builds()).length;
    const delivery = randomUUID();
    await Promise.all([label(70, "Build-Me", "octo", delivery), label(70, "Build-Me", "octo", delivery)]);
    await site.answers("forge-label");
    await label(70, "build-me", "octo");
    await site.answers("forge-label");
    expect(await builds()).toHaveLength(before + 1);
    const { id } = (await builds()).at(-1)!;
    expect(await site.ended(id)).toMatchObject({ status: "completed", requestedBy: "octo's label Build-Me on #70" });
    expect(comments.filter(({ body }) => body.includes(`Build ${id} has started`))).toHaveLength(1);
  });

  it("builds a labelled request on its own branch, and refuses one from a fork with a reason", async () => {
    const sha = await commit("topic.txt", "topic\n", "topic", "refs/heads/topic");
    const { number, comments } = pull({ head: "topic" });
    const on = (n: number) => ({ number: n, state: "open", updated_at: randomUUID() });
    const sender = { login: "octo", type: "User" };
    const labelled = (n: number) =>
      site.send("pull_request", { action: "labeled", pull_request: on(n), label: { name: "build-me" }, sender });
    await labelled(number);
    expect(await lastAnswer("forge-label")).toContain("Its work comes as a request into topic.");
    const build = (await builds()).at(-1)!;
    expect(await site.ended(build.id)).toMatchObject({ status: "completed", baseSha: sha });
    const offered = () => repository().pulls.find(({ head: from }) => from === `wavesmith/${build.id}/result`);
    await expect.poll(offered, { timeout: 30_000 }).toMatchObject({ base: "topic" });
    expect(offered()!.body).not.toContain("Closes");
    await expect.poll(() => comments.at(-1)?.body, { timeout: 30_000 }).toContain("answers this request in");
    const fork = pull({ head: "patch", fork: "mallory/app" });
    await labelled(fork.number);
    expect(await lastAnswer("forge-label")).toContain("in another repository, to which we do not push");
    expect(fork.comments).toMatchObject([{ body: expect.stringContaining("Push it to a branch of octo/app") }]);
  });
});
