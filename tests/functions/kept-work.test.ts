import { execFileSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { retryBuild } from "../../src/coordinator/build/retry-build.ts";
import { requestCancel } from "../../src/coordinator/build/stop/cancel-build.ts";
import { type BuildFixture, createBuildFixture } from "../support/build-fixture.ts";

// W8: nothing that stands is harmed, whatever gives up on the way.

describe("the work of a build", () => {
  let fixture: BuildFixture;
  let atPoint: (name: string) => void | Promise<void> = () => undefined;
  beforeEach(async () => {
    atPoint = () => undefined;
    fixture = await createBuildFixture({ crashPoint: (name) => atPoint(name) });
  });
  afterEach(async () => {
    await fixture.close();
  });

  const guestOf = async () => (await fixture.app.ports.driver(sandbox()).find(fixture.projectId as never))!.guest;
  const sandbox = () => fixture.app.config.sandboxDriver;
  const repository = () => fixture.app.ports.workspace.repositoryPath(fixture.projectId as never);
  const git = (args: string[], input = ""): string =>
    execFileSync("git", ["-C", repository(), "-c", "user.name=Ada", "-c", "user.email=ada@example.com", ...args], {
      input,
    })
      .toString()
      .trim();
  /** A commit by hand on top of others, with one more file. */
  const commitByHand = (file: string, ...parents: string[]): string => {
    const blob = git(["hash-object", "-w", "--stdin"], "by hand\n");
    const [first] = parents;
    const merged = parents.length === 1 ? `${first}^{tree}` : git(["merge-tree", "--write-tree", ...parents]);
    const tree = git(["mktree"], `${git(["ls-tree", merged])}\n100644 blob ${blob}\t${file}\n`.trimStart());
    return git(["commit-tree", tree, ...parents.flatMap((parent) => ["-p", parent]), "-m", "By hand"]);
  };

  it("stays on the volume, then on its branch, when it could not be brought out at first", async () => {
    let failures = 5;
    atPoint = (name) => {
      if (name !== "workspace.keepTree.before" || failures === 0) return;
      failures -= 1;
      throw new Error("no room");
    };
    const build = await fixture.build({ tasks: [{ id: "a", run: "echo a > a" }] });
    expect([build.status, build.reason]).toEqual(["completed", null]);
    const attempts = await fixture.app.store.attempts.list({ buildId: build.id }, { by: "number" });
    expect(attempts.map((attempt) => attempt.outcome)).toEqual(["lost", "succeeded"]);
    await fixture.until(build.id, async () => {
      const trees = (await (await guestOf()).list(`trees/${build.id}`).catch(() => [])).map((entry) => entry.path);
      return !trees.some((path) => path.endsWith("a.1"));
    });
    expect(git(["show", `wavesmith/${build.id}/task/a/1:a`])).toBe("a");
  });

  it("is kept, and repeated, when the machine restarted after the job ended and before that", async () => {
    const { machine } = fixture.app.ports;
    let boot = machine.boot();
    Object.assign(machine, { boot: () => boot });
    atPoint = (name) => {
      if (name === "workspace.keepTree.before") boot = "another";
    };
    const build = await fixture.build({ tasks: [{ id: "a", run: "echo a > a" }] });
    expect([build.status, build.reason]).toEqual(["completed", null]);
    const attempts = await fixture.app.store.attempts.list({ buildId: build.id }, { by: "number" });
    expect(attempts.map(({ outcome }) => outcome)).toEqual(["lost", "succeeded"]);
    expect(attempts[0]!.reason).toMatch(/^the machine restarted before its work was saved/);
    expect(git(["show", `wavesmith/${build.id}/task/a/1:a`])).toBe("a");
  });

  it("is not written by two jobs when the one who started the first gave up on it", async () => {
    let failures = 5;
    atPoint = (name) => {
      if (name !== "guest.startJob.after" || failures === 0) return;
      failures -= 1;
      throw new Error("the database was away");
    };
    const build = await fixture.build({
      tasks: [{ id: "a", run: 'test "$(basename $PWD)" != a.1 || { echo begun > begun; sleep 300; }; echo a > a' }],
    });
    expect([build.status, build.reason]).toEqual(["completed", null]);
    const jobs = await fixture.app.store.jobs.list({ buildId: build.id });
    expect(jobs.filter((job) => job.status !== "ended")).toEqual([]);
    expect((await (await guestOf()).listJobs()).filter((job) => job.status === "running")).toEqual([]);
    expect(git(["show", `wavesmith/${build.id}/task/a/1:begun`])).toBe("begun");
  });

  it("has its generated files made again by a retry, also those a glob declares", async () => {
    const part = (name: string) => ({ id: name, run: `echo ${name} > part-${name}; cat part-* > all.lock` });
    const build = await fixture.build({
      limits: { maxParallelTasks: 2 },
      generated: [{ path: "**/*.lock", by: "test -e ../../../cache/go && cat part-* > all.lock" }],
      tasks: [part("a"), part("b")],
    });
    expect(build.status).toBe("failed");
    expect((await fixture.app.store.waves.get({ buildId: build.id })).reason).toContain("generated files");
    await (await guestOf()).writeFile("cache/go", "");
    await retryBuild(fixture.app.ports, build.id);
    const again = await fixture.until(build.id);
    expect([again.status, again.reason]).toEqual(["completed", null]);
    expect(git(["show", "main:all.lock"])).toBe("a\nb");
  });

  it("is delivered by a retry once a person merged the main that had moved", async () => {
    const buildId = await fixture.request({
      tasks: [{ id: "a", run: "touch begun; while ! test -e ../../../cache/go; do sleep 0.05; done; echo a > a" }],
    });
    await fixture.until(
      buildId,
      async () =>
        (await (
          await fixture.app.ports.driver(sandbox()).find(fixture.projectId as never)
        )?.guest
          .stat(`trees/${buildId}/a.1/begun`)
          .catch(() => null)) != null,
    );
    git(["update-ref", "refs/heads/main", commitByHand("theirs", "main")]);
    await (await guestOf()).writeFile("cache/go", "");
    const failed = await fixture.until(buildId);
    expect([failed.status, failed.reason]).toEqual(["failed", expect.stringContaining("was moved")]);
    const branch = `refs/heads/wavesmith/${buildId}/wave-1`;
    const merge = commitByHand("merged", branch, "main");
    git(["update-ref", branch, merge]);
    await retryBuild(fixture.app.ports, buildId);
    const build = await fixture.until(buildId);
    expect([build.status, build.reason, build.headSha]).toEqual(["completed", null, merge]);
    expect(git(["rev-parse", "main"])).toBe(merge);
    const judged = await fixture.app.store.gateRuns.list({ buildId, gate: "critic", sha: merge });
    expect(judged, "a verdict counts for its commit alone").toHaveLength(1);
  });

  it("reports the commits it leaves out: those of a person on the branch of a delivered wave", async () => {
    const b = "test -e ../../../cache/go && echo b > b";
    const failed = await fixture.build({
      tasks: [
        { id: "a", run: "echo a > a" },
        { id: "b", run: b, retries: 0 },
      ],
    });
    expect([failed.status, failed.reason]).toEqual(["failed", "task b failed"]);
    const branch = `refs/heads/wavesmith/${failed.id}/wave-1`;
    const commit = commitByHand("theirs", branch);
    git(["update-ref", branch, commit]);
    await (await guestOf()).writeFile("cache/go", "");
    await retryBuild(fixture.app.ports, failed.id);
    const build = await fixture.until(failed.id);
    expect([build.status, build.reason]).toEqual(["completed", null]);
    expect(fixture.warnings.join("\n")).toMatch(
      `wave-1 was moved to ${commit.slice(0, 12)} after its wave was delivered`,
    );
    expect(git(["rev-parse", branch]), "it stays where they put it").toBe(commit);
  });

  it("counts what a person put on a branch whose join was cancelled, and loses none of it", async () => {
    let buildId = "";
    atPoint = async (name) => {
      if (name !== "workspace.moveRef.wave.after") return;
      atPoint = () => undefined;
      await requestCancel(fixture.app.ports, buildId, "in the middle of a join");
    };
    buildId = await fixture.request({ tasks: [{ id: "a", run: "sleep 1; echo a > a" }] });
    expect((await fixture.until(buildId)).status).toBe("cancelled");
    const branch = `refs/heads/wavesmith/${buildId}/wave-1`;
    const commit = commitByHand("theirs", branch);
    git(["update-ref", branch, commit]);
    await retryBuild(fixture.app.ports, buildId);
    const build = await fixture.until(buildId);
    expect([build.status, build.reason]).toEqual(["completed", null]);
    expect(git(["show", "main:theirs"])).toBe("by hand");
    expect(git(["rev-parse", "main"])).toBe(commit);
  });

  it("is taken in by a retry without a new attempt, also when the attempt changed nothing", async () => {
    const buildId = await fixture.request({
      limits: { maxParallelTasks: 2 },
      tasks: [
        { id: "look", run: "true", changes: "optional" },
        { id: "slow", run: "test -e ../../../cache/go || sleep 300; echo s > s" },
      ],
    });
    await fixture.until(
      buildId,
      async () =>
        (await fixture.app.store.tasks.find({ buildId, key: "look", status: "joining" })) !== null &&
        (await fixture.app.store.attempts.find({ buildId, status: "running" })) !== null,
    );
    await requestCancel(fixture.app.ports, buildId, "pause");
    await fixture.until(buildId);
    await (await guestOf()).writeFile("cache/go", "");
    await retryBuild(fixture.app.ports, buildId);
    expect((await fixture.until(buildId)).status).toBe("completed");
    expect((await fixture.app.store.tasks.get({ buildId, key: "look" })).attempts).toBe(1);
  });

  it("is refused and kept aside, and not repeated three times, when git's fsck refuses its files", async () => {
    const modules = "printf '[submodule \"a\"]\\n\\tpath = a\\n\\turl = --upload-pack=x\\n' > .gitmodules";
    const build = await fixture.build({
      gates: { testing: false, critic: false, integration: false, maxFixRounds: 0 },
      tasks: [{ id: "a", run: `echo work > work.txt; ${modules}`, retries: 0 }],
    });
    expect(build.status).toBe("failed");
    const attempts = await fixture.app.store.attempts.list({ buildId: build.id });
    expect(attempts).toMatchObject([
      { outcome: "refused", reason: expect.stringContaining("fsck rejected its files") },
    ]);
    const [bundle] = readdirSync(join(repository(), "refused"));
    git(["fetch", "-q", join(repository(), "refused", bundle!), "refs/wavesmith/kept:refs/rescue/a"]);
    expect(git(["show", "refs/rescue/a:work.txt"])).toBe("work");
  });
});
