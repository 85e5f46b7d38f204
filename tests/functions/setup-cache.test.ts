import { describe, expect, it } from "vitest";
import { requestCancel } from "../../src/coordinator/build/cancel-build.ts";
import { eachBuildFixture } from "../support/build-fixture.ts";

describe("the setup cache", () => {
  const fixture = eachBuildFixture();

  /** The files of which an entry is told by: `complete` or `refused`. */
  const entries = async (): Promise<string[]> => {
    const { guest } = (await fixture.app.ports
      .driver(fixture.app.config.sandboxDriver)
      .find(fixture.projectId as never))!;
    const all = await Promise.all((await guest.list("setup-cache")).map((entry) => guest.list(entry.path)));
    return all.flatMap((files) => files.flatMap((file) => (file.type === "file" ? file.path.split("/").at(-1)! : [])));
  };

  it("is filled once by trees that set up at the same time, and each tree has a whole setup", async () => {
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
    expect(await entries()).toEqual(["complete", "list"]);
  });

  it("is not used for a setup that makes files outside of what git ignores: they would be missing", async () => {
    const build = await fixture.build({
      limits: { maxParallelTasks: 1 },
      setup: { run: "mkdir node_modules; echo 1 > node_modules/one; echo 1 > made.txt", cache: ["package-lock.json"] },
      tasks: ["a", "b"].map((id) => ({ id, run: `test -e made.txt && echo ${id} > ${id}`, retries: 0 })),
    });
    expect([build.status, build.reason]).toEqual(["completed", null]);
    expect(await entries()).toEqual(["refused"]);
  });

  it("runs setup once for tasks that need it at the same time, and leaves nothing of that behind", async () => {
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
