import { describe, expect, it } from "vitest";
import { resumeBuild } from "../../src/coordinator/build/resume-build.ts";
import { retryBuild } from "../../src/coordinator/build/retry-build.ts";
import { rollbackBuild } from "../../src/coordinator/build/rollback-build.ts";
import { requestCancel } from "../../src/coordinator/build/stop/cancel-build.ts";
import { undoRollback } from "../../src/coordinator/build/undo-rollback.ts";
import { eachBuildFixture } from "../support/build-fixture.ts";

describe("a build that was rolled back", () => {
  const fixture = eachBuildFixture();

  const ports = () => fixture.app.ports;
  const main = async () => (await fixture.git("rev-parse", "main")).trim();
  const plan = {
    tasks: [
      { id: "a", run: "echo a > a" },
      { id: "b", dependsOn: ["a"], run: "if test -e ../../../cache/again; then echo 2 > b; else echo 1 > b; fi" },
    ],
  };

  it("does its tasks again after a cancel and a retry, without the work that was rolled back", async () => {
    const build = await fixture.build(plan);
    await rollbackBuild(ports(), build.id, 1);
    await requestCancel(ports(), build.id, "later");
    expect((await fixture.until(build.id)).status).toBe("cancelled");
    const { guest } = (await ports()
      .driver(build.sandboxDriver)
      .find(fixture.projectId as never))!;
    await guest.writeFile("cache/again", "");
    await retryBuild(ports(), build.id);
    const again = await fixture.until(build.id);
    expect([again.status, again.reason]).toEqual(["completed", null]);
    expect(await fixture.git("show", "main:b")).toBe("2\n");
    const history = await fixture.git("rev-list", "main");
    expect(history).not.toContain(build.headSha!);
  });

  it("is not retried beside another build of the project, and main stays where it is", async () => {
    const first = await fixture.build(plan);
    const second = await fixture.request({ tasks: [{ id: "slow", run: "sleep 300" }] });
    await fixture.until(second, (row) => row.status === "running" && row.headSha !== null);
    const before = await main();
    await expect(rollbackBuild(ports(), first.id, 1)).rejects.toThrow("has not ended");
    expect(await main()).toBe(before);
    await requestCancel(ports(), second, "enough");
    await fixture.until(second);
  });

  it("is as it was once the rollback is undone, and another build of the project may follow", async () => {
    const build = await fixture.build(plan);
    await rollbackBuild(ports(), build.id, 1);
    await rollbackBuild(ports(), build.id, 1);
    await undoRollback(ports(), build.id);
    const again = await fixture.app.store.builds.get({ id: build.id });
    expect({ ...again, epoch: 0, movedAt: null }).toEqual({ ...build, epoch: 0, movedAt: null });
    expect(await main()).toBe(build.headSha);
    expect(await fixture.tasks(build.id)).toEqual({ a: "completed", b: "completed" });
    await expect(undoRollback(ports(), build.id)).rejects.toThrow("no longer where its rollback left it");
    const next = await fixture.build({ tasks: [{ id: "c", run: "cat b > c" }] });
    expect([next.status, await fixture.git("show", "main:c")]).toEqual(["completed", "1\n"]);
  });

  it("can be retried from its failed wave after the rollback is undone", async () => {
    const run = "test -e ../../../cache/again && echo 2 > b";
    const build = await fixture.build({ tasks: [plan.tasks[0]!, { id: "b", dependsOn: ["a"], run }] });
    expect(build.status).toBe("failed");
    await rollbackBuild(ports(), build.id, 0);
    await undoRollback(ports(), build.id);
    expect(await fixture.app.store.builds.get({ id: build.id })).toMatchObject({
      status: "failed",
      reason: build.reason,
      headSha: build.headSha,
    });
    const { guest } = (await ports()
      .driver(build.sandboxDriver)
      .find(fixture.projectId as never))!;
    await guest.writeFile("cache/again", "");
    await retryBuild(ports(), build.id);
    expect((await fixture.until(build.id)).status).toBe("completed");
    expect(await fixture.git("show", "main:a", "main:b")).toBe("a\n2\n");
  });

  it("stays rolled back if it went on, or if somebody moved main", async () => {
    const build = await fixture.build(plan);
    await expect(undoRollback(ports(), build.id)).rejects.toThrow("was not rolled back");
    await rollbackBuild(ports(), build.id, 1);
    const back = await main();
    const tree = (await fixture.git("rev-parse", "main^{tree}")).trim();
    const identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"];
    const moved = (await fixture.git(...identity, "commit-tree", "-p", back, "-m", "By hand", tree)).trim();
    await fixture.git("update-ref", "refs/heads/main", moved);
    await expect(undoRollback(ports(), build.id)).rejects.toMatchObject({
      message: expect.stringContaining("somebody moved it after the rollback"),
      remedy: expect.stringContaining(`refs/rescue/${build.id}/${build.headSha}`),
    });
    expect(await main()).toBe(moved);
    await fixture.git("update-ref", "refs/heads/main", back);
    await resumeBuild(ports(), build.id);
    await fixture.until(build.id);
    const after = await main();
    await expect(undoRollback(ports(), build.id)).rejects.toThrow("no longer where its rollback left it");
    expect(await main()).toBe(after);
  });
});
