import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createBuildReader } from "../../src/coordinator/build/read-build.ts";
import { startJob } from "../../src/coordinator/job/job-stages.ts";
import type { Ports } from "../../src/coordinator/port.ts";
import type { SandboxChange } from "../../src/sandbox/port.ts";
import { ensureSandbox } from "../../src/sandbox-lifecycle/ensure-sandbox.ts";
import { restoreSnapshot } from "../../src/sandbox-lifecycle/snapshots/restore-snapshot.ts";
import { takeSnapshot } from "../../src/sandbox-lifecycle/snapshots/snapshots.ts";
import { stopSandbox } from "../../src/sandbox-lifecycle/stop-sandbox.ts";
import { hearSandboxes } from "../../src/sandbox-lifecycle/upkeep/hear-sandboxes.ts";
import { checkSandboxes } from "../../src/sandbox-lifecycle/upkeep/sandbox-health.ts";
import type { BuildRow } from "../../src/store/port.ts";
import { createLifecycle, failureOf, type Lifecycle, memorySnapshots, minute } from "../support/lifecycle-fixture.ts";
import { usualLimits } from "../support/usual-limits.ts";

const mebibyte = 1024 ** 2;
const small = { ...usualLimits, diskBytes: 10 * mebibyte };

let life: Lifecycle;
let build: BuildRow;
beforeEach(async () => {
  life = await createLifecycle();
  build = await life.build("shop");
});
afterEach(() => life.close());

describe("the limits of a sandbox", () => {
  it("come from the settings, are kept with its row, and change with its next start", async () => {
    const before = life.ports({ policy: { limits: { ...usualLimits, cpus: 0.5 } } });
    await ensureSandbox(before, build);
    expect(life.host.limits.get(build.projectId)).toMatchObject({ cpus: 0.5 });
    const after = life.ports({ policy: { limits: small } });
    await ensureSandbox(after, build);
    expect(life.host.limits.get(build.projectId)).toMatchObject({ cpus: 0.5 });
    expect((await life.row(build.projectId)).limits).toMatchObject({ cpus: 0.5 });
    await stopSandbox(after, await life.row(build.projectId));
    await ensureSandbox(after, build);
    expect(life.host.limits.get(build.projectId)).toEqual(small);
    expect((await life.row(build.projectId)).limits).toEqual(small);
  });

  it("also limit the size of an unpacked snapshot", async () => {
    const ports = life.ports({ policy: { limits: small }, snapshots: memorySnapshots() });
    await ensureSandbox(ports, build);
    const snapshot = await takeSnapshot(ports, await life.row(build.projectId), { reason: "asked" });
    await ports.store.builds.update({ id: build.id }, { status: "cancelled", endedAt: new Date() });
    await restoreSnapshot(ports, snapshot);
    expect(life.host.restoredWithin).toBe(10 * mebibyte);
  });
});

describe("a volume above its limit", () => {
  const reason = "its volume takes 11 MiB of at most 10 MiB";
  let ports: Ports;
  beforeEach(async () => {
    ports = life.ports({ policy: { limits: small } });
    await ensureSandbox(ports, build);
    life.host.sandboxes.get(build.projectId)!.activeJobs = 1;
  });
  const check = () => {
    life.pass(minute);
    return checkSandboxes(ports);
  };
  const takes = (mebibytes: number | null) =>
    life.host.volumeBytes.set(build.projectId, mebibytes === null ? null : mebibytes * mebibyte);
  const start = async (key: string) =>
    startJob(ports, await ensureSandbox(ports, build), {
      key,
      build,
      owner: { kind: "attempt", id: `att_${key}`, fence: 1 },
      spec: { stages: [] } as never,
    });

  it("is shown to people, and logged once each time the volume grows above it", async () => {
    const reader = createBuildReader(ports.store, build.id);
    takes(10);
    await check();
    expect((await reader.read()).sandboxTrouble).toBeNull();
    takes(11);
    await check();
    await check();
    const { id } = await life.row(build.projectId);
    expect(await life.row(build.projectId)).toMatchObject({ state: "running", reason });
    expect(await reader.read()).toMatchObject({ sandboxTrouble: reason, waitsForSandbox: null });
    takes(3);
    await check();
    expect(await life.row(build.projectId)).toMatchObject({ state: "running", reason: null });
    takes(12);
    await check();
    expect(life.warnings).toEqual([
      `sandbox ${id}: ${reason}; it accepts no more jobs`,
      `sandbox ${id}: ${reason.replace("11", "12")}; it accepts no more jobs`,
    ]);
  });

  it("lets no more jobs start, names the limit and the remedy, and lets running jobs continue", async () => {
    await start("before");
    await ports.store.jobs.update({ key: "before" }, { status: "ended" });
    takes(11);
    await check();
    const error = await failureOf(start("after"));
    expect(error).toMatchObject({ code: "capacity", retryable: false, retryAfterMs: null });
    expect(error.message).toBe(`the sandbox of shop accepts no more jobs: ${reason}`);
    expect(error.remedy).toContain("wavesmith sandbox exec shop -- sh -c 'rm -rf ../cache/*'");
    expect(life.host.calls).toContain(`remove setup-cache of ${build.projectId}`);
    expect(error.remedy).toContain("WAVESMITH_SANDBOX_DISK");
    expect(await ports.store.jobs.find({ key: "after" })).toBeNull();
    await start("before");
  });

  it("makes a job wait while others run, because their end may free space", async () => {
    await start("first");
    takes(11);
    await check();
    expect(await failureOf(start("second"))).toMatchObject({ retryable: true, retryAfterMs: expect.any(Number) });
    await ports.store.jobs.update({ key: "first" }, { status: "ended" });
    expect(await failureOf(start("second"))).toMatchObject({ retryable: false, retryAfterMs: null });
  });

  it("accepts jobs again as soon as somebody has freed space, before the next check", async () => {
    takes(11);
    await check();
    takes(2);
    await start("after");
    expect(await life.row(build.projectId)).toMatchObject({ state: "running", reason: null });
  });

  it("accepts jobs again after a start with a higher limit", async () => {
    takes(11);
    await check();
    await stopSandbox(ports, await life.row(build.projectId));
    ports = life.ports();
    await start("after");
    await check();
    expect(await life.row(build.projectId)).toMatchObject({ state: "running", reason: null });
  });

  it("is not looked for if the driver enforces the limit, or if nothing has run", async () => {
    life.host.disk = "hard";
    takes(11);
    await check();
    life.host.disk = "watched";
    Object.assign(life.host.sandboxes.get(build.projectId)!, { activeJobs: 0 });
    await check();
    expect(life.host.counted).toBe(0);
    expect(await life.row(build.projectId)).toMatchObject({ reason: null });
  });

  it("is reported once if it cannot be measured in time, and its last size counts", async () => {
    takes(11);
    await check();
    takes(null);
    await check();
    await check();
    expect(await life.row(build.projectId)).toMatchObject({ reason });
    expect(life.warnings.filter((line) => line.includes("could not be counted"))).toHaveLength(1);
  });
});

describe("slots of sandboxes that are gone", () => {
  const policy = { maxRunningPerTenant: 1 };

  it("are free for the next one at once, and the loss is reported", async () => {
    await ensureSandbox(life.ports({ policy }), build);
    life.host.sandboxes.clear();
    await ensureSandbox(life.ports({ policy }), await life.build("other"));
    expect(await life.row(build.projectId)).toMatchObject({ state: "lost", reason: "removed" });
    expect(await life.row("proj_other")).toMatchObject({ state: "running", reason: null });
    expect(await life.eventTexts()).toContain("sandbox/lost: removed");
  });

  it("are free when the process that was to start the sandbox died", async () => {
    const { id } = await life.start(build);
    life.host.sandboxes.clear();
    await life.ports().store.sandboxes.update({ id }, { state: "wanted", reason: null });
    await ensureSandbox(life.ports({ policy }), await life.build("other"));
    expect(await life.row(build.projectId)).toMatchObject({ state: "stopped", reason: /not started/ as never });
  });

  it("stay taken by a sandbox that is being started, and by one that does not answer", async () => {
    const [other, third] = [await life.build("other"), await life.build("third")];
    const seen: (string | null)[] = [];
    life.host.meanwhile = async (call) => {
      if (call !== `start ${build.projectId}`) return;
      seen.push((await failureOf(ensureSandbox(life.ports({ policy }), other))).code);
      seen.push((await failureOf(ensureSandbox(life.ports({ policy, other: true }), third))).code);
    };
    await ensureSandbox(life.ports({ policy }), build);
    expect(seen).toEqual(["capacity", "capacity"]);
    life.host.sandboxes.get(build.projectId)!.isSilent = true;
    expect(await failureOf(ensureSandbox(life.ports({ policy }), other))).toMatchObject({ code: "capacity" });
    expect(await life.row(build.projectId)).toMatchObject({ state: "running" });
  });
});

describe("room that becomes free", () => {
  it("goes to the tenant's oldest waiting build, which blocks nobody once it stops asking", async () => {
    const ports = life.ports({ policy: { maxRunningPerTenant: 1 } });
    const stop = async ({ projectId }: BuildRow) => stopSandbox(ports, await life.row(projectId));
    const [second, third] = [await life.build("second"), await life.build("third")];
    await ensureSandbox(ports, build);
    for (const late of [third, second]) {
      expect(await failureOf(ensureSandbox(ports, late))).toMatchObject({ code: "capacity" });
    }
    await stop(build);
    const early = await failureOf(ensureSandbox(ports, third));
    expect(early).toMatchObject({
      code: "capacity",
      message: expect.stringMatching(/bld_second has been waiting for it longer/),
    });
    await ensureSandbox(ports, second);
    await failureOf(ensureSandbox(ports, third));
    await stop(second);
    life.pass(3 * minute);
    await ensureSandbox(ports, await life.build("fourth"));
  });
});

describe("watching sandboxes", () => {
  it("notices a vanished one at once, even after watches that fail or end, until it is stopped", async () => {
    const { id: sandboxId } = await life.start(build);
    const change: SandboxChange = {
      projectId: build.projectId as never,
      sandboxId: sandboxId as never,
      change: "ended",
    };
    let watches = 0;
    let ended = false;
    let flushes = 0;
    life.host.watch = async function* (signal) {
      watches += 1;
      if (watches === 1) throw new Error("the engine is away");
      if (watches === 2) return;
      yield { ...change, change: "started" };
      Object.assign(life.host.sandboxes.get(build.projectId)!, { state: "stopped", outOfMemory: true });
      for (let times = 0; times < 50; times += 1) yield change;
      await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
      ended = true;
    };
    const ports = life.ports();
    let looks = 0;
    const list: typeof ports.store.sandboxes.list = (...args) => {
      looks += 1;
      return ports.store.sandboxes.list(...args);
    };
    const store = { ...ports.store, sandboxes: { ...ports.store.sandboxes, list } };
    const flush = async () => {
      flushes += 1;
    };
    const hearing = hearSandboxes({ ...ports, store }, { projectIds: new Set([build.projectId]), flush });
    hearing.hear("local");
    hearing.hear("local");
    await expect.poll(() => flushes, { timeout: 60_000 }).toBe(1);
    expect(await life.row(build.projectId)).toMatchObject({ state: "lost", reason: "out of memory" });
    await hearing.stop();
    expect(ended).toBe(true);
    expect({ watches, looks }).toEqual({ watches: 3, looks: 1 });
    expect(life.warnings).toEqual(["local sandboxes are not watched: the engine is away"]);
  });

  it("covers only the projects that this process serves", async () => {
    await life.start(build);
    const other = await life.build("other");
    await life.start(other);
    life.host.sandboxes.clear();
    life.host.watch = async function* (signal) {
      for (const { projectId } of [build, other])
        yield { projectId: projectId as never, sandboxId: "sbx_any" as never, change: "removed" };
      await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
    };
    const hearing = hearSandboxes(life.ports(), {
      projectIds: new Set([other.projectId]),
      flush: async () => undefined,
    });
    hearing.hear("local");
    await expect.poll(async () => (await life.row(other.projectId)).state, { timeout: 60_000 }).toBe("lost");
    await hearing.stop();
    expect(await life.row(build.projectId)).toMatchObject({ state: "running" });
  });
});
