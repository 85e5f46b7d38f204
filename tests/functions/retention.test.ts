import { mkdir, readdir, stat, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type BuildFixture, createBuildFixture } from "../support/build-fixture.ts";

const dayMs = 86_400_000;

describe("garbage collection", { timeout: 120_000 }, () => {
  let fixture: BuildFixture;
  let aheadMs: number;
  const limits = { BUILDS: "60d", LOGS: "30d", BRANCHES: "30d", VOLUMES: "never" };

  const open = async (given: Partial<typeof limits> = {}) => {
    aheadMs = 0;
    const named = Object.entries({ ...limits, ...given }).map(([name, value]) => [
      `WAVESMITH_RETENTION_${name}`,
      value,
    ]);
    fixture = await createBuildFixture({
      env: Object.fromEntries(named) as Record<string, string>,
      clock: () => new Date(Date.now() + aheadMs),
    });
  };
  beforeEach(() => open());
  afterEach(() => fixture.close());

  const one = (name: string) => ({ tasks: [{ id: name, run: `echo ${name} | tee ${name}.txt` }] });
  const kinds = async () => (await fixture.app.garbage.find()).map(({ kind, id }) => `${kind} ${id}`);
  const refs = async () => (await fixture.git("for-each-ref", "--format=%(refname)")).trim().split("\n");

  it("removes old output and branches first, then the build, and never a project's newest builds", async () => {
    const first = await fixture.build(one("a"));
    const second = await fixture.build(one("b"));
    const failed = await fixture.build({ tasks: [{ id: "c", retries: 0, run: "echo c; exit 1" }] });
    const main = await fixture.git("rev-parse", "main");
    expect(await kinds()).toEqual([]);
    aheadMs = 31 * dayMs;
    const found = await fixture.app.garbage.find();
    expect(found.map(({ kind, id }) => [kind, id])).toEqual([
      ["output", first.id],
      ["branches", first.id],
    ]);
    for (const { bytes } of found) expect(bytes).toBeGreaterThanOrEqual(0);
    expect(await kinds(), "looking changes nothing").toHaveLength(2);
    expect((await fixture.app.garbage.collect())?.length).toBe(2);
    expect(await kinds()).toEqual([]);
    expect((await refs()).filter((ref) => ref.includes(`${first.id}/task/`))).toEqual([]);
    expect((await refs()).filter((ref) => ref.includes(second.id)).length).toBeGreaterThan(2);
    expect(await refs()).toContain(`refs/tags/wavesmith-restore/${first.id}/1`);

    aheadMs = 61 * dayMs;
    const outside = join(fixture.app.config.dataDir, "plans");
    await mkdir(outside, { recursive: true });
    for (const id of [first.id, second.id]) await writeFile(join(outside, `${id}.yaml`), "x");
    expect(await kinds()).toEqual([`build ${first.id}`]);
    expect((await fixture.app.garbage.collect())?.length).toBe(1);
    expect((await refs()).filter((ref) => ref.includes(first.id))).toEqual([]);
    const { store } = fixture.app;
    expect((await store.builds.list({}, { by: "position" })).map(({ id }) => id)).toEqual([second.id, failed.id]);
    for (const rows of [
      await store.tasks.list({ buildId: first.id }),
      await store.outbox.list({ buildId: first.id as never }),
    ])
      expect(rows).toEqual([]);
    await expect(stat(join(outside, `${first.id}.yaml`))).rejects.toThrow("ENOENT");
    await stat(join(outside, `${second.id}.yaml`));
    expect(await fixture.git("rev-parse", "main")).toBe(main);
    await fixture.git("fsck", "--strict");
    expect((await fixture.build(one("d"))).status, "the project goes on").toBe("completed");
  });

  it("leaves builds that run, wait or are retried alone, however old they are", async () => {
    const waiting = await fixture.build({ ...one("a"), approval: "wave" });
    expect(waiting.status).toBe("waiting");
    aheadMs = 400 * dayMs;
    expect(await kinds()).toEqual([]);
    expect(await fixture.app.garbage.collect()).toEqual([]);
    expect((await fixture.app.store.builds.list({})).map(({ id }) => id)).toEqual([waiting.id]);
  });

  it("removes old uploaded sources, but none that a build waits to read", async () => {
    const { store, config } = fixture.app;
    const waiting = await fixture.build({ ...one("a"), approval: "wave" });
    const folder = join(config.dataDir, "uploads", fixture.projectId);
    for (const name of ["src_a.git", "src_b.git", "src_c.git", "left.part"])
      await mkdir(join(folder, name), { recursive: true });
    const old = new Date(Date.now() - 31 * dayMs);
    for (const name of ["src_a.git", "src_b.git", "left.part"]) await utimes(join(folder, name), old, old);
    const source = { kind: "git" as const, url: join(folder, "src_b.git"), ref: "main" };
    const { plan, planVersion } = await store.builds.get({ id: waiting.id });
    await store.builds.update({ id: waiting.id }, { plan: { ...plan, source }, planVersion: planVersion + 1 });
    expect((await kinds()).sort()).toEqual(["upload left.part", "upload src_a.git"]);
    expect(await fixture.app.garbage.collect()).toHaveLength(2);
    expect((await readdir(folder)).sort()).toEqual(["src_b.git", "src_c.git"]);
  });

  it("removes the volume of a sandbox that nobody uses; the next build creates it again", async () => {
    await fixture.close();
    await open({ VOLUMES: "10d", LOGS: "never", BRANCHES: "never", BUILDS: "never" });
    await fixture.build(one("a"));
    const { store, ports, config } = fixture.app;
    const [row] = await store.sandboxes.list({ state: "running" });
    const { stopSandbox } = await import("../../src/sandbox-lifecycle/stop-sandbox.ts");
    await stopSandbox(ports, row!, "asked");
    expect(await kinds()).toEqual([]);
    aheadMs = 11 * dayMs;
    expect(await kinds()).toEqual([`volume ${row!.id}`]);
    expect((await fixture.app.garbage.collect())?.map(({ bytes }) => bytes! > 0)).toEqual([true]);
    await expect(stat(join(config.dataDir, "volumes", fixture.projectId))).rejects.toThrow("ENOENT");
    expect((await fixture.build(one("b"))).status).toBe("completed");
    expect(await fixture.git("ls-tree", "--name-only", "main")).toBe("a.txt\nb.txt\n");
  });
});
