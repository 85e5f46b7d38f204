import { describe, expect, it } from "vitest";
import { eachBuildFixture } from "../support/build-fixture.ts";

describe("the setup cache", () => {
  const fixture = eachBuildFixture();

  const entries = async (): Promise<string[]> => {
    const endpoint = await fixture.app.ports.driver(fixture.app.config.sandboxDriver).find(fixture.projectId as never);
    return (await endpoint!.guest.list("cache/setup").catch(() => [])).map((entry) => entry.path.split("/").at(-1)!);
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
    expect(await entries()).toHaveLength(1);
  });

  it("is not used for a setup that makes files outside of what git ignores: they would be missing", async () => {
    const build = await fixture.build({
      limits: { maxParallelTasks: 1 },
      setup: { run: "mkdir node_modules; echo 1 > node_modules/one; echo 1 > made.txt", cache: ["package-lock.json"] },
      tasks: ["a", "b"].map((id) => ({ id, run: `test -e made.txt && echo ${id} > ${id}`, retries: 0 })),
    });
    expect([build.status, build.reason]).toEqual(["completed", null]);
    expect(await entries()).toEqual([]);
  });

  it("does not fail a task whose setup could not be saved", async () => {
    const build = await fixture.build({
      setup: {
        run: "mkdir node_modules; echo 1 > node_modules/one; rm -rf ../../../cache/setup; touch ../../../cache/setup",
        cache: ["x"],
      },
      gates: { testing: false, critic: false },
      tasks: [{ id: "a", run: "echo a > a", retries: 0 }],
    });
    expect([build.status, build.reason]).toEqual(["completed", null]);
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

  it("is not used once a job has put files into it that agents take as instructions", async () => {
    const build = await fixture.build({
      limits: { maxParallelTasks: 1 },
      gates: { testing: false, critic: false, integration: false, maxFixRounds: 0 },
      setup: {
        run: "mkdir -p node_modules/p; echo 1 > node_modules/p/AGENTS.md; echo .claude > .git/info/exclude; echo node_modules >> .git/info/exclude",
        cache: ["x"],
      },
      tasks: [
        { id: "a", run: "echo a > a", retries: 0 },
        {
          id: "b",
          dependsOn: ["a"],
          run: "for entry in ../../../cache/setup/*; do mkdir $entry/files/.claude; echo {} > $entry/files/.claude/settings.json; done; echo b > b",
          retries: 0,
        },
        {
          id: "c",
          dependsOn: ["b"],
          run: "ls -A > c; test -e node_modules/p/AGENTS.md; test ! -e .claude",
          retries: 0,
        },
      ],
    });
    expect([build.status, build.reason]).toEqual(["completed", null]);
    expect(await entries()).toHaveLength(1);
    const chunks = await fixture.app.store.logChunks.list({});
    expect(chunks.map(({ text }) => text).join("")).toContain("it holds ./.claude/settings.json");
  });
});
