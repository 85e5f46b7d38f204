import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { requestCancel } from "../../src/coordinator/build/stop/cancel-build.ts";
import { eachBuildFixture } from "../support/build-fixture.ts";

describe("the setup cache", () => {
  const fixture = eachBuildFixture();

  /** The files that mark an entry: `complete` or `refused`. */
  const entries = async (): Promise<string[]> => {
    const { guest } = (await fixture.app.ports
      .driver(fixture.app.config.sandboxDriver)
      .find(fixture.projectId as never))!;
    const all = await Promise.all((await guest.list("setup-cache")).map((entry) => guest.list(entry.path)));
    return all.flatMap((files) => files.flatMap((file) => (file.type === "file" ? file.path.split("/").at(-1)! : [])));
  };

  const output = async (): Promise<string> =>
    (await fixture.app.store.logChunks.list({})).map(({ text }) => text).join("");
  /** How many times setup ran, by its own output. */
  const ran = async (): Promise<number> => (await output()).match(/^ran$/gm)?.length ?? 0;

  it("is filled once by trees that set up at the same time, and each tree has a complete setup", async () => {
    const check = "test $(ls node_modules | wc -l) = 300 && cat node_modules/1 node_modules/300 | sort -u | wc -l";
    const build = await fixture.build({
      limits: { maxParallelTasks: 3 },
      setup: {
        run: 'mkdir node_modules; for n in $(seq 300); do echo "$PORT" > node_modules/$n; done',
        cache: ["package-lock.json"],
      },
      tasks: ["a", "b", "c"].map((id) => ({ id, run: `${check} > ${id}`, retries: 0 })),
    });
    expect([build.status, build.reason]).toEqual(["completed", null]);
    for (const id of ["a", "b", "c"]) expect(await fixture.git("show", `main:${id}`)).toBe("1\n");
    expect(await entries()).toEqual(["changed", "complete", "list", "removed"]);
  });

  it("restores what setup created, changed and removed among tracked files if those files were the same", async () => {
    const check = "test -e made.txt && test ! -e gone && grep -q built lock && test -e node_modules/one";
    const planFolder = await mkdtemp(join(tmpdir(), "wavesmith-setup-"));
    onTestFinished(() => rm(planFolder, { recursive: true }));
    await mkdir(join(planFolder, "seed"));
    for (const name of ["lock", "gone"]) await writeFile(join(planFolder, "seed", name), "1\n");
    const plan = {
      limits: { maxParallelTasks: 2 },
      source: { path: "seed" },
      setup: {
        run: "echo ran; mkdir node_modules; echo 1 > node_modules/one; echo 1 > made.txt; rm gone; echo built >> lock",
        cache: ["package.json"],
      },
      tasks: [
        ...["a", "b"].map((id) => ({ id, run: `${check} && echo ${id} > ${id}`, retries: 0 })),
        // The entry no longer fits, so setup runs.
        { id: "other", dependsOn: ["a", "b"], run: "echo 2 > lock", retries: 0 },
        { id: "after", dependsOn: ["other"], run: `${check} && grep -q 2 lock && echo 1 > after`, retries: 0 },
      ],
      gates: { testing: false, critic: false, integration: false },
    };
    const build = await fixture.until(await fixture.request(plan, { planFolder }));
    expect([build.status, build.reason]).toEqual(["completed", null]);
    expect(await entries()).toEqual(["before", "changed", "complete", "list", "removed"]);
    expect(await ran()).toBe(2);
    // None of it is part of a task's work.
    expect(await fixture.git("ls-tree", "--name-only", "main")).toBe("a\nafter\nb\ngone\nlock\n");
  });

  it.each([
    ["a script", "printf '#!%s/.venv/bin/python\\n' \"$PWD\" > .venv/bin/pip; chmod +x .venv/bin/pip", ".venv/bin/pip"],
    ["a link", 'ln -s "$PWD/app" .venv/bin/app', ".venv/bin/app"],
    ["a path of Python's", 'echo "$PWD/src" > .venv/x.pth', ".venv/x.pth"],
  ])("offers nothing that works only where it was made: %s", async (_, make, named) => {
    const build = await fixture.build({
      limits: { maxParallelTasks: 1 },
      setup: { run: `echo ran; mkdir -p .venv/bin; ${make}`, cache: ["requirements.txt"] },
      tasks: [
        { id: "a", run: 'test -z "$(grep -rl setup-trees .venv)" && echo a > a', retries: 0 },
        { id: "b", dependsOn: ["a"], run: "echo b > b", retries: 0 },
      ],
      gates: { testing: false, critic: false, integration: false },
    });
    expect([build.status, build.reason]).toEqual(["completed", null]);
    expect(await entries()).toEqual(["refused"]);
    expect(await output()).toContain(`not cached: ${named} works only in the folder that it was made in`);
    // The second wave does not try to fill it again.
    expect(await ran()).toBe(3);
  });

  it("is not part of a task's work: the result of setup is the base of the attempt", async () => {
    const build = await fixture.build({
      setup: { run: "echo 1 > package-lock.json" },
      gates: { testing: false, critic: false, integration: false },
      onTaskFailure: "continue",
      tasks: [
        { id: "idle", run: "true", changes: "required", retries: 0 },
        { id: "a", run: "echo a > a" },
        { id: "b", run: "echo b > b" },
        { id: "locks", dependsOn: ["a", "b"], run: "echo 2 >> package-lock.json", changes: "required" },
      ],
    });
    expect(await fixture.tasks(build.id)).toEqual({
      idle: "failed",
      a: "completed",
      b: "completed",
      locks: "completed",
    });
    const idle = await fixture.app.store.tasks.get({ buildId: build.id, key: "idle" });
    expect(idle.reason).toBe("it finished without changing a file");
    expect(await fixture.git("ls-tree", "--name-only", "main")).toBe("a\nb\npackage-lock.json\n");
    expect(await fixture.git("show", "main:package-lock.json")).toBe("1\n2\n");
    // Neither of two tasks with the same lock file has touched it.
    expect((await fixture.app.store.tasks.list({ buildId: build.id })).flatMap((task) => task.conflicts)).toEqual([]);
  });

  it("is skipped, with a message, while the file that it needs is missing", async () => {
    const build = await fixture.build({
      setup: { run: "npm ci", cache: ["package-lock.json"] },
      gates: { testing: { command: "echo 1..1; echo ok 1" }, critic: false, integration: false },
      tasks: [{ id: "a", run: "echo a > a", retries: 0 }],
    });
    expect([build.status, build.reason]).toEqual(["completed", null]);
    const said = "setup is skipped: npm ci needs package-lock.json or npm-shrinkwrap.json, which is not there yet";
    expect(await output()).toContain(said);
  });

  it("runs setup once for tasks that need it at the same time, and leaves nothing behind", async () => {
    const build = await fixture.build({
      limits: { maxParallelTasks: 3 },
      setup: { run: "echo once-only; mkdir node_modules; echo 1 > node_modules/one", cache: ["x"] },
      gates: { testing: { command: "cat node_modules/one; echo 1..1; echo ok 1" }, critic: false },
      tasks: ["a", "b", "c"].map((id) => ({ id, run: `cat node_modules/one > ${id}`, retries: 0 })),
    });
    expect([build.status, build.reason]).toEqual(["completed", null]);
    const chunks = await fixture.app.store.logChunks.list({});
    expect(
      chunks
        .map(({ text }) => text)
        .join("")
        .match(/^once-only$/gm),
    ).toHaveLength(1);
    const endpoint = await fixture.app.ports.driver(fixture.app.config.sandboxDriver).find(fixture.projectId as never);
    await fixture.until(build.id, async () => (await endpoint!.guest.list("setup-trees")).length === 0);
    expect(await endpoint!.guest.list("handover")).toEqual([]);
  });

  it("does not fail a task whose setup could not be saved", async () => {
    const build = await fixture.build({
      // Fails in the tree that fills the cache, and nowhere else.
      setup: { run: 'case "$PWD" in */setup-trees/*) exit 3; esac; mkdir node_modules', cache: ["x"] },
      gates: { testing: false, critic: false },
      tasks: [{ id: "a", run: "echo a > a", retries: 0 }],
    });
    expect([build.status, build.reason]).toEqual(["completed", null]);
    expect(await fixture.app.store.jobs.get({ ownerKind: "setup" })).toMatchObject({ status: "ended" });
  });

  it("of an earlier version, which every job could write, is dropped", async () => {
    const { id } = await fixture.build({ tasks: [{ id: "start", run: "echo 1 > start" }] });
    const { guest } = (await fixture.app.ports
      .driver(fixture.app.config.sandboxDriver)
      .find(fixture.projectId as never))!;
    await guest.writeFile("cache/setup/0123/files/node_modules/one", "forged");
    const build = await fixture.build({
      setup: { run: "mkdir node_modules; echo 1 > node_modules/one", cache: ["x"] },
      tasks: [{ id: "a", run: "cat node_modules/one > a", retries: 0 }],
    });
    expect([build.status, build.id === id]).toEqual(["completed", false]);
    expect(await guest.stat("cache/setup")).toBeNull();
  });

  it("ends filling with its build", async () => {
    const buildId = await fixture.request({
      setup: { run: "echo filling; sleep 300", cache: ["x"] },
      tasks: [{ id: "a", run: "echo a > a", retries: 0 }],
    });
    const running = async () => (await fixture.app.store.jobs.find({ ownerKind: "setup", status: "running" })) !== null;
    await fixture.until(buildId, running);
    await requestCancel(fixture.app.ports, buildId, "enough");
    expect((await fixture.until(buildId)).status).toBe("cancelled");
    await fixture.until(buildId, async () => !(await running()));
  });

  it("is not shared by tasks whose environment differs", async () => {
    const build = await fixture.build({
      limits: { maxParallelTasks: 1 },
      setup: { run: 'mkdir node_modules; echo "$MODE" > node_modules/mode', cache: ["x"] },
      tasks: ["prod", "test"].map((id) => ({ id, env: { MODE: id }, run: `cat node_modules/mode > ${id}` })),
    });
    expect([build.status, build.reason]).toEqual(["completed", null]);
    expect(await fixture.git("show", "main:prod")).toBe("prod\n");
    expect(await fixture.git("show", "main:test")).toBe("test\n");
  });
});
