import { describe, expect, it } from "vitest";
import { requestCancel } from "../../src/coordinator/build/cancel-build.ts";
import { retryBuild } from "../../src/coordinator/build/retry-build.ts";
import { rollbackBuild } from "../../src/coordinator/build/rollback-build.ts";
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

  it("does its tasks again after a cancel and a retry, and brings nothing back that was taken back", async () => {
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

  it("is refused beside another build of the project, and main stays where it is", async () => {
    const first = await fixture.build(plan);
    const second = await fixture.request({ tasks: [{ id: "slow", run: "sleep 300" }] });
    await fixture.until(second, (row) => row.status === "running" && row.headSha !== null);
    const before = await main();
    await expect(rollbackBuild(ports(), first.id, 1)).rejects.toThrow("is not over");
    expect(await main()).toBe(before);
    await requestCancel(ports(), second, "enough");
    await fixture.until(second);
  });
});
