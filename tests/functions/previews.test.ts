import { beforeEach, describe, expect, it } from "vitest";
import { retryBuild } from "../../src/coordinator/build/retry-build.ts";
import { rollbackBuild } from "../../src/coordinator/build/rollback-build.ts";
import { requestCancel } from "../../src/coordinator/build/stop/cancel-build.ts";
import { deployPreview, stopPreview } from "../../src/coordinator/preview/preview.ts";
import { WavesmithError } from "../../src/domain/errors.ts";
import { eachBuildFixture } from "../support/build-fixture.ts";

const serve = `node -e "require('http').createServer((q,s)=>s.end('up')).listen(process.env.PORT,'127.0.0.1')"`;
// Once shown, the preview is next to the caches of its own sandbox; a gate boots it in a tree that
// is not.
const diesOnce = "if [ -d ../cache ] && mkdir ../cache/died 2> /dev/null; then exit 1; fi";

describe("a preview", () => {
  let atPoint: (name: string) => void | Promise<void> = () => undefined;
  beforeEach(() => {
    atPoint = () => undefined;
  });
  const fixture = eachBuildFixture({ crashPoint: (name) => atPoint(name) });

  const statusOf = async (buildId: string) => (await fixture.app.store.previews.find({ buildId }))?.status ?? null;
  const jobsOf = () => fixture.app.store.jobs.list({ ownerKind: "preview" }, { by: "createdAt" });
  const plan = (id: string) => ({ preview: { command: serve }, tasks: [{ id, run: `echo ${id} > ${id}` }] });

  it("gives way to the preview of a later build", async () => {
    const first = await fixture.build(plan("a"));
    await fixture.until(first.id, async () => (await statusOf(first.id)) === "ready");
    const second = await fixture.build(plan("b"));
    expect([second.status, second.reason]).toEqual(["completed", null]);
    await fixture.until(second.id, async () => (await statusOf(second.id)) === "ready");
    expect(await statusOf(first.id)).toBe("stopped");
    const running = await fixture.app.store.jobs.list({ ownerKind: "preview", status: "running" });
    expect(running.map((job) => job.buildId)).toEqual([second.id]);
  });

  it("adds nothing to the duration of its gate, which boots it beside the checks", async () => {
    const tasks = [{ id: "a", run: "echo a > a", acceptance: [{ check: "sleep 3" }] }];
    const build = await fixture.build({ preview: { command: serve }, tasks });
    expect(build.status).toBe("completed");
    const run = await fixture.app.store.gateRuns.find({ buildId: build.id, gate: "integration" });
    const took = run!.endedAt!.getTime() - run!.createdAt.getTime();
    expect(run!.evidence!.durationMs).toBeGreaterThanOrEqual(3_000);
    expect(run!.evidence!.durationMs).toBeLessThanOrEqual(took);
  });

  it("is started even if the process that was to start it died between the row and the job", async () => {
    atPoint = (name) => {
      if (name !== "preview-intend.after-commit") return;
      atPoint = () => undefined;
      throw new Error("killed");
    };
    const build = await fixture.build(plan("a"));
    expect(build.status).toBe("completed");
    await fixture.until(build.id, async () => (await statusOf(build.id)) === "ready");
  });

  it("leaves no job behind when the process that was to start it died before the job ran", async () => {
    atPoint = async (name) => {
      if (name !== "jobs.insertIfAbsent.after-commit") return;
      if ((await jobsOf()).length === 0) return;
      atPoint = () => undefined;
      throw new Error("killed");
    };
    const build = await fixture.build(plan("a"));
    await fixture.until(build.id, async () => (await statusOf(build.id)) === "ready");
    expect((await jobsOf()).map((job) => job.status)).toEqual(["ended", "running"]);
  });

  it("is started again after it died, even if the process that noticed died as well", async () => {
    atPoint = async (name) => {
      if (name !== "end-job.after-commit") return;
      if ((await jobsOf()).every((job) => job.status !== "ended")) return;
      atPoint = () => undefined;
      throw new Error("killed");
    };
    const build = await fixture.build({ ...plan("a"), preview: { command: `${diesOnce}; exec ${serve}` } });
    await fixture.until(build.id, async () => (await statusOf(build.id)) === "ready");
    expect((await jobsOf()).map((job) => job.status)).toEqual(["ended", "running"]);
    expect(await fixture.app.store.previews.get({ buildId: build.id })).toMatchObject({ starts: 2, reason: null });
  });

  it("is dead once it has died four times, and says how", async () => {
    const command = `if [ -d ../cache ]; then exit 7; fi; exec ${serve}`;
    const said: (string | null)[] = [];
    atPoint = async (name) => {
      // As the row is until this next start commits.
      if (name === "preview-intend.before-commit")
        said.push((await fixture.app.store.previews.find({}))?.reason ?? null);
    };
    const build = await fixture.build({ ...plan("a"), preview: { command } });
    await fixture.until(build.id, async () => (await statusOf(build.id)) === "dead");
    const { reason, starts } = await fixture.app.store.previews.get({ buildId: build.id });
    expect([reason, starts]).toEqual(["it failed 4 times, last: preview ended before the job did (exit 7)", 4]);
    const failed = (start: number) => `start ${start} of 4 failed: preview ended before the job did (exit 7)`;
    expect([...new Set(said)]).toEqual([null, failed(1), failed(2), failed(3)]);
    expect((await jobsOf()).map((job) => job.status)).toEqual(["ended", "ended", "ended", "ended"]);
  });

  it("says why it cannot be started, and the next wave's preview is started", async () => {
    atPoint = (name) => {
      if (name === "preview-intend.before-commit") throw new WavesmithError("conflict", "there is no port left");
    };
    const first = await fixture.build(plan("a"));
    expect(first.status).toBe("completed");
    await fixture.until(first.id, async () => (await statusOf(first.id)) === "dead");
    const { reason } = await fixture.app.store.previews.get({ buildId: first.id });
    expect(reason).toBe("it could not start: there is no port left");
    atPoint = () => undefined;
    const second = await fixture.build(plan("b"));
    await fixture.until(second.id, async () => (await statusOf(second.id)) === "ready");
  });

  it("stays stopped when its request is delivered again", async () => {
    const build = await fixture.build(plan("a"));
    await fixture.until(build.id, async () => (await statusOf(build.id)) === "ready");
    await stopPreview(fixture.app.ports, build.id, "it is enough");
    await deployPreview(fixture.app.ports, build.id, 1);
    await fixture.until(build.id, async () => (await jobsOf()).every((job) => job.status === "ended"));
    expect(await fixture.app.store.previews.get({ buildId: build.id })).toMatchObject({ status: "stopped", starts: 1 });
    expect(await jobsOf()).toHaveLength(1);
  });

  /**
   * A completed build whose preview is being started and waits, and a function that lets it go on
   * and waits until it answers.
   */
  async function heldBack(): Promise<{ buildId: string; goOn: () => Promise<void> }> {
    let goOn = (): void => undefined;
    const held = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    let isHeld = false;
    atPoint = async (name) => {
      if (name !== "preview-intend.before-commit") return;
      if ((await fixture.app.store.builds.find({ status: "completed" })) === null) return;
      isHeld = true;
      await held;
    };
    const { id: buildId } = await fixture.build(plan("a"));
    await fixture.until(buildId, () => isHeld);
    return {
      buildId,
      goOn: async () => {
        goOn();
        await fixture.until(buildId, async () => (await statusOf(buildId)) === "ready");
      },
    };
  }
  const allEnded = async () => (await jobsOf()).every((job) => job.status === "ended");

  it("is not left shown if it starts during a rollback", async () => {
    const { buildId, goOn } = await heldBack();
    atPoint = async (name) => {
      if (name === "workspace.moveRef.rescue.before") await goOn();
    };
    await rollbackBuild(fixture.app.ports, buildId, 0);
    await fixture.until(buildId, allEnded);
    expect(await statusOf(buildId)).toBe("stopped");
    expect(await jobsOf()).toHaveLength(1);
  });

  it("ends if it is started during a rollback, even if the process that rolled back died right after", async () => {
    const { buildId, goOn } = await heldBack();
    atPoint = async (name) => {
      if (name === "workspace.moveRef.rescue.before") await goOn();
      if (name === "rollback-build.after-commit") throw new Error("killed");
    };
    await expect(rollbackBuild(fixture.app.ports, buildId, 0)).rejects.toThrow("killed");
    await fixture.until(buildId, allEnded);
    expect(await statusOf(buildId)).toBe("stopped");
  });

  it("does not run when its request comes again if it was stopped between its row and its job", async () => {
    atPoint = async (name) => {
      if (name !== "preview-intend.after-commit") return;
      atPoint = () => undefined;
      const { buildId } = await fixture.app.store.previews.get({ status: "starting" });
      await rollbackBuild(fixture.app.ports, buildId, 0);
      throw new Error("killed");
    };
    const buildId = await fixture.request(plan("a"));
    await fixture.until(buildId, async (build) => build.status === "waiting" && (await allEnded()));
    expect(await statusOf(buildId)).toBe("stopped");
  });

  it("is shown after a retry of a build that was cancelled during its last delivery", async () => {
    const buildId = await fixture.request(plan("a"));
    atPoint = async (name) => {
      if (name !== "workspace.moveRef.main.before") return;
      atPoint = () => undefined;
      await requestCancel(fixture.app.ports, buildId, "enough");
    };
    expect((await fixture.until(buildId)).status).toBe("cancelled");
    expect(await fixture.app.store.waves.get({ buildId })).toMatchObject({ status: "passed" });
    await retryBuild(fixture.app.ports, buildId);
    expect((await fixture.until(buildId)).status).toBe("completed");
    await fixture.until(buildId, async () => (await statusOf(buildId)) === "ready");
  });
});
