import { execFileSync } from "node:child_process";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { retryBuild } from "../../src/coordinator/build/retry-build.ts";
import { deliverPullRequest } from "../../src/coordinator/forge/deliver-pull-request.ts";
import { askDuePullRequests } from "../../src/coordinator/forge/pull-request.ts";
import { approveWave } from "../../src/coordinator/wave/decide-wave.ts";
import type { PullRequestRow } from "../../src/store/port.ts";
import { type BuildFixture, createBuildFixture } from "../support/build-fixture.ts";
import { createGitHubServer, type GitHubServer } from "../support/github-server.ts";
import { usualToken } from "../support/github-state.ts";

describe("a build that delivers to GitHub", { timeout: 180_000 }, () => {
  let server: GitHubServer;
  let fixture: BuildFixture;
  let count = 0;
  beforeAll(async () => {
    server = await createGitHubServer();
  });
  afterAll(() => server.close());
  afterEach(() => fixture.close());

  const open = async (crashPoint?: (name: string) => void, clock?: () => Date): Promise<void> => {
    const env = {
      ...{ WAVESMITH_GITHUB_API: server.url, WAVESMITH_GITHUB_URL: server.url, WAVESMITH_GITHUB_TOKEN: usualToken },
      ...{ GIT_CONFIG_GLOBAL: "/dev/null" },
    };
    fixture = await createBuildFixture({
      env,
      patienceMs: 120_000,
      ...(crashPoint === undefined ? {} : { crashPoint }),
      ...(clock === undefined ? {} : { clock }),
    });
  };
  const newName = (): string => {
    count += 1;
    return `octo/app-${count}`;
  };
  const planFor = (repo: string, deliver: Record<string, unknown> = {}) => ({
    tasks: [{ id: "one", run: "echo 1 > one.txt" }],
    gates: { testing: { command: "echo 1..3; for n in 1 2 3; do echo ok $n - works; done" } },
    deliver: { forge: "github", repo, ...deliver },
  });
  const rowsOf = (buildId: string) => fixture.app.store.pullRequests.list({ buildId }, { by: "waveNumber" });
  const settled = (buildId: string, status: string) =>
    expect
      .poll(async () => (await rowsOf(buildId)).map((row) => `${row.status} ${row.problem ?? ""}`), { timeout: 60_000 })
      .toEqual(expect.arrayContaining([expect.stringMatching(new RegExp(`^${status}`))]));
  /** Makes the next look due. */
  const later = async (): Promise<void> => {
    const clock = { now: () => new Date(Date.now() + 3 * 3_600_000) };
    await askDuePullRequests({ ...fixture.app.ports, clock }, "all");
    await fixture.app.flush();
  };

  it("creates the repository, opens one request with its gates and merges it when it is green", async () => {
    await open();
    const repo = newName();
    const plan = planFor(repo, { merge: "when-green" });
    const build = await fixture.build({
      ...plan,
      tasks: [...plan.tasks, { id: "two", run: "echo 2 > two.txt", dependsOn: ["one"] }],
    });
    expect(build).toMatchObject({ status: "completed", reason: null });
    await settled(build.id, "merged");
    const repository = server.state.find(repo)!;
    expect(repository.isPrivate).toBe(true);
    expect(repository.pulls).toHaveLength(1);
    const [pull] = repository.pulls;
    expect(pull).toMatchObject({ title: "fixture", merged: true, base: "main", head: `wavesmith/${build.id}/result` });
    expect(pull!.body).toContain("**two**");
    expect(pull!.body).toMatch(/\| 2 \| testing \| passed \| .*3 of 3 tests passed/);
    expect(await server.git(repo, "show", "main:two.txt")).toBe("2");
    const testing = repository.statuses.filter(({ context }) => context === "wavesmith/testing");
    expect(new Set(testing.map(({ sha }) => sha)).size).toBe(testing.length);
    expect(testing.at(-1)).toMatchObject({ sha: build.headSha, state: "success" });
    const [row] = await rowsOf(build.id);
    expect(row!.commits.at(-1)).toMatchObject({ sha: build.headSha });
    expect(row!.commits.map(({ title }) => title)).toEqual(expect.arrayContaining(["one", "two"]));
    expect(row).toMatchObject({ number: 1, mergeState: "merged", mergeSha: pull!.mergeSha, problem: null });
    // The credential is in no file.
    const found = execFileSync("sh", ["-c", `grep -rl ${usualToken} "$0" || true`, fixture.app.config.dataDir]);
    expect(found.toString()).toBe("");
  });

  it("continues from the base of an existing repository", async () => {
    await open();
    const repo = newName();
    await server.repository(repo, { "seed.txt": "seed\n" });
    const build = await fixture.build({
      ...planFor(repo),
      tasks: [{ id: "one", run: "cat seed.txt > one.txt" }],
    });
    await settled(build.id, "open");
    expect(await server.git(repo, "show", `wavesmith/${build.id}/result:one.txt`)).toBe("seed");
    expect(server.state.find(repo)!.pulls).toMatchObject([{ state: "open", merged: false }]);
    // The next wave's delivery was requested meanwhile. This one must not mistake that one's push
    // for its own.
    const [{ id, epoch }] = (await rowsOf(build.id)) as [PullRequestRow];
    await fixture.app.store.pullRequests.update({ id }, { status: "waiting", sha: "f".repeat(40), epoch: epoch + 1 });
    expect(await deliverPullRequest(fixture.app.ports, { buildId: build.id, key: "build", epoch }, "merge")).toBe(
      false,
    );
    expect(await rowsOf(build.id)).toMatchObject([{ status: "waiting", problem: null }]);
  });

  const calls = ["ensureRepository", "pushBranch", "ensureRequest", "ensureCheck", "mergeRequest"];
  it("creates nothing twice when each of its calls fails or loses its answer", { timeout: 90_000 }, async () => {
    const left = new Set(calls.flatMap((call) => [`forge.${call}.before`, `forge.${call}.after`]));
    await open((name) => {
      if (left.delete(name)) throw new Error(`crashed at ${name}`);
    });
    const repo = newName();
    const build = await fixture.build(planFor(repo, { merge: "when-green" }));
    const statuses = async (): Promise<string[]> => {
      await later();
      return (await rowsOf(build.id)).map(({ status }) => status);
    };
    await expect.poll(statuses, { timeout: 80_000, interval: 500 }).toEqual(["merged"]);
    expect([...left]).toEqual([]);
    const made = server.state.repositories.filter(({ fullName }) => fullName === repo);
    expect(made).toHaveLength(1);
    expect(made[0]!.pulls).toHaveLength(1);
    expect(made[0]!.statuses.map(({ context }) => context).sort()).toEqual(["wavesmith/critic", "wavesmith/testing"]);
    const branches = (await server.git(repo, "for-each-ref", "--format=%(refname:short)", "refs/heads")).split("\n");
    expect(branches.sort()).toEqual(["main", `wavesmith/${build.id}/result`]);
  });

  it("says that the token was revoked, and delivers once there is a valid one again", async () => {
    await open();
    const repo = newName();
    await server.repository(repo);
    const buildId = await fixture.request({ ...planFor(repo), approval: "wave" });
    await fixture.until(buildId, ({ status }) => status === "waiting");
    const user = server.state.users.get(usualToken)!;
    server.state.revoke(usualToken);
    await approveWave(fixture.app.ports, buildId, { by: "Ada" });
    await fixture.until(buildId, ({ status }) => status === "completed");
    await settled(buildId, "blocked GitHub answered 401");
    const [row] = await rowsOf(buildId);
    expect(row!.remedy).toBe(`sign in again: wavesmith github setup; then: wavesmith retry ${buildId}`);
    server.state.users.set(usualToken, user);
    await retryBuild(fixture.app.ports, buildId);
    await settled(buildId, "open");
    expect(server.state.find(repo)!.pulls).toHaveLength(1);
  });

  it("says what is wrong with the repository or account, and continues once a person has fixed it", {
    timeout: 120_000,
  }, async () => {
    await open();
    const repo = newName();
    const repository = await server.repository(repo);
    repository.requiredChecks.push("ci/build");
    const buildId = await fixture.request({
      ...planFor(repo, { merge: "when-green" }),
      tasks: [
        { id: "one", run: "echo 1 > one.txt" },
        { id: "two", run: "echo 2 > two.txt", dependsOn: ["one"] },
      ],
      approval: "wave",
    });
    const branch = `wavesmith/${buildId}/result`;
    const waits = () => fixture.until(buildId, ({ status }) => status === "waiting");
    const says = async (status: string, problem: RegExp, remedy: RegExp): Promise<void> => {
      await settled(buildId, status);
      const [row] = await rowsOf(buildId);
      expect(row!.problem).toMatch(problem);
      expect(row!.remedy).toMatch(remedy);
    };
    const mended = async (): Promise<void> => {
      await retryBuild(fixture.app.ports, buildId);
      await settled(buildId, "open $");
    };
    await waits();
    repository.protectedBranches.add(branch);
    await approveWave(fixture.app.ports, buildId, { by: "Ada" });
    await says(
      "blocked",
      /git could not push .*GH006: Protected branch/,
      /^exempt the branches wavesmith\/\*.*; then:/,
    );
    repository.protectedBranches.clear();
    await mended();

    // The second wave is delivered under the new name.
    await waits();
    server.state.rename(repo, `${repo}-renamed`);
    await approveWave(fixture.app.ports, buildId, { by: "Ada" });
    const { headSha } = await fixture.until(buildId, ({ status }) => status === "completed");
    await expect
      .poll(async () => (await rowsOf(buildId)).map(({ status, repo: name, pushedSha }) => [status, name, pushedSha]), {
        timeout: 60_000,
      })
      .toEqual([["open", `${repo}-renamed`, headSha]]);

    for (const force of [false, true]) {
      const theirs = await server.commit(repo, { branch, path: "theirs.txt", text: `theirs ${force}`, force });
      await later();
      await says("blocked", new RegExp(`${branch} .* is at ${theirs.slice(0, 12)}, which we did not put there`), /set/);
      expect(await server.git(repo, "rev-parse", branch)).toBe(theirs);
      await server.git(repo, "update-ref", `refs/heads/${branch}`, headSha!);
      await mended();
    }

    const [pull] = repository.pulls;
    pull!.state = "closed";
    await later();
    await says("closed", /a person closed/, /^open it again there; then: wavesmith retry/);
    pull!.state = "open";
    await mended();

    repository.statuses.push({ sha: headSha!, context: "ci/build", state: "success", description: "" });
    await later();
    await settled(buildId, "merged");
    expect(repository.pulls).toHaveLength(1);
    expect(await server.git(repo, "show", "main:two.txt")).toBe("2");
  });

  it("does not overwrite a push between its look at the branch and its own push", async () => {
    await open();
    const repo = newName();
    await server.repository(repo);
    let theirs = "";
    const race = server.fault({
      ...{ route: "info/refs git-receive-pack", nth: 1, when: "before" },
      async act() {
        const { branch } = await fixture.app.store.pullRequests.get({ repo });
        theirs = await server.commit(repo, { branch, path: "theirs.txt", text: "theirs\n" });
        return "goes on" as const;
      },
    });
    const build = await fixture.build(planFor(repo));
    await settled(build.id, "blocked git could not push .*stale info");
    race.clear();
    const [row] = await rowsOf(build.id);
    expect(await server.git(repo, "rev-parse", row!.branch)).toBe(theirs);
  });

  it("gives CI time for its first check before it merges a green request", async () => {
    let laterMs = 0;
    await open(undefined, () => new Date(Date.now() + laterMs));
    const repo = newName();
    const repository = await server.repository(repo);
    const base = await server.git(repo, "rev-parse", "main");
    repository.statuses.push({ sha: base, context: "ci/build", state: "success", description: "" });
    const build = await fixture.build(planFor(repo, { merge: "when-green" }));
    await settled(build.id, "open $");
    expect(await rowsOf(build.id)).toMatchObject([{ mergeState: "checks" }]);
    // Its first check arrives late, and is not over yet.
    repository.statuses.push({ sha: build.headSha!, context: "ci/build", state: "pending", description: "" });
    laterMs = 3_600_000;
    await later();
    await settled(build.id, "open $");
    expect(await rowsOf(build.id)).toMatchObject([{ mergeState: "checks" }]);
    // A head that CI ignores for this long is merged.
    repository.statuses.splice(0, repository.statuses.length, ...repository.statuses.filter(({ sha }) => sha === base));
    await later();
    await settled(build.id, "merged");
  });

  it("does not merge while a CI system reports red to us alone", async () => {
    await open();
    const repo = newName();
    await server.repository(repo);
    const buildId = await fixture.request({ ...planFor(repo, { merge: "when-green" }), approval: "wave" });
    await fixture.until(buildId, ({ status }) => status === "waiting");
    const { headSha } = await fixture.app.store.waves.get({ buildId, number: 1 });
    const red = { buildId, sha: headSha!, name: "ci/other", conclusion: "failed", answer: "", completedAt: new Date() };
    await fixture.app.store.ciChecks.insert({ ...red, conclusion: "failed" });
    await approveWave(fixture.app.ports, buildId, { by: "Ada" });
    await settled(buildId, "open $");
    expect(await rowsOf(buildId)).toMatchObject([
      { mergeState: "checks", checks: expect.arrayContaining([{ name: "ci/other", state: "failed", url: null }]) },
    ]);
    await fixture.app.store.ciChecks.update({ buildId, name: "ci/other" }, { conclusion: "passed" });
    await later();
    await settled(buildId, "merged");
  });

  it("opens a request for each wave, each on the one before", async () => {
    await open();
    const repo = newName();
    const plan = planFor(repo, { pullRequests: "wave" });
    const build = await fixture.build({
      ...plan,
      tasks: [...plan.tasks, { id: "two", run: "echo 2 > two.txt", dependsOn: ["one"] }],
    });
    const statuses = async () => (await rowsOf(build.id)).map(({ status }) => status);
    await expect.poll(statuses, { timeout: 60_000 }).toEqual(["open", "open"]);
    expect(server.state.find(repo)!.pulls).toMatchObject([
      { head: `wavesmith/${build.id}/wave-1`, base: "main" },
      { head: `wavesmith/${build.id}/wave-2`, base: `wavesmith/${build.id}/wave-1` },
    ]);
  });

  it("waits for other checks and for approval, and puts the request into the base's queue", async () => {
    await open();
    const repo = newName();
    const repository = await server.repository(repo);
    repository.requiredChecks.push("ci/build");
    repository.hasMergeQueue = true;
    const build = await fixture.build(planFor(repo, { merge: "when-approved" }));
    const waitsFor = (state: string) =>
      expect
        .poll(async () => (await rowsOf(build.id)).map(({ mergeState }) => mergeState), { timeout: 60_000 })
        .toEqual([state]);
    await waitsFor("checks");
    await settled(build.id, "open");
    repository.statuses.push({ sha: build.headSha!, context: "ci/build", state: "success", description: "" });
    await later();
    await waitsFor("approval");
    const pull = repository.pulls[0]!;
    // A member of the organisation who may only read.
    pull.reviews.push({ user: "stranger", state: "APPROVED", association: "MEMBER" });
    repository.writers.add("ada").add("bob");
    // Approves a commit that is older than the one to be merged.
    pull.reviews.push({ user: "bob", state: "APPROVED", association: "MEMBER", sha: "0".repeat(40) });
    await later();
    await settled(build.id, "open");
    await waitsFor("approval");
    pull.reviews.push({ user: "ada", state: "APPROVED", association: "NONE" });
    await later();
    await waitsFor("queued");
    expect(pull).toMatchObject({ queued: true, merged: false });
    repository.mergesQueued = true;
    await later();
    await settled(build.id, "merged");
    expect(await rowsOf(build.id)).toMatchObject([{ mergeState: "merged", mergeSha: pull.mergeSha }]);
    expect(await server.git(repo, "show", "main:one.txt")).toBe("1");
  });

  it("merges a request itself once its head is approved, where there is no queue", async () => {
    await open();
    const repo = newName();
    const { pulls, writers } = await server.repository(repo);
    writers.add("ada");
    const build = await fixture.build(planFor(repo, { merge: "when-approved" }));
    await settled(build.id, "open");
    await later();
    await settled(build.id, "open");
    expect(await rowsOf(build.id)).toMatchObject([{ mergeState: "approval", mergeSha: null }]);
    pulls[0]!.reviews.push({ user: "ada", state: "CHANGES_REQUESTED", association: "MEMBER" });
    await later();
    await settled(build.id, "open");
    expect(pulls[0]!.merged).toBe(false);
    pulls[0]!.reviews.push({ user: "ada", state: "APPROVED", association: "MEMBER" });
    await later();
    await settled(build.id, "merged");
    expect(await server.git(repo, "log", "-1", "--format=%s", "main")).toBe("Merge pull request #1");
  });

  it("merges the requests of waves in order, each into the base once it is its turn", async () => {
    await open();
    const repo = newName();
    const plan = planFor(repo, { pullRequests: "wave", merge: "when-green" });
    const build = await fixture.build({
      ...plan,
      tasks: [...plan.tasks, { id: "two", run: "echo 2 > two.txt", dependsOn: ["one"] }],
    });
    const statuses = async () => {
      await later();
      return (await rowsOf(build.id)).map(({ status }) => status);
    };
    await expect.poll(statuses, { timeout: 60_000, interval: 500 }).toEqual(["merged", "merged"]);
    const { pulls } = server.state.find(repo)!;
    expect(pulls).toMatchObject([
      { head: `wavesmith/${build.id}/wave-1`, base: "main", merged: true },
      { head: `wavesmith/${build.id}/wave-2`, base: "main", merged: true },
    ]);
    expect((await server.git(repo, "log", "--first-parent", "--format=%s", "main")).split("\n").slice(0, 2)).toEqual([
      "Merge pull request #2",
      "Merge pull request #1",
    ]);
    const [first, second] = await rowsOf(build.id);
    expect(first!.commits.map(({ title }) => title)).toContain("one");
    expect(second!.commits.map(({ title }) => title)).not.toContain("one");
  });
});
