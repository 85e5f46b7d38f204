import { describe, expect, it } from "vitest";
import { retryBuild } from "../../src/coordinator/build/retry-build.ts";
import { requestCancel } from "../../src/coordinator/build/stop/cancel-build.ts";
import { eachBuildFixture } from "../support/build-fixture.ts";

describe("the end of a build", () => {
  const fixture = eachBuildFixture();

  it("ends at its time limit even while a gate runs; a retry starts with the full time", async () => {
    const { builds, gateRuns, waves, attempts } = fixture.app.store;
    const buildId = await fixture.request({
      limits: { budget: { wallClock: "10m" } },
      gates: { testing: { command: "test -e ../../../signals/go || sleep 300; echo 1..1; echo ok 1" } },
      tasks: [{ id: "a", run: "echo a > a" }],
    });
    await fixture.until(buildId, async () => (await gateRuns.find({ buildId, status: "running" })) !== null);
    await builds.update({ id: buildId }, { deadlineAt: new Date() });
    const build = await fixture.until(buildId);
    expect(build.status).toBe("failed");
    expect((await waves.get({ buildId })).reason).toContain("time limit");
    const { guest } = (await fixture.app.ports.driver(build.sandboxDriver).find(fixture.projectId as never))!;
    await guest.writeFile("signals/go", "");
    const before = Date.now();
    await retryBuild(fixture.app.ports, buildId);
    const again = await fixture.until(buildId);
    expect(again).toMatchObject({ status: "completed", reason: null });
    expect(again.deadlineAt!.getTime()).toBeGreaterThan(before + 9 * 60_000);
    expect((await attempts.list({ buildId })).length).toBe(1);
  });

  it("lets the next build of the project run, whether it was cancelled or failed", async () => {
    const slow = await fixture.request({ tasks: [{ id: "slow", run: "sleep 300" }] });
    const bad = await fixture.request({ tasks: [{ id: "bad", run: "exit 1", retries: 0 }] });
    const never = await fixture.request({ tasks: [{ id: "never", run: "true", changes: "optional" }] });
    const last = await fixture.request({ tasks: [{ id: "last", run: "echo l > l" }] });
    await fixture.until(slow, (row) => row.status === "running");
    expect(await requestCancel(fixture.app.ports, never, "not this one")).toBe(true);
    await requestCancel(fixture.app.ports, slow, "enough");
    expect((await fixture.until(last)).status).toBe("completed");
    const { builds } = fixture.app.store;
    const ends = await Promise.all([slow, bad, never].map(async (id) => (await builds.get({ id })).status));
    expect(ends).toEqual(["cancelled", "failed", "cancelled"]);
  });

  it("is not held up by gates that become due with a skipped task", async () => {
    const build = await fixture.build({
      onTaskFailure: "continue",
      gates: {
        testing: { command: "echo 1..1; echo ok 1", from: "after-bad" },
        integration: { command: "test -e good", when: "final" },
      },
      tasks: [
        { id: "bad", run: "exit 1", retries: 0 },
        { id: "after-bad", dependsOn: ["bad"], run: "true" },
        { id: "good", run: "echo g > good" },
      ],
    });
    expect([build.status, build.reason]).toEqual(["failed", "failed: bad"]);
    const runs = await fixture.app.store.gateRuns.list({ buildId: build.id }, { by: "createdAt" });
    expect(runs.map((run) => [run.gate, run.verdict])).toEqual([
      ["testing", "not-due"],
      ["critic", "passed"],
      ["integration", "passed"],
    ]);
  });
});
