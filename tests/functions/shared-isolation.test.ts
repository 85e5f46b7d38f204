import { beforeEach, describe, expect, it } from "vitest";
import { retryBuild } from "../../src/coordinator/build/retry-build.ts";
import { requestCancel } from "../../src/coordinator/build/stop/cancel-build.ts";
import { joinWave } from "../../src/coordinator/wave/join-wave.ts";
import { eachBuildFixture } from "../support/build-fixture.ts";

// Isolation `shared`: the tasks of a wave work in one tree (docs/adr/0005). A task's shell waits
// for other tasks' files.

const waitFor = (path: string): string => `until test -e ${path}; do sleep 0.05; done`;

describe("tasks that share a tree", () => {
  let atPoint: (name: string) => void | Promise<void> = () => undefined;
  beforeEach(() => {
    atPoint = () => undefined;
  });
  const fixture = eachBuildFixture({ crashPoint: (name) => atPoint(name) });

  const guestOf = async () =>
    (await fixture.app.ports.driver(fixture.app.config.sandboxDriver).find(fixture.projectId as never))!.guest;
  const shared = (tasks: Record<string, unknown>[], more: Record<string, unknown> = {}) => ({
    isolation: "shared",
    limits: { maxParallelTasks: 4, tasksPerAgentPerWave: 4 },
    ...more,
    tasks,
  });
  const filesOf = async (commit: string) =>
    (await fixture.git("ls-tree", "-r", "--name-only", commit)).trim().split("\n").sort();
  const changedBy = async (ref: string) =>
    (await fixture.git("diff-tree", "-r", "--name-only", "--no-commit-id", ref)).trim().split("\n").sort();
  const treesOf = async (buildId: string) =>
    (await (await guestOf()).list(`trees/${buildId}`).catch(() => [])).map((entry) => entry.path);
  const noTreeIsLeft = (buildId: string) => fixture.until(buildId, async () => (await treesOf(buildId)).length === 0);
  const outcomes = async (buildId: string, key: string) => {
    const { id } = await fixture.app.store.tasks.get({ buildId, key });
    const attempts = await fixture.app.store.attempts.list({ taskId: id }, { by: "number" });
    return attempts.map((attempt) => attempt.outcome);
  };

  it("see each other's edits at once, and each has one commit with its own paths", async () => {
    const build = await fixture.build(
      shared([
        { id: "a", writes: ["a/**"], run: `mkdir a; echo 1 > a/first; ${waitFor("b/answer")}; cat b/answer > a/copy` },
        { id: "b", writes: ["b/**"], run: `${waitFor("a/first")}; mkdir b; cat a/first a/first > b/answer` },
      ]),
    );
    expect([build.status, build.reason]).toEqual(["completed", null]);
    expect(await filesOf("main")).toEqual(["a/copy", "a/first", "b/answer"]);
    expect(await fixture.git("show", "main:a/copy")).toBe("1\n1\n");
    expect(await changedBy(`wavesmith/${build.id}/task/a/1`)).toEqual(["a/copy", "a/first"]);
    expect(await changedBy(`wavesmith/${build.id}/task/b/1`)).toEqual(["b/answer"]);
    expect(await fixture.app.store.waves.list({ buildId: build.id })).toHaveLength(1);
    await noTreeIsLeft(build.id);
  });

  it("have it closed by the process that joined their wave, even if the wave was reopened first", async () => {
    const build = await fixture.build(shared([{ id: "a", writes: ["a"], run: "echo a > a" }]));
    const { id, epoch } = await fixture.app.store.waves.get({ buildId: build.id });
    await fixture.app.store.waves.update({ id }, { epoch: epoch + 1 });
    expect(await joinWave(fixture.app.ports, build.id, 1)).toEqual({ shared: true });
  });

  it("begin each wave on the joined work of the one before, in a tree that is set up once, with the plan's variables", async () => {
    const build = await fixture.build(
      shared(
        [
          { id: "ignore", writes: [".gitignore"], run: "echo '*.log' > .gitignore" },
          {
            id: "a",
            writes: ["a"],
            dependsOn: ["ignore"],
            env: { MINE: "a" },
            run: "cat setup.log > a; echo $MINE >> a",
          },
          { id: "b", writes: ["b"], dependsOn: ["ignore"], run: "cat setup.log > b" },
          { id: "c", writes: ["c"], dependsOn: ["a", "b"], run: "cat a b setup.log > c" },
        ],
        // Files that setup creates must be ignored, and the first task sees to that.
        {
          setup: { run: "if test -e .gitignore; then echo set up $MINE $PLANS >> setup.log; sleep 0.5; fi" },
          env: { PLANS: "yes" },
        },
      ),
    );
    expect([build.status, build.reason]).toEqual(["completed", null]);
    expect(await fixture.git("show", "main:a")).toBe("set up yes\na\n");
    expect(await fixture.git("show", "main:b"), "one line: set up once").toBe("set up yes\n");
    expect(await fixture.git("show", "main:c")).toBe("set up yes\na\nset up yes\nset up yes\n");
    expect(await filesOf("main")).toEqual([".gitignore", "a", "b", "c"]);
  });

  it("are joined without the changes of setup, which belong to no task and fail no wave", async () => {
    const build = await fixture.build(
      shared(
        [
          { id: "a", writes: ["a"], run: "cat lock > a" },
          { id: "b", writes: ["b", "lock"], run: "cat lock > b" },
        ],
        { setup: { run: "echo 1 > lock" } },
      ),
    );
    expect([build.status, build.reason]).toEqual(["completed", null]);
    expect(await filesOf("main")).toEqual(["a", "b"]);
  });

  it("fail their wave for undeclared files, which are named, kept and not on main", async () => {
    const build = await fixture.build(
      shared([
        {
          id: "a",
          writes: ["a/**"],
          run: 'mkdir a; echo a > a/a; grep -q stray.txt "$WAVESMITH_TASK_FILE" || echo stray > stray"".txt',
          retries: 1,
        },
        { id: "b", writes: ["b/**"], run: "mkdir b; echo b > b/b" },
      ]),
    );
    expect([build.status, build.reason]).toEqual(["failed", expect.stringContaining("failed")]);
    const [wave] = await fixture.app.store.waves.list({ buildId: build.id });
    expect([wave!.status, wave!.headSha]).toEqual(["failed", null]);
    expect(wave!.reason).toMatch(
      /none of its tasks \(a, b\): stray\.txt( \(by a\))?; kept on wavesmith\/.*\/leftovers-1\/0/,
    );
    const ref = `wavesmith/${build.id}/leftovers-1/0`;
    expect(await fixture.git("show", `${ref}:stray.txt`)).toBe("stray\n");
    expect(await changedBy(ref)).toEqual(["stray.txt"]);
    expect((await fixture.git("ls-tree", "--name-only", "main")).trim()).toBe("");
    expect(await filesOf(`wavesmith/${build.id}/task/b/1`), "the others' work is kept").toEqual(["b/b"]);
    await noTreeIsLeft(build.id);
    await retryBuild(fixture.app.ports, build.id);
    const again = await fixture.until(build.id);
    expect([again.status, again.reason], "it was told of the stray file").toEqual(["completed", null]);
    expect(await filesOf("main")).toEqual(["a/a", "b/b"]);
    expect((await fixture.app.store.waves.list({ buildId: build.id })).map((one) => one.number)).toEqual([1, 2]);
  });

  it("fail their wave and name the task that ran when an undeclared file was written", async () => {
    const build = await fixture.build(
      shared(
        [
          { id: "a", writes: ["a"], run: "echo a > a; echo stray > stray.txt" },
          { id: "b", writes: ["b"], run: "echo b > b" },
        ],
        { limits: { maxParallelTasks: 1, tasksPerAgentPerWave: 2 } },
      ),
    );
    const [wave] = await fixture.app.store.waves.list({ buildId: build.id });
    expect(wave).toMatchObject({ status: "failed", reason: expect.stringContaining("(a, b): stray.txt (by a); kept") });
  });

  it("blame nobody for a file that a task wrote before the database said that it runs", async () => {
    const calls = { before: 0, after: 0 };
    const isThere = async (path: string) => (await (await guestOf()).stat(path).catch(() => null)) !== null;
    const script = (own: string) =>
      `if mkdir first; then ${waitFor("../../../cache/go")}; echo stray > stray.txt; fi; echo ${own} > ${own}`;
    const inTree = async (path: string) => {
      const [build] = await fixture.app.store.builds.list({});
      return isThere(`trees/${build!.id}/wave-1-0/${path}`);
    };
    atPoint = async (name) => {
      if (name === "guest.startJob.before" && ++calls.before === 2)
        await expect.poll(() => inTree("first"), { timeout: 20_000 }).toBe(true);
      if (name !== "guest.startJob.after" || ++calls.after > 1) return;
      const running = () => fixture.app.store.attempts.list({ status: "running" });
      await expect.poll(async () => (await running()).length, { timeout: 20_000 }).toBe(1);
      await (await guestOf()).writeFile("cache/go", "");
      await expect.poll(() => inTree("stray.txt"), { timeout: 20_000 }).toBe(true);
      // A file system's clock may be behind by this much.
      const writtenAt = Date.now();
      await expect.poll(() => Date.now() - writtenAt).toBeGreaterThan(100);
    };
    const build = await fixture.build(
      shared([
        { id: "a", writes: ["a"], run: script("a") },
        { id: "b", writes: ["b"], run: script("b") },
      ]),
    );
    const [wave] = await fixture.app.store.waves.list({ buildId: build.id });
    expect(wave).toMatchObject({ status: "failed", reason: expect.stringContaining("(a, b): stray.txt; kept") });
  });

  it("do not fail for ignored files, nor for generated files, which are regenerated", async () => {
    const build = await fixture.build(
      shared(
        [
          { id: "ignore", writes: [".gitignore"], run: "echo '*.log' > .gitignore" },
          { id: "a", writes: ["a"], dependsOn: ["ignore"], run: "echo a > a; echo x > x.log; echo half > all.lock" },
          { id: "b", writes: ["b"], dependsOn: ["ignore"], run: "echo b > b" },
        ],
        { generated: [{ path: "all.lock", by: "cat a b > all.lock" }] },
      ),
    );
    expect([build.status, build.reason]).toEqual(["completed", null]);
    expect(await filesOf("main")).toEqual([".gitignore", "a", "all.lock", "b"]);
    expect(await fixture.git("show", "main:all.lock")).toBe("a\nb\n");
    await noTreeIsLeft(build.id);
  });

  it("lose nothing by a failure: the work is on its ref, its paths are reset, the retry starts fresh", async () => {
    const build = await fixture.build(
      shared([
        { id: "base", run: "mkdir a; echo good > a/file" },
        {
          id: "a",
          writes: ["a/**"],
          dependsOn: ["base"],
          run: `if test "$(cat b/seen 2>/dev/null)" = good; then test ! -e a/new; echo better > a/file
            else echo bad > a/file; echo new > a/new; ${waitFor("b/began")}; exit 3; fi`,
        },
        {
          id: "b",
          writes: ["b/**"],
          dependsOn: ["base"],
          // Sees the bad file, then the good one again, while it is working itself.
          run: `mkdir b; until grep -q bad a/file; do sleep 0.05; done; touch b/began
            until grep -q good a/file && test ! -e a/new; do sleep 0.05; done; cat a/file > b/seen.tmp; mv b/seen.tmp b/seen
            until grep -q better a/file; do sleep 0.05; done; echo b > b/b`,
        },
      ]),
    );
    expect([build.status, build.reason]).toEqual(["completed", null]);
    const tried = await outcomes(build.id, "a");
    expect(tried[0]).toBe("failed");
    expect(tried.at(-1)).toBe("succeeded");
    expect(await fixture.git("show", `wavesmith/${build.id}/task/a/1:a/file`)).toBe("bad\n");
    expect(await fixture.git("show", `wavesmith/${build.id}/task/a/1:a/new`)).toBe("new\n");
    expect(await changedBy(`wavesmith/${build.id}/task/a/1`), "none of its sibling's").toEqual(["a/file", "a/new"]);
    expect(await fixture.git("show", "main:a/file")).toBe("better\n");
    expect(await filesOf("main")).toEqual(["a/file", "b/b", "b/began", "b/seen"]);
    expect(await outcomes(build.id, "b")).toEqual(["succeeded"]);
    await noTreeIsLeft(build.id);
  });

  it("are joined without the one that failed for good", async () => {
    const build = await fixture.build(
      shared([
        { id: "good", writes: ["good/**"], run: "mkdir good; echo good > good/file" },
        { id: "bad", writes: ["bad/**"], run: "mkdir bad; echo bad > bad/file; exit 1", retries: 0 },
      ]),
    );
    expect([build.status, build.reason]).toEqual(["failed", "task bad failed"]);
    expect(await fixture.tasks(build.id)).toEqual({ good: "completed", bad: "failed" });
    expect(await filesOf("main")).toEqual(["good/file"]);
    expect(await fixture.git("show", `wavesmith/${build.id}/task/bad/1:bad/file`)).toBe("bad\n");
  });

  it("are alone in a wave if they declare nothing, and then keep all their changes", async () => {
    const build = await fixture.build(
      shared([
        { id: "a", writes: ["a"], run: "echo a > a" },
        { id: "open", run: "echo 1 > one; mkdir two; echo 2 > two/three" },
        { id: "b", writes: ["b"], run: "echo b > b" },
      ]),
    );
    expect([build.status, build.reason]).toEqual(["completed", null]);
    const waves = await fixture.app.store.waves.list({ buildId: build.id }, { by: "number" });
    const members = await Promise.all(
      waves.map(async ({ id }) => {
        const rows = await fixture.app.store.tasks.list({ waveId: id }, { by: "position" });
        return rows.map((task) => task.key);
      }),
    );
    expect(members).toEqual([["a", "b"], ["open"]]);
    expect(await filesOf("main")).toEqual(["a", "b", "one", "two/three"]);
  });

  it("keep their work when they are cancelled, including undeclared files, and a retry continues with it", async () => {
    const buildId = await fixture.request(
      shared([
        { id: "done", writes: ["done"], run: "echo done > done" },
        {
          id: "slow",
          writes: ["slow/**"],
          run: `${waitFor("done")}; mkdir slow; if test -e ../../../cache/go; then echo whole > slow/file
            else echo half > slow/file; echo stray > stray; sleep 300; fi`,
        },
      ]),
    );
    await fixture.until(buildId, async () => {
      const done = await fixture.app.store.tasks.find({ buildId, key: "done", status: "joining" });
      const guest = done === null ? null : await guestOf();
      return (await guest?.stat(`trees/${buildId}/wave-1-0/stray`).catch(() => null)) != null;
    });
    await requestCancel(fixture.app.ports, buildId, "pause");
    expect((await fixture.until(buildId)).status).toBe("cancelled");
    await noTreeIsLeft(buildId);
    expect(await fixture.git("show", `wavesmith/${buildId}/task/slow/1:slow/file`)).toBe("half\n");
    expect(await changedBy(`wavesmith/${buildId}/task/slow/1`)).toEqual(["slow/file"]);
    expect(await changedBy(`wavesmith/${buildId}/leftovers-1/0`)).toEqual(["stray"]);
    await (await guestOf()).writeFile("cache/go", "");
    await retryBuild(fixture.app.ports, buildId);
    const build = await fixture.until(buildId);
    expect([build.status, build.reason]).toEqual(["completed", null]);
    expect(await filesOf("main")).toEqual(["done", "slow/file"]);
    expect(await fixture.git("show", "main:slow/file")).toBe("whole\n");
    expect(await outcomes(buildId, "done"), "finished tasks are not repeated").toEqual(["succeeded"]);
  });

  it("survive when keeping one attempt fails: its files are kept before the next begins", async () => {
    let failures = 5;
    atPoint = (name) => {
      if (name !== "workspace.keepTree.before" || failures === 0) return;
      failures -= 1;
      throw new Error("no room");
    };
    const build = await fixture.build(
      shared([{ id: "a", writes: ["a/**"], run: "mkdir a; date +%N > a/when; echo a > a/a" }]),
    );
    expect([build.status, build.reason]).toEqual(["completed", null]);
    expect(await outcomes(build.id, "a")).toEqual(["lost", "succeeded"]);
    expect(await changedBy(`wavesmith/${build.id}/task/a/1`)).toEqual(["a/a", "a/when"]);
    const [first, second] = await Promise.all(
      [1, 2].map((number) => fixture.git("show", `wavesmith/${build.id}/task/a/${number}:a/when`)),
    );
    expect(second, "the second began with nothing of the first").not.toBe(first);
  });

  it("get their finished work back in the tree after the volume was lost", async () => {
    const driver = fixture.app.ports.driver(fixture.app.config.sandboxDriver);
    const buildId = await fixture.request(
      shared([
        { id: "done", writes: ["done"], run: "echo done > done" },
        {
          id: "slow",
          writes: ["slow"],
          run: `${waitFor("done")}; if test -e slow.began; then exit 9; fi; cat done > slow
            test -e ../../../cache/go || sleep 300`,
        },
      ]),
    );
    await fixture.until(buildId, async () => {
      const done = await fixture.app.store.tasks.find({ buildId, key: "done", status: "joining" });
      const guest = done === null ? null : await guestOf();
      return (await guest?.stat(`trees/${buildId}/wave-1-0/slow`).catch(() => null)) != null;
    });
    await driver.remove(fixture.projectId as never, { volume: true });
    // The next sandbox has an empty volume; this file lets it go on at once.
    await fixture.until(buildId, async () => {
      const endpoint = await driver.find(fixture.projectId as never).catch(() => null);
      if (endpoint === null) return false;
      return endpoint.guest.writeFile("cache/go", "").then(
        () => true,
        () => false,
      );
    });
    const build = await fixture.until(buildId);
    expect([build.status, build.reason]).toEqual(["completed", null]);
    expect(await filesOf("main")).toEqual(["done", "slow"]);
    expect(await outcomes(buildId, "done")).toEqual(["succeeded"]);
    expect((await outcomes(buildId, "slow"))[0]).toBe("lost");
  });
});
