import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { requestCancel } from "../../src/coordinator/build/stop/cancel-build.ts";
import { forsakenMs } from "../../src/coordinator/wave/sweep-trees.ts";
import { WavesmithError } from "../../src/domain/errors.ts";
import type { GuestClient } from "../../src/sandbox/port.ts";
import { type BuildFixture, createBuildFixture } from "../support/build-fixture.ts";

// However a build ends, its trees, hand-over folders and job records are gone from the volume.

describe("a build that has ended", () => {
  let fixture: BuildFixture;
  let later = 0;
  let atPoint: (name: string) => void | Promise<void> = () => undefined;
  beforeEach(async () => {
    atPoint = () => undefined;
    later = 0;
    fixture = await createBuildFixture({
      crashPoint: (name) => atPoint(name),
      clock: () => new Date(Date.now() + later),
    });
  });
  afterEach(async () => {
    await fixture.close();
  });

  const names = async (guest: GuestClient, path: string): Promise<string[]> =>
    (await guest.list(path).catch(() => [])).map((entry) => entry.path);

  async function left(buildId: string): Promise<string[]> {
    const { guest } = (await fixture.app.ports
      .driver(fixture.app.config.sandboxDriver)
      .find(fixture.projectId as never))!;
    const jobs = (await guest.listJobs()).map((job) => `job ${job.key} ${job.status}`);
    return [
      ...(await names(guest, `trees/${buildId}`)),
      ...(await names(guest, "handover")),
      ...(await names(guest, "keep")),
      ...jobs,
    ];
  }

  async function expectNothingLeft(buildId: string): Promise<void> {
    const deadline = Date.now() + 10_000;
    let last = await left(buildId);
    while (last.length > 0 && Date.now() < deadline) {
      await new Promise((resolve) => setTimeout(resolve, 100));
      last = await left(buildId);
    }
    expect(last).toEqual([]);
  }

  it("left nothing when it completed, with fixes, a critic and retries", async () => {
    const build = await fixture.build({
      agents: {
        fixer: { runtime: "command", command: "cat >/dev/null; echo good > value" },
        critic: { runtime: "command", command: 'cat >/dev/null; echo \'{"findings":[]}\' > "$WAVESMITH_RESULT_FILE"' },
      },
      gates: {
        testing: { command: "echo 1..1; grep -q good value && echo ok 1 || { echo not ok 1 - value; exit 1; }" },
      },
      tasks: [{ id: "a", run: 'echo bad > value; test "$(basename $PWD)" != a.1', retries: 1 }],
    });
    expect([build.status, build.reason]).toEqual(["completed", null]);
    await expectNothingLeft(build.id);
  });

  it("left nothing when it was cancelled while an attempt was being started", async () => {
    let buildId = "";
    atPoint = async (name) => {
      if (name !== "guest.startJob.before") return;
      atPoint = () => undefined;
      await requestCancel(fixture.app.ports, buildId, "at once");
      await fixture.app.reconcile();
    };
    buildId = await fixture.request({ tasks: [{ id: "a", run: "sleep 300" }] });
    expect((await fixture.until(buildId)).status).toBe("cancelled");
    await expectNothingLeft(buildId);
  });

  it("left nothing when it was cancelled while an attempt's tree was just open", async () => {
    let buildId = "";
    atPoint = async (name) => {
      if (name !== "workspace.openTree.after") return;
      atPoint = () => undefined;
      await requestCancel(fixture.app.ports, buildId, "at once");
      await fixture.app.reconcile();
    };
    buildId = await fixture.request({ tasks: [{ id: "a", run: "sleep 300" }] });
    expect((await fixture.until(buildId)).status).toBe("cancelled");
    await expectNothingLeft(buildId);
  });

  it("left nothing when a gate could not be started, and says why it could not", async () => {
    let jobs = 0;
    atPoint = (name) => {
      if (name !== "guest.startJob.before") return;
      jobs += 1;
      if (jobs > 1 && jobs <= 6) throw new Error("no processes to be had");
    };
    const build = await fixture.build({
      agents: {
        critic: { runtime: "command", command: 'cat >/dev/null; echo \'{"findings":[]}\' > "$WAVESMITH_RESULT_FILE"' },
      },
      tasks: [{ id: "a", run: "echo a > a" }],
    });
    expect([build.status, build.reason]).toEqual(["completed", null]);
    expect((await fixture.app.store.gateRuns.get({ buildId: build.id, gate: "critic" })).losses).toBe(1);
    await expectNothingLeft(build.id);
  });

  it("leaves trees that it could not close to the next build of its project, which keeps their work", async () => {
    const refuse = (): never => {
      throw new WavesmithError("conflict", "the disk is out of order");
    };
    atPoint = async (name) => {
      if (name === "workspace.closeTree.before") refuse();
      if (name !== "workspace.keepTree.before") return;
      const again = { number: 2, status: ["running", "finishing"] as const };
      if ((await fixture.app.store.attempts.find(again)) === null) refuse();
    };
    const first = await fixture.build({
      gates: { testing: { command: "echo 1..1; echo ok 1 - fine" } },
      tasks: [{ id: "a", run: "echo made > a" }],
    });
    expect([first.status, first.reason]).toEqual(["completed", null]);
    await expect
      .poll(() => left(first.id), { timeout: 20_000 })
      .toEqual(
        expect.arrayContaining([
          `trees/${first.id}/a.1`,
          `trees/${first.id}/a.2`,
          `trees/${first.id}/gate-1-testing-1.0`,
        ]),
      );
    atPoint = () => undefined;
    const young = await fixture.build({ tasks: [{ id: "b", run: "echo b > b" }] });
    expect(young.status).toBe("completed");
    expect(await left(first.id)).toContain(`trees/${first.id}/a.1`);
    later = forsakenMs;
    const second = await fixture.build({ tasks: [{ id: "c", run: "echo c > c" }] });
    expect([second.status, second.reason]).toEqual(["completed", null]);
    await expectNothingLeft(first.id);
    expect(await fixture.git("show", `wavesmith/${first.id}/task/a/1:a`)).toBe("made\n");
  });
});
