import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ensureSandbox } from "../../src/sandbox-lifecycle/ensure-sandbox.ts";
import { withSandboxAlone } from "../../src/sandbox-lifecycle/sandbox-locks.ts";
import { removeSandbox, stopSandbox } from "../../src/sandbox-lifecycle/stop-sandbox.ts";
import { stopIdleSandboxes } from "../../src/sandbox-lifecycle/upkeep/idle-sandboxes.ts";
import { createSandboxReconciler } from "../../src/sandbox-lifecycle/upkeep/reconcile-sandboxes.ts";
import { checkSandboxes } from "../../src/sandbox-lifecycle/upkeep/sandbox-health.ts";
import {
  createLifecycle,
  type FakeSandbox,
  failureOf,
  hour,
  type Lifecycle,
  minute,
} from "../support/lifecycle-fixture.ts";

let life: Lifecycle;
beforeEach(async () => {
  life = await createLifecycle();
});
afterEach(() => life.close());

describe("a sandbox's life", () => {
  it("is recorded in events: creation, start, stop and restart, each once, with the reason", async () => {
    const build = await life.build("shop");
    await life.start(build);
    await life.start(build);
    const sandbox = await life.row(build.projectId);
    await stopSandbox(life.ports(), sandbox);
    await stopSandbox(life.ports(), sandbox);
    await life.start(build);
    expect(await life.eventTexts()).toEqual([
      "sandbox/created",
      "sandbox/started",
      "sandbox/stopped: stopped on request",
      "sandbox/started",
    ]);
    const rows = await life.ports().store.outbox.list({}, { by: "seq" });
    expect(rows[0]).toMatchObject({
      eventId: `sandbox/created:${sandbox.id}:0`,
      buildId: build.id,
      data: { tenantId: build.tenantId, projectId: build.projectId, buildId: build.id, sandboxId: sandbox.id },
    });
  });

  it("is recorded even when no build is running", async () => {
    const build = await life.build("shop");
    const sandbox = await life.start(build);
    await life.ports().store.builds.update({ id: build.id }, { status: "cancelled", endedAt: new Date() });
    await removeSandbox(life.ports(), sandbox, { volume: false });
    const rows = await life.ports().store.outbox.list({ name: "sandbox/stopped" });
    expect(rows).toMatchObject([{ buildId: null, projectId: build.projectId, data: { reason: "removed on request" } }]);
    expect(await life.row(build.projectId)).toMatchObject({ state: "removed", reason: "removed on request" });
  });

  it("yields one sandbox when many ask for it at once in two processes", async () => {
    const build = await life.build("shop");
    const asked = [0, 1, 2, 3, 4, 5].map((n) => ensureSandbox(life.ports({ other: n % 2 === 0 }), build));
    const boots = new Set((await Promise.all(asked)).map(({ bootId }) => bootId));
    expect(boots.size).toBe(1);
    expect(life.host.calls).toEqual([`start ${build.projectId}`]);
    expect(await life.eventTexts()).toEqual(["sandbox/created", "sandbox/started"]);
  });
});

describe("the health of sandboxes", () => {
  it.each([
    ["ended", (sandbox: { state: string }) => Object.assign(sandbox, { state: "stopped" })],
    ["out of memory", (sandbox: object) => Object.assign(sandbox, { state: "stopped", outOfMemory: true })],
    ["removed", () => life.host.sandboxes.clear()],
  ])("says of one that is gone that it is lost, and why: %s", async (reason, befall) => {
    const build = await life.build("shop");
    const { id } = await life.start(build);
    befall(life.host.sandboxes.get(build.projectId)!);
    expect(await checkSandboxes(life.ports())).toEqual({ checked: 1, lost: 1 });
    expect(await checkSandboxes(life.ports({ other: true }))).toEqual({ checked: 0, lost: 0 });
    expect(await life.row(build.projectId)).toMatchObject({ id, state: "lost", reason });
    expect((await life.eventTexts()).at(-1)).toBe(`sandbox/lost: ${reason}`);
    expect(life.host.calls).toEqual([`start ${build.projectId}`]); // starts nothing
    await life.start(build);
    expect((await life.eventTexts()).at(-1)).toBe("sandbox/started");
    expect(await life.row(build.projectId)).toMatchObject({ id, state: "running", reason: null });
  });

  it("is also noticed by the next use, with the reason", async () => {
    const build = await life.build("shop");
    await life.start(build);
    Object.assign(life.host.sandboxes.get(build.projectId)!, { state: "stopped", outOfMemory: true });
    await life.start(build);
    expect((await life.eventTexts()).slice(-2)).toEqual(["sandbox/lost: out of memory", "sandbox/started"]);
  });

  it("is bad only after minutes of silence", async () => {
    const build = await life.build("shop");
    await life.start(build);
    life.host.sandboxes.get(build.projectId)!.isSilent = true;
    for (let looks = 1; looks <= 2; looks += 1) {
      life.pass(minute);
      expect(await checkSandboxes(life.ports())).toEqual({ checked: 1, lost: 0 });
    }
    life.pass(minute);
    expect(await checkSandboxes(life.ports())).toEqual({ checked: 1, lost: 1 });
    expect((await life.eventTexts()).at(-1)).toBe("sandbox/lost: does not answer: no answer");
  });

  it("records when it was checked and when a job last ran", async () => {
    const build = await life.build("shop");
    await life.start(build);
    life.host.sandboxes.get(build.projectId)!.activeJobs = 1;
    life.pass(3 * hour);
    await checkSandboxes(life.ports());
    const now = life.ports().clock.now();
    expect(await life.row(build.projectId)).toMatchObject({ checkedAt: now, usedAt: now });
  });
});

describe("an idle sandbox", () => {
  const idle = (options = {}) => stopIdleSandboxes(life.ports(options));
  const befall = (what: Partial<FakeSandbox>) => Object.assign(life.host.sandboxes.get("proj_shop")!, what);

  it("is stopped after its time, and its next use starts it again with all its files", async () => {
    const build = await life.build("shop");
    const { id } = await life.start(build);
    life.host.volumes.set(build.projectId, "files");
    life.pass(2 * hour - minute);
    expect(await idle()).toEqual({ stopped: [], removed: [] });
    life.pass(minute);
    expect(await idle()).toEqual({ stopped: [id], removed: [] });
    expect(await life.row(build.projectId)).toMatchObject({ state: "stopped", reason: "idle" });
    expect((await life.eventTexts()).at(-1)).toBe("sandbox/stopped: idle");
    await life.start(build);
    expect(life.host.volumes.get(build.projectId)).toBe("files");
    expect((await life.eventTexts()).at(-1)).toBe("sandbox/started");
  });

  it("is never stopped if the setting says so", async () => {
    await life.start(await life.build("shop"));
    life.pass(1000 * hour);
    expect(await idle({ policy: { idleMs: null } })).toEqual({ stopped: [], removed: [] });
  });

  it.each([
    ["a job of the guest", async () => befall({ activeJobs: 1 })],
    ["work in it that no job is", async () => befall({ workedAt: life.ports().clock.now().getTime() + 3 * hour })],
    [
      "a job of the database",
      async () =>
        void (await life.ports().store.jobs.insert({
          key: "j",
          buildId: "bld_shop",
          projectId: "proj_shop",
          ownerKind: "gate",
          ownerId: "bld_shop",
          ownerFence: 1,
          status: "running",
        })),
    ],
  ])("is not idle with %s", async (_, work) => {
    const build = await life.build("shop");
    await life.start(build);
    await work();
    life.pass(3 * hour);
    expect(await idle()).toEqual({ stopped: [], removed: [] });
    expect(await life.row(build.projectId)).toMatchObject({ state: "running" });
    expect(life.host.calls).toEqual(["start proj_shop"]);
  });

  it("is not stopped if it is used first", async () => {
    const build = await life.build("shop");
    const before = await life.start(build);
    life.pass(3 * hour);
    const ports = life.ports();
    // Another process uses it between the look at the row and the decision.
    const list = ports.store.sandboxes.list;
    const late = async (...args: Parameters<typeof list>) => {
      const rows = await list(...args);
      await ensureSandbox(life.ports({ other: true }), build);
      return rows;
    };
    const sandboxes = { ...ports.store.sandboxes, list: late };
    const store = { ...ports.store, sandboxes };
    expect(await stopIdleSandboxes({ ...ports, store })).toEqual({ stopped: [], removed: [] });
    expect(await life.row(build.projectId)).toMatchObject({ state: "running", bootId: before.bootId });
    expect(life.host.calls).toEqual(["start proj_shop"]);
  });

  it("is started again by a use that comes while it is being stopped, but only after the stop", async () => {
    const build = await life.build("shop");
    const before = await life.start(build);
    life.pass(3 * hour);
    let waits = false;
    let using: Promise<{ bootId: string; ran: unknown }> | null = null;
    life.host.meanwhile = async (call) => {
      if (call !== "stop proj_shop" || using !== null) return;
      const ports = life.ports({ other: true });
      const alone: typeof ports.store.alone = (...args) => {
        waits = true;
        return ports.store.alone(...args);
      };
      using = ensureSandbox({ ...ports, store: { ...ports.store, alone } }, build).then(async ({ guest, bootId }) => ({
        bootId,
        ran: await guest.startJob("key", {} as never),
      }));
      // It does not end before we have seen it wait for this stop.
      await expect.poll(() => waits, { timeout: 20_000 }).toBe(true);
    };
    expect((await idle()).stopped).toEqual([before.id]);
    const used = await using!;
    expect(used.bootId).not.toBe(before.bootId);
    expect(life.host.calls).toEqual(["start proj_shop", "stop proj_shop", "start proj_shop"]);
    expect(await life.row(build.projectId)).toMatchObject({ state: "running", bootId: used.bootId });
    expect((await life.eventTexts()).slice(-2)).toEqual(["sandbox/stopped: idle", "sandbox/started"]);
  });

  it("is kept if a job unknown to the database starts in it right before the stop", async () => {
    const build = await life.build("shop");
    const before = await life.start(build);
    life.pass(3 * hour);
    const ports = life.ports();
    const transaction: typeof ports.store.transaction = async (name, work) => {
      const result = await ports.store.transaction(name, work);
      if (name === "sandbox-idle") life.host.sandboxes.get("proj_shop")!.activeJobs = 1;
      return result;
    };
    expect((await stopIdleSandboxes({ ...ports, store: { ...ports.store, transaction } })).stopped).toEqual([]);
    expect(await life.row(build.projectId)).toMatchObject({ state: "running", bootId: before.bootId, reason: null });
    expect(life.host.calls).toEqual(["start proj_shop"]);
  });

  it("is snapshotted first if the setting says so", async () => {
    const build = await life.build("shop");
    await life.start(build);
    life.pass(3 * hour);
    await idle({ policy: { snapshotWhenIdle: true } });
    expect(life.host.calls).toEqual(["start proj_shop", "pack proj_shop", "stop proj_shop"]);
    expect(await life.ports().store.snapshots.list({})).toMatchObject([{ state: "kept", reason: "idle" }]);
  });

  it("has one snapshot when its stop takes two tries, and another after more work", async () => {
    const build = await life.build("shop");
    await life.start(build);
    life.pass(3 * hour);
    const again = { policy: { snapshotWhenIdle: true } };
    const stopHeldBack = () =>
      withSandboxAlone(life.ports({ other: true }), build.projectId, async () => {
        expect(await idle(again)).toEqual({ stopped: [], removed: [] });
      });
    await stopHeldBack();
    life.pass(minute);
    expect((await idle(again)).stopped).toHaveLength(1);
    expect(life.host.calls).toEqual(["start proj_shop", "pack proj_shop", "stop proj_shop"]);

    await life.start(build);
    life.pass(3 * hour);
    await stopHeldBack();
    befall({ workedAt: life.ports().clock.now().getTime() });
    life.pass(3 * hour);
    await idle(again);
    const since = life.host.calls.slice(3);
    expect(since).toEqual(["start proj_shop", "pack proj_shop", "pack proj_shop", "stop proj_shop"]);
  });

  it("is removed at its maximum age, and its volume is kept", async () => {
    const build = await life.build("shop");
    const { id } = await life.start(build);
    life.pass(25 * hour);
    expect(await idle({ policy: { idleMs: null, ttlMs: 24 * hour } })).toEqual({ stopped: [], removed: [id] });
    expect(await life.row(build.projectId)).toMatchObject({ state: "removed", reason: "expired" });
    expect([...life.host.volumes.keys()]).toEqual(["proj_shop"]);
    expect((await life.eventTexts()).at(-1)).toBe("sandbox/stopped: expired");
    expect((await life.start(build)).id).not.toBe(id);
  });
});

describe("room for sandboxes", () => {
  it("is limited for each tenant, however many ask at once in two processes", async () => {
    const builds = await Promise.all(["a", "b", "c", "d", "e", "f"].map((name) => life.build(name)));
    const policy = { maxRunningPerTenant: 2 };
    const asked = builds.map((build, n) => ensureSandbox(life.ports({ policy, other: n % 2 === 0 }), build));
    const results = await Promise.allSettled(asked);
    expect(results.filter(({ status }) => status === "fulfilled")).toHaveLength(2);
    expect(life.host.mostRunning).toBe(2);
    const refused = results.flatMap((result) => (result.status === "rejected" ? [result.reason] : []));
    for (const error of refused)
      expect(error).toMatchObject({ code: "capacity", retryable: true, retryAfterMs: expect.any(Number) });
    // Another tenant has its own limit.
    await ensureSandbox(life.ports({ policy }), await life.build("other", "b"));
    expect(life.host.mostRunning).toBe(3);
  });

  it("is freed when one is stopped, and until then a waiting build says why it waits", async () => {
    const [one, two] = [await life.build("one"), await life.build("two")];
    const ports = life.ports({ policy: { maxRunningPerTenant: 1 } });
    await life.start(one);
    const error = await failureOf(ensureSandbox(ports, two));
    expect(error.message).toBe("no room for another sandbox: 1 of this tenant's sandboxes are running, of at most 1");
    const waits = { state: "wanted", reason: "1 of this tenant's sandboxes are running, of at most 1" };
    expect(await life.row(two.projectId)).toMatchObject(waits);
    // A waiting sandbox takes no slot.
    await stopSandbox(ports, await life.row(one.projectId));
    await ensureSandbox(ports, two);
    expect(await life.row(two.projectId)).toMatchObject({ state: "running", reason: null });
    await failureOf(ensureSandbox(ports, one));
    expect((await life.eventTexts()).filter((name) => name === "sandbox/created")).toHaveLength(2);
  });

  it.each([
    ["memory", { memoryBytes: 500 * 1024 ** 2 }, /memory are left/],
    ["disk", { diskBytes: 100 * 1024 ** 2 }, /disk are left/],
  ])("is what the machine has left of its %s", async (_, room, message) => {
    const build = await life.build("shop");
    Object.assign(life.room, room);
    expect((await failureOf(ensureSandbox(life.ports(), build))).message).toMatch(message);
    expect(life.host.calls).toEqual([]);
  });

  it("counts the memory of sandboxes that have just started, before the machine shows it", async () => {
    life.room.memoryBytes = 3 * 256 * 1024 ** 2; // two, because of the reserve
    const builds = await Promise.all(["a", "b", "c"].map((name) => life.build(name)));
    const results = await Promise.allSettled(builds.map((build) => ensureSandbox(life.ports(), build)));
    expect(results.map(({ status }) => status).sort()).toEqual(["fulfilled", "fulfilled", "rejected"]);
  });

  it("is not promised beyond the processors, but one sandbox may always run", async () => {
    const [one, two] = [await life.build("one"), await life.build("two")];
    const ports = { ...life.ports({ policy: { cpuOvercommit: 1 } }), processors: 1 };
    await ensureSandbox(ports, one);
    expect((await failureOf(ensureSandbox(ports, two))).message).toMatch(/processors/);
  });
});

describe("reconciling database and driver", () => {
  const reconcile = (options = {}) => createSandboxReconciler(life.ports(options), ["local"]).reconcile();

  it("ends a sandbox that runs although it was stopped, after the grace period", async () => {
    const build = await life.build("shop");
    const { id } = await life.start(build);
    await life.ports().store.sandboxes.update({ id }, { state: "stopped", reason: "idle" });
    expect(await reconcile()).toEqual({ ended: [], mended: [] });
    life.pass(11 * minute);
    expect(await reconcile()).toEqual({ ended: [id], mended: [] });
    expect((await life.eventTexts()).at(-1)).toBe("sandbox/stopped: idle");
    expect(life.host.calls.at(-1)).toBe("stop proj_shop");
    expect(await reconcile()).toEqual({ ended: [], mended: [] });
  });

  it("keeps one that was to be stopped if a job runs in it", async () => {
    const build = await life.build("shop");
    const { id } = await life.start(build);
    await life.ports().store.sandboxes.update({ id }, { state: "stopped", reason: "idle" });
    life.host.sandboxes.get("proj_shop")!.activeJobs = 1;
    life.pass(11 * minute);
    await reconcile();
    expect(await life.row(build.projectId)).toMatchObject({ state: "running" });
    expect(life.host.calls).toEqual(["start proj_shop"]);
  });

  it("removes one without a row, after the grace period, but keeps its volume", async () => {
    const build = await life.build("shop");
    await life.start(build);
    const stranger = { ...life.host.sandboxes.get("proj_shop")!, projectId: "proj_gone", sandboxId: "sbx_gone" };
    life.host.sandboxes.set("proj_gone", stranger);
    life.host.volumes.set("proj_gone", "files");
    expect((await reconcile())!.ended).toEqual([]);
    life.pass(11 * minute);
    expect((await reconcile())!.ended).toEqual(["sbx_gone"]);
    expect([...life.host.sandboxes.keys()]).toEqual(["proj_shop"]);
    expect(life.host.volumes.get("proj_gone")).toBe("files");
  });

  it("corrects the row if the process that started the sandbox died, before or after the start", async () => {
    const [one, two] = [await life.build("one"), await life.build("two")];
    const started = await life.start(one);
    const { sandboxes } = life.ports().store;
    await sandboxes.update({ id: started.id }, { state: "wanted", reason: null });
    await life.start(two);
    await sandboxes.update({ projectId: two.projectId }, { state: "wanted", reason: null });
    life.host.sandboxes.delete(two.projectId);
    life.pass(11 * minute);
    expect((await reconcile())!.mended).toHaveLength(2);
    expect(await life.row(one.projectId)).toMatchObject({ state: "running" });
    expect(await life.row(two.projectId)).toMatchObject({ state: "stopped", reason: /not started/ as never });
  });

  it("is done by one process at a time", async () => {
    const build = await life.build("shop");
    const { id } = await life.start(build);
    await life.ports().store.sandboxes.update({ id }, { state: "stopped", reason: "idle" });
    life.pass(11 * minute);
    const both = await Promise.all([reconcile(), reconcile({ other: true })]);
    expect(both.flatMap((one) => one?.ended ?? [])).toEqual([id]);
    expect(life.host.calls.filter((call) => call.startsWith("stop"))).toHaveLength(1);
  });
});
