import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { connectEngine } from "../../src/sandbox/drivers/docker/engine/engine.ts";
import type { BuildRow } from "../../src/store/port.ts";
import { type BuildFixture, createBuildFixture } from "../support/build-fixture.ts";
import { containerOf } from "../support/docker-harness.ts";
import { type OwnEngine, ownDockerd } from "../support/own-dockerd.ts";
import { requires } from "../support/require.ts";

// Docker fails under a build: the running work is lost and repeated, and no retry of a task is
// spent (W4).

const patienceMs = 240_000;

describe.runIf(requires("docker"))("a build in Docker whose parts are lost", { timeout: 600_000 }, () => {
  let fixture: BuildFixture;
  let ownEngine: { readonly engine: OwnEngine; readonly folder: string } | null = null;
  afterEach(async () => {
    await fixture.close();
    await ownEngine?.engine.close();
    if (ownEngine !== null) rmSync(ownEngine.folder, { recursive: true, force: true });
    ownEngine = null;
  }, patienceMs);

  const open = async (env: Record<string, string> = {}) => {
    fixture = await createBuildFixture({ sandbox: "docker", patienceMs, env });
  };
  const guestOf = async (build: BuildRow) =>
    (
      await fixture.app.ports
        .driver(build.sandboxDriver)
        .find(fixture.projectId as never)
        .catch(() => null)
    )?.guest;

  /** Starts a build whose task `slow` waits for cache/go; resolves once it waits. */
  async function startWaiting(): Promise<BuildRow> {
    const wait = "touch begun; while ! test -e ../../../cache/go; do sleep 0.05; done; cat first > slow";
    const buildId = await fixture.request({
      network: "none",
      tasks: [
        { id: "first", run: "echo 1 > first" },
        { id: "slow", dependsOn: ["first"], run: wait, retries: 0 },
      ],
    });
    return fixture.until(buildId, async (row) => {
      const guest = await guestOf(row);
      return (await guest?.stat(`trees/${buildId}/slow.1/begun`).catch(() => null)) != null;
    });
  }

  /** Lets it continue, and expects the lost work to be repeated without a retry. */
  async function expectsRepeated(build: BuildRow): Promise<void> {
    const second = { buildId: build.id, number: 2, status: "running" } as const;
    await fixture.until(build.id, async () => (await fixture.app.store.attempts.find(second)) !== null);
    await fixture.until(build.id, async (row) => {
      const guest = await guestOf(row);
      return (
        (await guest?.writeFile("cache/go", "").then(
          () => true,
          () => false,
        )) === true
      );
    });
    const ended = await fixture.until(build.id);
    expect([ended.status, ended.reason], fixture.warnings.join("\n")).toEqual(["completed", null]);
    const slow = await fixture.app.store.tasks.get({ buildId: build.id, key: "slow" });
    expect([slow.losses, slow.retriesUsed, slow.attempts]).toEqual([1, 0, 2]);
    expect((await fixture.app.store.tasks.get({ buildId: build.id, key: "first" })).attempts).toBe(1);
    expect(await fixture.git("show", "main:slow")).toBe("1\n");
  }

  it("continues after its container was killed", async () => {
    await open();
    const build = await startWaiting();
    await containerOf(fixture.projectId as never).kill();
    await expectsRepeated(build);
  });

  it("continues after the sandbox ran out of memory and ended, and reports that reason", async () => {
    await open({ WAVESMITH_SANDBOX_MEMORY: "128MB" });
    const build = await startWaiting();
    const guest = (await guestOf(build))!;
    // By default the kernel ends the jobs' processes. No job can offer it the guest instead,
    // because that takes root.
    const offered = `echo 1000 > /proc/${(await guest.health()).pid}/oom_score_adj`;
    const exec = await containerOf(fixture.projectId as never).exec({ Cmd: ["sh", "-c", offered], AttachStdout: true });
    (await exec.start({})).resume();
    const eat = "const all = []; for (;;) all.push(Buffer.alloc(16 << 20, 1))";
    const spec = { cwd: ".", env: {}, writable: [], timeoutMs: patienceMs, maxBytes: 1_000 };
    const ended = containerOf(fixture.projectId as never).wait();
    await guest.exec({ ...spec, argv: ["sh", "-c", `while :; do node -e '${eat}'; done`] }).catch(() => null);
    await ended;
    await expectsRepeated(build);
    const sent = await fixture.app.store.outbox.list({ name: "sandbox/lost" }, { by: "seq" });
    expect(sent.map(({ data }) => data.reason)).toEqual(["out of memory"]);
  });

  it("continues after its container was removed by hand", async () => {
    await open();
    const build = await startWaiting();
    await containerOf(fixture.projectId as never).remove({ force: true });
    await expectsRepeated(build);
  });

  it("rebuilds a volume that was removed by hand from the repository outside", async () => {
    await open();
    const build = await startWaiting();
    await containerOf(fixture.projectId as never).remove({ force: true });
    await connectEngine(process.env).getVolume(`wavesmith_workspace_${fixture.projectId}`).remove();
    await expectsRepeated(build);
  });

  it.runIf(process.geteuid?.() === 0)("continues after the engine itself was killed and started again", async () => {
    const folder = mkdtempSync(join(tmpdir(), "wavesmith-dockerd-"));
    const engine = await ownDockerd(join(folder, "engine"));
    ownEngine = { engine, folder };
    await open(engine.environment);
    const build = await startWaiting();
    await engine.kill();
    await fixture.until(build.id, () => fixture.warnings.some((text) => /Docker|sandbox/.test(text)));
    await engine.start();
    await expectsRepeated(build);
  });
});
