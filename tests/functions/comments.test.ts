import { describe, expect, it } from "vitest";
import { memoryTag, setMemory } from "../../src/api/memory.ts";
import { retryBuild } from "../../src/coordinator/build/retry-build.ts";
import { addComment } from "../../src/coordinator/wave/comments.ts";
import { approveWave, rejectWave } from "../../src/coordinator/wave/decide-wave.ts";
import { eachBuildFixture } from "../support/build-fixture.ts";

// People comment on a build's work, and the project remembers what they decided.

const fixer = { runtime: "command", command: "grep -q 'make it blue' && echo blue > a.txt" };
const plan = (more: object = {}) => ({
  gates: { testing: false, integration: false },
  approval: "wave",
  network: "none",
  tasks: [{ id: "a", title: "Paint the door", run: "echo red > a.txt" }],
  ...more,
});

const fixture = eachBuildFixture();
const comment = (buildId: string, more: object = {}) =>
  addComment(fixture.app.ports, buildId, {
    ...{ text: "make it blue", by: "ada", file: "a.txt", line: 1, endLine: null, taskKey: null },
    ...more,
  });
const comments = (buildId: string) => fixture.app.store.comments.list({ buildId }, { by: "id" });
const reject = (buildId: string, reason: string) => rejectWave(fixture.app.ports, buildId, { by: "ada", reason });
const approve = (buildId: string) => approveWave(fixture.app.ports, buildId, { by: "ada" });
const memory = async () => (await fixture.app.store.projects.get({ id: fixture.projectId })).memory;

describe("a person's comment", () => {
  it("goes to the fixer when the waiting wave is rejected, and is resolved by its fix", async () => {
    const buildId = await fixture.request(plan({ agents: { fixer } }));
    expect(await fixture.until(buildId)).toMatchObject({ status: "waiting" });
    await comment(buildId);
    expect(await comments(buildId)).toMatchObject([{ state: "open", file: "a.txt", sha: expect.any(String) }]);
    await reject(buildId, "see my comment");
    expect(await fixture.until(buildId)).toMatchObject({ status: "failed" });
    await retryBuild(fixture.app.ports, buildId);
    await fixture.app.flush();
    expect(await fixture.until(buildId)).toMatchObject({ status: "waiting" });
    const [fix] = await fixture.app.store.attempts.list({ buildId, kind: "fix" });
    expect(await comments(buildId)).toMatchObject([{ state: "resolved", attemptId: fix!.id }]);
    await approve(buildId);
    expect(await fixture.until(buildId)).toMatchObject({ status: "completed" });
    expect(await fixture.git("show", "main:a.txt")).toBe("blue\n");
    expect(await memory()).toMatch(/Paint the door.*ada rejected wave 1: see my comment.*ada approved wave 1/s);
    await expect(comment(buildId)).rejects.toMatchObject({ code: "conflict" });
  });

  it("keeps a wave from passing until the fixer has it, even without an approval", async () => {
    const waits = "while [ ! -e ../../../cache/go ]; do sleep 0.05; done; echo red > a.txt";
    const tasks = [{ id: "a", run: waits }];
    const buildId = await fixture.request(plan({ agents: { fixer }, approval: "none", tasks }));
    await fixture.until(
      buildId,
      async () => (await fixture.app.store.attempts.find({ buildId, status: "running" })) !== null,
    );
    await comment(buildId);
    const sandbox = await fixture.app.ports
      .driver(fixture.app.config.sandboxDriver)
      .find((await fixture.app.store.builds.get({ id: buildId })).projectId);
    await sandbox!.guest.writeFile("cache/go", "");
    expect(await fixture.until(buildId)).toMatchObject({ status: "completed" });
    expect(await fixture.git("show", "main:a.txt")).toBe("blue\n");
    expect(await comments(buildId)).toMatchObject([{ state: "resolved" }]);
  });

  it("is superseded when a person approves the wave anyway", async () => {
    const buildId = await fixture.request(plan());
    await fixture.until(buildId);
    await comment(buildId);
    await approve(buildId);
    expect(await fixture.until(buildId)).toMatchObject({ status: "completed" });
    expect(await comments(buildId)).toMatchObject([{ state: "superseded" }]);
  });

  it("must have a text and a place in the project", async () => {
    const buildId = await fixture.request(plan());
    await fixture.until(buildId);
    const wrong = [{ text: " " }, { file: "../x" }, { file: "/etc/passwd" }, { file: null }, { endLine: -1 }];
    for (const more of wrong) await expect(comment(buildId, more)).rejects.toMatchObject({ code: "usage" });
    await expect(comment(buildId, { taskKey: "b" })).rejects.toMatchObject({ code: "not-found" });
    expect(await comments(buildId)).toEqual([]);
  });
});

describe("a project's memory", () => {
  it("is part of the prompts of later builds, and only a person who read the latest text can edit it", async () => {
    const { store } = fixture.app;
    await fixture.build(plan({ approval: "none" }));
    const noted = await memory();
    expect(noted).toContain("- done: Paint the door");
    const text = `Doors are green.\n\n${noted}`;
    await setMemory(store, fixture.projectId, { text, tag: memoryTag(noted) });
    const late = setMemory(store, fixture.projectId, { text: "", tag: memoryTag(noted) });
    await expect(late).rejects.toMatchObject({ code: "conflict" });
    const long = setMemory(store, fixture.projectId, { text: "x".repeat(20_000), tag: null });
    await expect(long).rejects.toMatchObject({ code: "usage" });
    const agents = { backend: { runtime: "command", command: "cat > prompt.txt" } };
    const tasks = [{ id: "b", agent: "backend", instructions: "Go on." }];
    expect(await fixture.build(plan({ approval: "none", agents, tasks }))).toMatchObject({ status: "completed" });
    expect(await fixture.git("show", "main:prompt.txt")).toContain("Doors are green.");
  });
});
