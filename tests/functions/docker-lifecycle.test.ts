import { buffer } from "node:stream/consumers";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Ports } from "../../src/coordinator/port.ts";
import { ensureSandbox } from "../../src/sandbox-lifecycle/ensure-sandbox.ts";
import { stopIdleSandboxes } from "../../src/sandbox-lifecycle/upkeep/idle-sandboxes.ts";
import type { BuildRow } from "../../src/store/port.ts";
import { type BuildFixture, createBuildFixture } from "../support/build-fixture.ts";
import { containerOf } from "../support/docker-harness.ts";
import { requires } from "../support/require.ts";

// The tests of sandbox-lifecycle.test.ts that apply to real containers and a real store of
// snapshots.

const hour = 3_600_000;

describe.runIf(requires("docker"))("a sandbox in Docker that nobody uses", { timeout: 600_000 }, () => {
  let fixture: BuildFixture;
  let build: BuildRow;
  let ports: Ports;
  beforeEach(async () => {
    fixture = await createBuildFixture({ sandbox: "docker", patienceMs: 240_000 });
    const plan = { network: "none", tasks: [{ id: "a", run: "echo a > a" }] };
    build = await fixture.until(await fixture.request(plan));
    expect([build.status, build.reason], fixture.warnings.join("\n")).toEqual(["completed", null]);
    ports = fixture.app.ports;
  }, 300_000);
  afterEach(() => fixture.close(), 300_000);

  const container = () => containerOf(build.projectId as never);
  const policy = (changes: Partial<Ports["sandboxPolicy"]>): Ports => ({
    ...ports,
    sandboxPolicy: { ...ports.sandboxPolicy, idleMs: null, ttlMs: null, ...changes },
  });
  const newest = () =>
    fixture.app.store.sandboxes.find({ projectId: build.projectId }, { by: "createdAt", descending: true });

  it("is stopped after a snapshot and complete after its next start, and a running job keeps it up", async () => {
    const { guest } = await ensureSandbox(ports, build);
    await guest.writeFile("cache/kept", "before");
    const idle = policy({ idleMs: 1, snapshotWhenIdle: true });
    await fixture.until(build.id, async () => (await stopIdleSandboxes(idle)).stopped.length === 1);
    expect(await newest()).toMatchObject({ state: "stopped", reason: "idle" });
    expect((await container().inspect()).State.Running).toBe(false);
    const [snapshot, ...more] = await fixture.app.store.snapshots.list({ projectId: build.projectId });
    expect(more).toEqual([]);
    expect(snapshot).toMatchObject({ state: "kept", reason: "idle" });
    const packed = await buffer(await ports.snapshots.get(snapshot!.id, snapshot!.format, snapshot!.sha256!));
    expect(packed.length).toBe(snapshot!.sizeBytes);

    const again = await ensureSandbox(ports, build);
    expect((await again.guest.readFile("cache/kept"))?.toString()).toBe("before");
    const script = "touch cache/begun; while ! test -e cache/go; do sleep 0.05; done";
    const spec = { cwd: ".", env: {}, writable: ["cache"], timeoutMs: 240_000, maxBytes: 1_000 };
    const busy = again.guest.exec({ ...spec, argv: ["sh", "-c", script] });
    await fixture.until(build.id, async () => (await again.guest.stat("cache/begun")) !== null);
    expect(await stopIdleSandboxes(idle)).toEqual({ stopped: [], removed: [] });
    await again.guest.writeFile("cache/go", "");
    expect(await busy).toMatchObject({ exitCode: 0 });
  });

  it("is removed at its maximum age, and the next one gets its volume", async () => {
    const { guest } = await ensureSandbox(ports, build);
    await guest.writeFile("cache/kept", "before");
    await fixture.until(build.id, async () => (await stopIdleSandboxes(policy({ idleMs: 1 }))).stopped.length === 1);
    const before = await newest();
    expect(await stopIdleSandboxes(policy({ ttlMs: hour }))).toEqual({ stopped: [], removed: [] });
    const later = { ...policy({ ttlMs: hour }), clock: { now: () => new Date(Date.now() + 2 * hour) } };
    expect(await stopIdleSandboxes(later)).toEqual({ stopped: [], removed: [before!.id] });
    expect(await newest()).toMatchObject({ id: before!.id, state: "removed", reason: "expired" });
    expect(
      await container()
        .inspect()
        .catch((error: { statusCode?: number }) => error.statusCode),
    ).toBe(404);
    const next = await ensureSandbox(ports, build);
    expect(next.sandboxId).not.toBe(before!.id);
    expect((await next.guest.readFile("cache/kept"))?.toString()).toBe("before");
  });
});
