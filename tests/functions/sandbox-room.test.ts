import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Ports } from "../../src/coordinator/port.ts";
import { ensureSandbox } from "../../src/sandbox-lifecycle/ensure-sandbox.ts";
import { createSandboxReconciler } from "../../src/sandbox-lifecycle/upkeep/reconcile-sandboxes.ts";
import type { BuildRow } from "../../src/store/port.ts";
import { createLifecycle, failureOf, type Lifecycle, minute } from "../support/lifecycle-fixture.ts";

let life: Lifecycle;
beforeEach(async () => {
  life = await createLifecycle();
});
afterEach(() => life.close());

/** A project whose build has ended, and whose sandbox has been idle since. */
async function idleProject(name: string): Promise<BuildRow> {
  const build = await life.build(name);
  await life.start(build);
  await life.ports().store.builds.update({ id: build.id }, { status: "failed", endedAt: new Date() });
  return build;
}

async function idleProjects(...names: string[]): Promise<BuildRow[]> {
  const builds: BuildRow[] = [];
  for (const name of names) {
    builds.push(await idleProject(name));
    life.pass(minute);
  }
  return builds;
}

const stops = () => life.host.calls.filter((call) => call.startsWith("stop"));
const isFull = { maxRunningPerTenant: 2 };

describe("room that idle sandboxes hold", () => {
  it("does not count processors: the ninth project starts at once, and nobody is stopped for it", async () => {
    await idleProjects("a", "b", "c", "d", "e", "f", "g", "h");
    const ports = { ...life.ports({ policy: { cpuOvercommit: 8 } }), processors: 2 };
    await ensureSandbox(ports, await life.build("ninth"));
    expect(life.host.mostRunning).toBe(9);
    expect(stops()).toEqual([]);
  });

  it("counts processors again as soon as jobs run", async () => {
    const builds = await idleProjects("a", "b");
    const ports = { ...life.ports({ policy: { cpuOvercommit: 1 } }), processors: 4 };
    const third = await life.build("third");
    for (const { id } of builds) await ports.store.builds.update({ id }, { status: "running", endedAt: null });
    expect((await failureOf(ensureSandbox(ports, third))).message).toContain(
      "the 2 at work may use 4 of 4 processors to be promised",
    );
    await ports.store.builds.update({ id: builds[0]!.id }, { status: "waiting" });
    await ensureSandbox(ports, third);
  });

  it("goes to a project that asks, starting with the sandbox that has been idle longest", async () => {
    const [older, newer] = await idleProjects("older", "newer");
    await ensureSandbox(life.ports({ policy: isFull }), await life.build("third"));
    expect(stops()).toEqual(["stop proj_older"]);
    expect(await life.row(older!.projectId)).toMatchObject({ state: "stopped", reason: "its slot was needed" });
    expect(await life.row(newer!.projectId)).toMatchObject({ state: "running" });
    expect(life.host.volumes.has("proj_older")).toBe(true);
    expect(await life.eventTexts()).toContain("sandbox/stopped: its slot was needed");
  });

  it("is given back one sandbox after the other until there is enough memory", async () => {
    await idleProjects("a", "b", "c");
    life.room.memoryBytes = 0;
    life.host.meanwhile = (call) => {
      if (call.startsWith("stop")) life.room.memoryBytes += 256 * 1024 ** 2;
    };
    await ensureSandbox(life.ports(), await life.build("fourth"));
    expect(stops()).toEqual(["stop proj_a", "stop proj_b"]);
  });

  it("is not taken when the disk is full, because no stop helps with that", async () => {
    await idleProjects("a");
    life.room.diskBytes = 0;
    expect((await failureOf(ensureSandbox(life.ports(), await life.build("second")))).message).toMatch(/disk are left/);
    expect(stops()).toEqual([]);
  });

  it("is kept while a job runs in the sandbox, it was just used, or its build runs", async () => {
    const ports = life.ports({ policy: { maxRunningPerTenant: 3 } });
    const [command, between] = await idleProjects("command", "between");
    life.host.sandboxes.get(command!.projectId)!.activeJobs = 1;
    await ports.store.builds.update({ id: between!.id }, { status: "running", endedAt: null });
    await idleProject("recent");
    const error = await failureOf(ensureSandbox(ports, await life.build("fourth")));
    expect(error).toMatchObject({ code: "capacity", retryable: true });
    expect(error.remedy).toContain("WAVESMITH_SANDBOX_MAX");
    expect(stops()).toEqual([]);
  });

  it("is not taken from another tenant for a tenant's own limit", async () => {
    await life.start(await life.build("foreign", "b"));
    await life.ports().store.builds.update({ id: "bld_foreign" }, { status: "failed", endedAt: new Date() });
    life.pass(minute);
    await life.start(await life.build("own"));
    await failureOf(ensureSandbox(life.ports({ policy: { maxRunningPerTenant: 1 } }), await life.build("second")));
    expect(stops()).toEqual([]);
  });
});

describe("a sandbox that is to be stopped for another project", () => {
  /** Ports that call `act` right before the decision to stop `projectId`. */
  function beforeStop(projectId: string, act: () => Promise<unknown>): Ports {
    const ports = life.ports({ policy: isFull });
    const alone: typeof ports.store.alone = async (name, work, options) => {
      if (name === `sandbox ${projectId}`) await act();
      return ports.store.alone(name, work, options);
    };
    return { ...ports, store: { ...ports.store, alone } };
  }

  it.each([
    ["is used", (build: BuildRow) => ensureSandbox(life.ports({ other: true }), build)],
    [
      "has a build that begins to run",
      ({ id }: BuildRow) =>
        life.ports({ other: true }).store.builds.update({ id }, { status: "running", endedAt: null }),
    ],
    [
      "gets work that only its guest knows",
      async ({ projectId }: BuildRow) => Object.assign(life.host.sandboxes.get(projectId)!, { activeJobs: 1 }),
    ],
  ])("is kept when it %s in that moment, and the next one is stopped", async (_, act) => {
    const [older] = await idleProjects("older", "newer");
    const ports = beforeStop("proj_older", () => Promise.resolve(act(older!)));
    await ensureSandbox(ports, await life.build("third"));
    expect(stops()).toEqual(["stop proj_newer"]);
    expect(await life.row(older!.projectId)).toMatchObject({ state: "running", reason: null });
  });

  it("does not keep others from using it if its stop fails, and is ended by the reconciler after a kill", async () => {
    const [older] = await idleProjects("older", "newer");
    life.host.meanwhile = (call) => {
      if (call === "stop proj_older") throw new Error("killed");
    };
    await ensureSandbox(life.ports({ policy: isFull }), await life.build("third"));
    expect(life.warnings.join()).toContain("could not be ended (its slot was needed): killed");
    // Its row says stopped, but it still runs, as after a kill between the two.
    const { id } = await life.row(older!.projectId);
    life.host.meanwhile = () => undefined;
    const reconciler = createSandboxReconciler(life.ports(), ["local"]);
    await reconciler.reconcile();
    life.pass(11 * minute);
    expect((await reconciler.reconcile())!.ended).toEqual([id]);
  });
});

describe("several projects that wait", () => {
  it("stop no more sandboxes than they need, in two processes at once", async () => {
    const policy = { maxRunningPerTenant: 4 };
    await idleProjects("a", "b", "c", "d");
    const waiting = await Promise.all(["x", "y"].map((name) => life.build(name)));
    const asked = waiting.map((build, n) => ensureSandbox(life.ports({ policy, other: n === 1 }), build));
    const results = await Promise.allSettled(asked);
    for (const [n, result] of results.entries())
      if (result.status === "rejected") await ensureSandbox(life.ports({ policy }), waiting[n]!);
    expect(stops()).toEqual(["stop proj_a", "stop proj_b"]);
    expect(life.host.mostRunning).toBe(4);
  });

  it("stop no sandbox for a build while another build has waited longer", async () => {
    const [first, second] = [await life.build("first"), await life.build("second")];
    await idleProjects("a", "b");
    const ports = life.ports({ policy: isFull });
    // Both saw the same running sandboxes before.
    for (const id of ["bld_a", "bld_b"]) await ports.store.builds.update({ id }, { status: "running", endedAt: null });
    await failureOf(ensureSandbox(ports, first));
    for (const id of ["bld_a", "bld_b"])
      await ports.store.builds.update({ id }, { status: "failed", endedAt: new Date() });
    await failureOf(ensureSandbox(ports, second));
    expect(stops()).toEqual([]);
    await ensureSandbox(ports, first);
    await ensureSandbox(ports, second);
    expect(stops()).toEqual(["stop proj_a", "stop proj_b"]);
  });
});
