import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { retryBuild } from "../../src/coordinator/build/retry-build.ts";
import { requestCancel } from "../../src/coordinator/build/stop/cancel-build.ts";
import { type BuildFixture, createBuildFixture } from "../support/build-fixture.ts";

// W13. A cancel that races with an end: whichever is committed first counts, and the other changes
// nothing for good. Finished work stays finished, also for a process that takes over.

describe("a cancel that arrives as its target ends", () => {
  let fixture: BuildFixture;
  let atPoint: (name: string) => Promise<void> = async () => undefined;
  beforeAll(async () => {
    fixture = await createBuildFixture({ crashPoint: (name) => atPoint(name) });
  });
  afterAll(async () => {
    await fixture.close();
  });

  const sha = async (ref: string) => (await fixture.git("rev-parse", "--verify", ref)).trim();

  /**
   * Builds one task, and cancels it at this point: before the build goes on or, where the build's
   * row is locked, right after.
   */
  async function cancelAt(point: string): Promise<{ buildId: string; wasInTime: boolean }> {
    const buildId = await fixture.request({
      gates: { testing: { command: "test -e work && echo 1..1 && echo ok 1 - work" } },
      tasks: [{ id: "a", run: `echo ran >> ../../../cache/${point}; echo ${point} > work`, retries: 0 }],
    });
    let asked: Promise<boolean> | null = null;
    atPoint = async (name) => {
      if (name !== point || asked !== null) return;
      asked = requestCancel(fixture.app.ports, buildId, "enough");
      if (!name.endsWith(".before-commit")) await asked;
    };
    await fixture.until(buildId);
    atPoint = async () => undefined;
    expect(asked, `${point} was not reached`).not.toBeNull();
    return { buildId, wasInTime: (await asked)! };
  }

  it.each([
    // The attempt: the cancel comes before its end, while its end is reported, while its work is
    // kept, while it settles.
    { point: "guest.startJob.after", ends: "cancelled", wave: "cancelled" },
    { point: "end-job.before-commit", ends: "cancelled", wave: "cancelled" },
    { point: "workspace.keepTree.after", ends: "cancelled", wave: "cancelled" },
    { point: "settle-attempt.before-commit", ends: "cancelled", wave: "cancelled" },
    // The wave, and its last gate.
    { point: "workspace.join.after", ends: "cancelled", wave: "cancelled" },
    { point: "claim-gate.after-commit", ends: "cancelled", wave: "cancelled" },
    // A wave that has passed is delivered (W3).
    { point: "workspace.moveRef.main.before", ends: "cancelled", wave: "passed" },
    // The build itself.
    { point: "deliver-wave.before-commit", ends: "completed", wave: "passed" },
    { point: "deliver-wave.after-commit", ends: "completed", wave: "passed" },
  ])("at $point: the build is $ends, its wave $wave, and finished work is not done again", async (expected) => {
    const { store, ports } = fixture.app;
    const base = await sha("main").catch(() => null);
    const { buildId, wasInTime } = await cancelAt(expected.point);
    const build = await store.builds.get({ id: buildId });
    const wave = await store.waves.get({ buildId });
    expect({ ends: build.status, wave: wave.status }).toEqual({ ends: expected.ends, wave: expected.wave });
    expect([wasInTime, build.reason]).toEqual(wasInTime ? [true, "enough"] : [false, null]);
    expect(wasInTime).toBe(expected.ends === "cancelled");
    expect(await sha("main")).toBe(expected.wave === "passed" ? wave.headSha : (base ?? build.baseSha));
    const attempt = await store.attempts.get({ buildId });
    if (attempt.commitSha !== null) expect(await sha(`wavesmith/${buildId}/task/a/1`)).toBe(attempt.commitSha);
    if (build.status === "cancelled") {
      await retryBuild(ports, buildId);
      const again = await fixture.until(buildId);
      expect([again.status, again.reason]).toEqual(["completed", null]);
    }
    expect(await fixture.git("show", "main:work")).toBe(`${expected.point}\n`);
    const attempts = await store.attempts.list({ buildId }, { by: "number" });
    expect(attempts, "work that was finished is not done again").toHaveLength(attempt.outcome === "succeeded" ? 1 : 2);
    expect(await store.waves.list({ buildId })).toHaveLength(1);
  });
});
