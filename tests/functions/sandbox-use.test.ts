import { existsSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createBuildReader } from "../../src/coordinator/build/read-build.ts";
import { retryBuild } from "../../src/coordinator/build/retry-build.ts";
import { ensureSandbox } from "../../src/sandbox-lifecycle/ensure-sandbox.ts";
import { withSandboxAlone } from "../../src/sandbox-lifecycle/sandbox-locks.ts";
import { restoreSnapshot } from "../../src/sandbox-lifecycle/snapshots/restore-snapshot.ts";
import { takeSnapshot } from "../../src/sandbox-lifecycle/snapshots/snapshots.ts";
import { stopSandbox } from "../../src/sandbox-lifecycle/stop-sandbox.ts";
import { stopIdleSandboxes } from "../../src/sandbox-lifecycle/upkeep/idle-sandboxes.ts";
import { checkSandboxes } from "../../src/sandbox-lifecycle/upkeep/sandbox-health.ts";
import { processesSaying, sleepToken } from "../contract/guest-fixture.ts";
import { type BuildFixture, createBuildFixture } from "../support/build-fixture.ts";

// Decisions about the lifecycle of real sandboxes.

let fixture: BuildFixture;
const ports = () => fixture.app.ports;
const hour = 3_600_000;

const plan = { tasks: [{ id: "one", run: "echo 1 > one.txt" }] };

/** The project's sandbox, idle for as long as a test says. */
async function readySandbox() {
  const build = await fixture.build(plan);
  expect([build.status, build.reason]).toEqual(["completed", null]);
  const { guest, bootId } = await ensureSandbox(ports(), build);
  return { build, guest, bootId, row: await ports().store.sandboxes.get({ projectId: fixture.projectId }) };
}

const later = () => {
  const now = ports().clock.now().getTime() + hour;
  return { ...ports(), clock: { now: () => new Date(now) }, sandboxPolicy: { ...ports().sandboxPolicy, idleMs: 1 } };
};

describe("a sandbox that nobody uses", () => {
  beforeEach(async () => {
    fixture = await createBuildFixture();
  });
  afterEach(() => fixture.close());

  it("is stopped and no longer found, and its next use starts it again with all its files", async () => {
    const { build, guest, bootId, row } = await readySandbox();
    await guest.writeFile("repo/kept.txt", "kept");
    const idle = later();
    await expect.poll(async () => (await stopIdleSandboxes(idle)).stopped, { timeout: 30_000 }).toEqual([row.id]);
    expect(
      await ports()
        .driver(row.driver)
        .find(fixture.projectId as never),
    ).toBeNull();
    await expect(guest.health()).rejects.toMatchObject({ code: "sandbox-unavailable" });
    const again = await ensureSandbox(ports(), build);
    expect(again.bootId).not.toBe(bootId);
    expect(String(await again.guest.readFile("repo/kept.txt"))).toBe("kept");
    expect(String(await again.guest.readFile("repo/one.txt"))).toBe("1\n");
  });

  it("is not stopped while a job runs, and a cancelled job ends alone", async () => {
    const { guest, bootId } = await readySandbox();
    const [one, other] = [sleepToken(), sleepToken()];
    const start = (key: string, token: string) =>
      guest.startJob(key, {
        stages: [
          {
            name: "agent",
            argv: ["sh", "-c", `setsid sleep ${token} & wait`],
            cwd: "repo",
            env: {},
            stdin: null,
            timeoutMs: hour,
            outputLimitBytes: 1000,
          },
        ],
        writable: [],
        labels: {},
      });
    await Promise.all([start("one", one), start("other", other)]);
    const alive = () => [one, other].map((token) => processesSaying(`sleep\0${token}`).length > 0);
    await expect.poll(alive, { timeout: 30_000 }).toEqual([true, true]);
    expect(await stopIdleSandboxes(later())).toEqual({ stopped: [], removed: [] });
    await guest.cancelJob("one", { reason: "asked", graceMs: 100 });
    expect(alive()).toEqual([false, true]);
    expect((await guest.health()).bootId).toBe(bootId);
    await guest.cancelJob("other", { reason: "asked", graceMs: 100 });
  });

  it("is snapshotted, and restored over later changes", async () => {
    const { build, guest, row } = await readySandbox();
    const kept = await takeSnapshot(ports(), row, { reason: "asked" });
    await guest.writeFile("repo/one.txt", "spoilt");
    await guest.writeFile("repo/more.txt", "more");
    await restoreSnapshot(ports(), kept);
    const again = await ensureSandbox(ports(), build);
    expect(String(await again.guest.readFile("repo/one.txt"))).toBe("1\n");
    expect(await again.guest.stat("repo/more.txt")).toBeNull();
  });

  it("is lost when it is killed, which is noticed without a check and reported once", async () => {
    const { row } = await readySandbox();
    process.kill(await outerPid(), "SIGKILL");
    const state = async () => (await ports().store.sandboxes.get({ id: row.id })).state;
    await expect.poll(state, { timeout: 60_000 }).toBe("lost");
    expect(await checkSandboxes(ports())).toEqual({ checked: 0, lost: 0 });
    const losses = await ports().store.outbox.list({ name: "sandbox/lost" });
    expect(losses).toMatchObject([{ data: { reason: "ended" } }]);
  });

  /** The process that the sandbox's record names. */
  async function outerPid(): Promise<number> {
    const { readRecord } = await import("../../src/sandbox/drivers/local/record.ts");
    const { placesOf } = await import("../../src/sandbox/drivers/local/launch.ts");
    return readRecord(placesOf(fixture.app.config.dataDir, fixture.projectId as never).run)!.pid!;
  }
});

describe("a build whose sandbox has no room", () => {
  beforeEach(async () => {
    fixture = await createBuildFixture({ env: { WAVESMITH_SANDBOX_MAX: "1" } });
  });
  afterEach(() => fixture.close());

  it("waits and says so, starts nothing, and continues when there is room", { timeout: 120_000 }, async () => {
    const { store } = ports();
    const first = await fixture.build(plan);
    await stopSandbox(ports(), await store.sandboxes.get({ projectId: fixture.projectId }));
    // Another project's sandbox, which takes the only slot.
    await store.projects.insert({ id: "proj_other", tenantId: first.tenantId, name: "other" });
    const other = { id: "sbx_other", projectId: "proj_other", driver: "local" };
    await store.sandboxes.insert({ ...other, state: "wanted" });
    // Somebody is about to start it.
    let giveUp: () => void = () => undefined;
    const starting = withSandboxAlone(ports(), "proj_other", () => {
      return new Promise<void>((resolve) => {
        giveUp = resolve;
      });
    });
    const buildId = await fixture.request(plan);
    const reader = createBuildReader(store, buildId);
    const why = "1 of this tenant's sandboxes are running, of at most 1";
    await expect.poll(async () => (await reader.read()).waitsForSandbox, { timeout: 60_000 }).toBe(why);
    expect((await store.builds.get({ id: buildId })).status).toBe("running");
    expect(
      await ports()
        .driver(first.sandboxDriver)
        .find(fixture.projectId as never),
    ).toBeNull();
    giveUp();
    await starting;
    expect(await fixture.until(buildId)).toMatchObject({ status: "completed", reason: null });
    expect((await reader.read()).waitsForSandbox).toBeNull();
    expect(await store.sandboxes.get({ id: "sbx_other" })).toMatchObject({ state: "stopped" });
  });
});

describe("a build whose volume is above its limit", () => {
  beforeEach(async () => {
    fixture = await createBuildFixture({ env: { WAVESMITH_SANDBOX_DISK: "10MB" }, patienceMs: 200_000 });
  });
  afterEach(() => fixture.close());

  it("fails before its next job, says why and what to do, and continues once there is room", {
    timeout: 400_000,
  }, async () => {
    const { store } = ports();
    const wait = "until [ -e go ]; do sleep 0.1; done; echo 1 > one.txt";
    const tasks = [
      { id: "one", run: wait },
      { id: "two", run: "echo 2 > two.txt", dependsOn: ["one"] },
    ];
    const buildId = await fixture.request({ tasks });
    const attempt = { buildId, status: "running" } as const;
    await expect.poll(() => store.attempts.find(attempt), { timeout: 100_000 }).not.toBeNull();
    const { treePath } = (await store.attempts.find(attempt))!;
    const build = await store.builds.get({ id: buildId });
    const { guest } = await ensureSandbox(ports(), build);
    await guest.writeFile("cache/big", Buffer.alloc(12 * 1024 ** 2, "x"));
    const trouble = async () => {
      await checkSandboxes(ports());
      return (await createBuildReader(store, buildId).read()).sandboxTrouble;
    };
    const why = /its volume takes 1\d MiB of at most 10 MiB/;
    await expect.poll(trouble, { timeout: 100_000 }).toMatch(why);
    await guest.writeFile(`${treePath}/go`, "");
    expect(await fixture.until(buildId)).toMatchObject({ status: "failed" });
    const two = await store.tasks.find({ buildId, key: "two" });
    expect(two).toMatchObject({ status: "failed", reason: why as never });
    expect(two!.reason).toContain("WAVESMITH_SANDBOX_DISK");
    expect(await store.tasks.find({ buildId, key: "one" })).toMatchObject({ status: "completed" });
    await guest.remove("cache/big");
    await retryBuild(ports(), buildId);
    expect(await fixture.until(buildId)).toMatchObject({ status: "completed", reason: null });
  });
});

describe("an app that has closed", () => {
  it("starts no sandbox for a step that outlived it", async () => {
    const own = await createBuildFixture();
    const { ports, config } = own.app;
    const driver = ports.driver(config.sandboxDriver);
    await own.close();
    const spec = { projectId: own.projectId, sandboxId: "sb_late", tenantId: "default", network: { mode: "none" } };
    const started = driver.ensure({ ...spec, limits: ports.sandboxPolicy.limits } as never);
    await expect(started).rejects.toThrow("this process is ending, so no sandbox is started");
    expect(existsSync(config.dataDir)).toBe(false);
  });
});
