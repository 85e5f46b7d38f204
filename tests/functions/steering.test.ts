import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { resumeBuild } from "../../src/coordinator/build/resume-build.ts";
import { retryBuild } from "../../src/coordinator/build/retry-build.ts";
import { rollbackBuild } from "../../src/coordinator/build/rollback-build.ts";
import { editPlan } from "../../src/coordinator/plan/edit-plan.ts";
import { approveWave, rejectWave } from "../../src/coordinator/wave/decide-wave.ts";
import { parsePlanValue } from "../../src/plan/parse-plan.ts";
import { eachBuildFixture } from "../support/build-fixture.ts";

const planOf = (value: Record<string, unknown>) =>
  parsePlanValue({ name: "fixture", ...value }, { baseDir: null, env: {} }).plan!;
const ada = { by: "Ada" };
const run = promisify(execFile);

describe("steering a build", () => {
  const fixture = eachBuildFixture();
  const ports = () => fixture.app.ports;
  const main = async () => (await fixture.git("ls-tree", "--name-only", "main")).trim().split("\n");
  const two = [
    { id: "a", run: "echo a > a" },
    { id: "b", dependsOn: ["a"], run: "echo b > b" },
  ];

  it("waits for approval after the gates of every wave, and main moves only once it is approved", async () => {
    const waiting = await fixture.build({ approval: "wave", tasks: two });
    expect(waiting.status).toBe("waiting");
    expect((await fixture.git("ls-tree", "main")).trim()).toBe("");
    await approveWave(ports(), waiting.id, { ...ada, about: { waveNumber: 2, sha: null } });
    await approveWave(ports(), waiting.id, { ...ada, about: { waveNumber: 1, sha: "another" } });
    expect((await fixture.app.store.builds.get({ id: waiting.id })).status, "late or early words change nothing").toBe(
      "waiting",
    );
    await approveWave(ports(), waiting.id, ada);
    const second = await fixture.until(waiting.id, (build) => build.status === "waiting");
    expect(await main()).toEqual(["a"]);
    await approveWave(ports(), second.id, ada);
    await approveWave(ports(), second.id, ada);
    const done = await fixture.until(second.id, (build) => build.status === "completed");
    expect(done.status).toBe("completed");
    const approvals = await fixture.app.store.approvals.list({ buildId: done.id }, { by: "createdAt" });
    expect(approvals.map((row) => [row.decision, row.by])).toEqual([
      ["approved", "Ada"],
      ["approved", "Ada"],
    ]);
    expect(await approveWave(ports(), done.id, ada)).toBeNull();
    await expect(rejectWave(ports(), done.id, { ...ada, reason: "too late" })).rejects.toThrow(
      "no wave of it is waiting for a decision",
    );
  });

  it("asks once at the end with `approval: final`, and accepts an event from outside", async () => {
    const waiting = await fixture.build({ approval: "final", tasks: two });
    expect(waiting.status).toBe("waiting");
    expect(await main()).toEqual(["a"]);
    const { tenantId, projectId, id: buildId } = waiting;
    await fixture.app.send({
      name: "project/wave.approved",
      id: "by-hand",
      data: { tenantId, projectId, buildId, waveNumber: 2 },
    });
    expect((await fixture.until(buildId, (build) => build.status === "completed")).status).toBe("completed");
  });

  it("blocks a rejected wave, and a retry gives the reason to the fixer", async () => {
    const waiting = await fixture.build({
      approval: "wave",
      agents: { fixer: { runtime: "command", command: 'grep -q "call it b" && git mv -f a b' } },
      tasks: [{ id: "a", run: "echo a > a" }],
    });
    await rejectWave(ports(), waiting.id, { ...ada, reason: "call it b" });
    const failed = await fixture.until(waiting.id, (build) => build.status === "failed");
    expect((await fixture.app.store.waves.get({ buildId: failed.id })).reason).toBe("rejected: call it b");
    await retryBuild(ports(), failed.id);
    const again = await fixture.until(failed.id, (build) => build.status === "waiting" || build.status === "failed");
    expect([again.status, again.reason]).toEqual(["waiting", null]);
    await approveWave(ports(), again.id, ada);
    await fixture.until(again.id, (build) => build.status === "completed");
    expect(await main()).toEqual(["b"]);
  });

  /** Commits by hand to a wave's branch, writing `text` to `path`; `onto` is the parent. */
  async function push(buildId: string, { path, text, onto }: { path: string; text: string; onto: string }) {
    const folder = await mkdtemp(join(tmpdir(), "wavesmith-push-"));
    const repository = ports().workspace.repositoryPath(fixture.projectId as never);
    const git = (...args: string[]) =>
      run("git", ["-C", folder, "-c", "user.name=Ada", "-c", "user.email=ada@example.com", ...args]);
    try {
      await run("git", ["clone", "-q", "--no-checkout", repository, folder]);
      await git("checkout", "-q", "--detach", onto);
      await writeFile(join(folder, path), text);
      await git("add", path);
      await git("commit", "-qm", "By hand");
      await git("push", "-qf", "origin", `HEAD:refs/heads/wavesmith/${buildId}/wave-1`);
      return (await git("rev-parse", "HEAD")).stdout.trim();
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }
  const checked = {
    approval: "wave",
    gates: { integration: { command: 'test "$(cat a)" != bad' } },
    tasks: [{ id: "a", run: "echo a > a" }],
  };

  it("puts what a person pushed to the waiting wave through the gates, and joins it once it is approved", async () => {
    const waiting = await fixture.build(checked);
    const commit = await push(waiting.id, {
      path: "a",
      text: "better\n",
      onto: (await fixture.app.store.waves.get({ buildId: waiting.id })).headSha!,
    });
    expect(await approveWave(ports(), waiting.id, ada)).toBe(commit);
    const done = await fixture.until(waiting.id);
    expect([done.status, done.reason, done.headSha]).toEqual(["completed", null, commit]);
    expect(await fixture.git("show", "main:a")).toBe("better\n");
    const runs = await fixture.app.store.gateRuns.list({ buildId: done.id, gate: "integration" }, { by: "createdAt" });
    expect(runs.map((gate) => [gate.sha, gate.verdict]).at(-1)).toEqual([commit, "passed"]);
    expect((await fixture.app.store.approvals.get({ buildId: done.id })).sha).toBe(commit);
  });

  it("blocks an approved wave whose pushed commits fail a gate, and refuses a branch without its head", async () => {
    const waiting = await fixture.build(checked);
    const wave = await fixture.app.store.waves.get({ buildId: waiting.id });
    await push(waiting.id, { path: "a", text: "other\n", onto: wave.baseSha });
    await expect(approveWave(ports(), waiting.id, ada)).rejects.toThrow("does not descend from the wave's head");
    await push(waiting.id, { path: "a", text: "bad\n", onto: wave.headSha! });
    await approveWave(ports(), waiting.id, ada);
    const failed = await fixture.until(waiting.id);
    expect(failed.status).toBe("failed");
    expect((await fixture.git("ls-tree", "main")).trim()).toBe("");
  });

  it("applies an event's decision only to the commit that it names", async () => {
    const waiting = await fixture.build(checked);
    const { headSha } = await fixture.app.store.waves.get({ buildId: waiting.id });
    const commit = await push(waiting.id, { path: "a", text: "better\n", onto: headSha! });
    await approveWave(ports(), waiting.id, { ...ada, about: { waveNumber: 1, sha: headSha } });
    const again = await fixture.until(waiting.id);
    expect(again.status).toBe("waiting");
    expect((await fixture.app.store.waves.get({ buildId: waiting.id })).headSha).toBe(commit);
  });

  it("says that a rejected wave without a fixer would be offered again, and offers it only when asked to", async () => {
    const waiting = await fixture.build(checked);
    await rejectWave(ports(), waiting.id, { ...ada, reason: "call it b" });
    const failed = await fixture.until(waiting.id, (build) => build.status === "failed");
    await expect(retryBuild(ports(), failed.id)).rejects.toThrow(
      "was rejected: call it b; no fixer is there to change it",
    );
    await retryBuild(ports(), failed.id, { unchanged: true });
    expect((await fixture.until(failed.id)).status).toBe("waiting");
    await rejectWave(ports(), waiting.id, { ...ada, reason: "still" });
    await fixture.until(waiting.id, (build) => build.status === "failed");
    const { headSha } = await fixture.app.store.waves.get({ buildId: waiting.id });
    const commit = await push(waiting.id, { path: "b", text: "b\n", onto: headSha! });
    await retryBuild(ports(), failed.id);
    await fixture.until(failed.id);
    expect((await fixture.app.store.waves.get({ buildId: waiting.id })).headSha).toBe(commit);
  });

  it("rolls back to a restore point, keeps the old tip under a rescue ref, and continues from it with new wave numbers", async () => {
    const build = await fixture.build({ tasks: [...two, { id: "c", dependsOn: ["b"], run: "cat a b > c" }] });
    expect(build.status).toBe("completed");
    await rollbackBuild(ports(), build.id, 1);
    await rollbackBuild(ports(), build.id, 1);
    expect(await main()).toEqual(["a"]);
    expect((await fixture.git("rev-parse", `refs/rescue/${build.id}/${build.headSha}`)).trim()).toBe(build.headSha);
    expect((await fixture.app.store.builds.get({ id: build.id })).status).toBe("waiting");
    expect(await fixture.tasks(build.id)).toEqual({ a: "completed", b: "pending", c: "pending" });
    const sandbox = await ports().driver(build.sandboxDriver).find(build.projectId);
    const shown = (await sandbox!.guest.list("repo")).map(({ path }) => path);
    expect(shown, "the sandbox shows no later files").toEqual(["repo/.git", "repo/a"]);
    await expect(rollbackBuild(ports(), build.id, 2)).rejects.toThrow("was already rolled back");
    await resumeBuild(ports(), build.id);
    const done = await fixture.until(build.id, (row) => row.status === "completed" || row.status === "failed");
    expect([done.status, done.reason]).toEqual(["completed", null]);
    expect(await main()).toEqual(["a", "b", "c"]);
    const waves = await fixture.app.store.waves.list({ buildId: build.id }, { by: "number" });
    expect(waves.map((wave) => wave.status)).toEqual(["passed", "cancelled", "cancelled", "passed", "passed"]);
  });

  it("refuses to roll back past somebody else's commits, or to a missing restore point", async () => {
    const build = await fixture.build({ tasks: two });
    await expect(rollbackBuild(ports(), build.id, 7)).rejects.toThrow("no restore point 7");
    const identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"];
    const commit = (await fixture.git(...identity, "commit-tree", "main^{tree}", "-p", "main", "-m", "By hand")).trim();
    await fixture.git("update-ref", "refs/heads/main", commit);
    await expect(rollbackBuild(ports(), build.id, 1)).rejects.toThrow("past build");
    expect((await fixture.git("rev-parse", "main")).trim()).toBe(commit);
  });

  it("continues with an edited plan: unchanged work is kept, changed tasks and their dependents run again", async () => {
    const build = await fixture.build({
      tasks: [
        ...two,
        { id: "c", dependsOn: ["b"], run: "exit 1", retries: 0 },
        { id: "gone", run: "echo gone > gone" },
      ],
    });
    expect(build.status).toBe("failed");
    const edit = await editPlan(
      ports(),
      build.id,
      planOf({
        tasks: [
          { id: "a", title: "Another title", run: "echo a > a" },
          { id: "b", dependsOn: ["a"], run: "echo better > b" },
          { id: "c", dependsOn: ["b"], run: "cat b > c" },
          { id: "d", run: "echo d > d" },
        ],
      }),
    );
    expect(edit).toEqual({ added: ["d"], again: ["b", "c"], removed: ["gone"], kept: ["a"] });
    const done = await fixture.until(build.id, (row) => row.status === "completed" || row.status === "failed");
    expect([done.status, done.reason]).toEqual(["completed", null]);
    expect(await fixture.git("show", "main:c")).toBe("better\n");
    expect(await main()).toEqual(["a", "b", "c", "d", "gone"]);
    expect(await fixture.tasks(build.id)).toMatchObject({ a: "completed", gone: "removed" });
    expect((await fixture.app.store.tasks.get({ buildId: build.id, key: "a" })).attempts).toBe(1);
  });

  it("edits the plan of a blocked wave: gates run again, or its tasks do", async () => {
    const plan = (command: string, run: string) => ({ gates: { testing: { command } }, tasks: [{ id: "a", run }] });
    const ok = "echo 1..1; echo ok 1 - fine";
    const gates = await fixture.build(plan("exit 1", "echo a > a"));
    expect(gates.status).toBe("failed");
    await editPlan(ports(), gates.id, planOf(plan(ok, "echo a > a")));
    expect((await fixture.until(gates.id, (row) => row.status !== "running")).status).toBe("completed");
    expect((await fixture.app.store.tasks.get({ buildId: gates.id })).attempts).toBe(1);
    const tasks = await fixture.build(plan(`test $(cat a) = good && { ${ok}; }`, "echo bad > a"));
    expect(tasks.status).toBe("failed");
    await editPlan(ports(), tasks.id, planOf(plan(`test $(cat a) = good && { ${ok}; }`, "echo good > a")));
    expect((await fixture.until(tasks.id, (row) => row.status !== "running")).status).toBe("completed");
    expect(await fixture.git("show", "main:a")).toBe("good\n");
  });

  it("edits no plan while the build runs, or waits for its turn", async () => {
    const edited = planOf({ tasks: two });
    const { builds, projects } = ports().store;
    const buildId = await fixture.request({ tasks: [{ id: "a", run: "sleep 1; echo a > a" }] });
    await fixture.until(buildId, ({ status }) => status === "running");
    await expect(editPlan(ports(), buildId, edited)).rejects.toThrow("is running: its plan cannot be edited now");
    const { tenantId, sandboxDriver, network, plan } = await fixture.until(buildId);
    // It belongs to another project, so that nothing here takes it over.
    await projects.insertIfAbsent({ id: "proj_other", tenantId, name: "other" });
    const queued = { id: "bld_other", eventId: "other", projectId: "proj_other", status: "queued" as const };
    await builds.insertIfAbsent({ ...queued, tenantId, sandboxDriver, network, plan });
    await expect(editPlan(ports(), queued.id, edited)).rejects.toThrow("is queued: its plan cannot be edited now");
  });
});
