import { beforeEach, describe, expect, it } from "vitest";
import { startAttemptJob } from "../../src/coordinator/attempt/start-attempt.ts";
import { startGateJob } from "../../src/coordinator/gate/start-gate.ts";
import { editPlan } from "../../src/coordinator/plan/edit-plan.ts";
import { approveWave } from "../../src/coordinator/wave/decide-wave.ts";
import { parsePlanValue } from "../../src/plan/parse-plan.ts";
import type { GuestClient } from "../../src/sandbox/port.ts";
import { eachBuildFixture } from "../support/build-fixture.ts";

// W4, W6: whatever happens between the steps of an operation, it changes nothing that another
// operation has begun. The simulation found these cases.

describe("a step that arrives late or twice", () => {
  let atPoint: (name: string) => void | Promise<void> = () => undefined;
  beforeEach(() => {
    atPoint = () => undefined;
  });
  const fixture = eachBuildFixture({ crashPoint: (name) => atPoint(name) });

  /** Does this once, the first time the point is reached and `ready` returns true. */
  function once(point: string, act: () => Promise<boolean>): void {
    const before = atPoint;
    let isDone = false;
    atPoint = async (name) => {
      await before(name);
      if (name !== point || isDone) return;
      isDone = true;
      isDone = await act();
    };
  }
  const ports = () => fixture.app.ports;
  const guest = async (): Promise<GuestClient> => {
    const { driver } = await ports().store.sandboxes.get({ projectId: fixture.projectId, state: "running" });
    return (await ports()
      .driver(driver)
      .find(fixture.projectId as never))!.guest;
  };
  const until = (holds: () => Promise<boolean>) => expect.poll(holds, { timeout: 20_000 }).toBe(true);

  it("leaves the tree of a running task alone when its request comes twice", async () => {
    once("guest.startJob.after", async () => {
      const attempt = await ports().store.attempts.find({ status: "starting" });
      if (attempt === null) return false;
      await until(async () => (await (await guest()).findJob(attempt.jobKey))?.status === "passed");
      await startAttemptJob(ports(), { attemptId: attempt.id, fence: attempt.fence });
      return true;
    });
    const build = await fixture.build({ tasks: [{ id: "a", run: "echo a > a", retries: 0 }] });
    expect([build.status, build.reason]).toEqual(["completed", null]);
    expect(await fixture.git("show", "main:a")).toBe("a\n");
  });

  it("leaves the tree of a running gate alone when its request comes twice", async () => {
    once("guest.startJob.after", async () => {
      const run = await ports().store.gateRuns.find({ gate: "testing", status: "running" });
      if (run === null) return false;
      const tree = `trees/${run.buildId}/gate-1-testing-1.0`;
      await until(async () => (await (await guest()).stat(`${tree}/made`)) !== null);
      await startGateJob(ports(), { gateRunId: run.id, fence: run.fence });
      await (await guest()).writeFile("signals/go", "");
      return true;
    });
    const wait = "while ! test -e ../../../signals/go; do sleep 0.05; done";
    const build = await fixture.build({
      gates: { testing: { command: `touch made; ${wait}; test -e made && echo 1..1 && echo ok 1 - still there` } },
      tasks: [{ id: "a", run: "echo a > a" }],
    });
    expect([build.status, build.reason]).toEqual(["completed", null]);
  });

  it("starts no job in an empty folder when the volume was lost after its tree was opened", async () => {
    once("workspace.openTree.after", async () => {
      const attempt = await ports().store.attempts.find({ status: "starting" });
      if (attempt === null || attempt.treePath.includes("/a.")) return false;
      const { driver } = await ports().store.sandboxes.get({ projectId: fixture.projectId, state: "running" });
      await ports()
        .driver(driver)
        .remove(fixture.projectId as never, { volume: true });
      return true;
    });
    const build = await fixture.build({
      gates: { testing: false, critic: false, integration: false },
      tasks: [
        { id: "a", run: "echo a > a" },
        { id: "b", dependsOn: ["a"], run: "cat a > b", retries: 0 },
      ],
    });
    expect([build.status, build.reason]).toEqual(["completed", null]);
    expect(await fixture.git("show", "main:b")).toBe("a\n");
  });

  it("asks for a waiting wave again when its plan is edited meanwhile", async () => {
    const plan = { name: "fixture", approval: "final", tasks: [{ id: "a", run: "echo a > a" }] };
    const waiting = await fixture.build(plan);
    expect(waiting.status).toBe("waiting");
    const edited = { ...plan, tasks: [...plan.tasks, { id: "b", run: "echo b > b" }] };
    await editPlan(ports(), waiting.id, parsePlanValue(edited, { baseDir: null, env: {} }).plan!);
    // Wave 1 is no longer the last one; only the wave with `b` waits.
    const again = await fixture.until(waiting.id, async ({ status }) => {
      const wave = await ports().store.waves.find({ buildId: waiting.id, number: 2 });
      return status === "waiting" && wave?.status === "waiting";
    });
    await approveWave(ports(), again.id, { by: null });
    const build = await fixture.until(again.id);
    expect([build.status, build.reason]).toEqual(["completed", null]);
  });
});
