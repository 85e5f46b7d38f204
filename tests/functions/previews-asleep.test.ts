import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Ports } from "../../src/coordinator/port.ts";
import { reachPreview } from "../../src/coordinator/preview/reach-preview.ts";
import { sleepIdlePreviews } from "../../src/coordinator/preview/sleep-preview.ts";
import { openPreviewProxy, type PreviewProxy } from "../../src/delivery/preview-proxy.ts";
import { previewPlaceOf } from "../../src/domain/sandbox/sandbox.ts";
import { ensureSandbox } from "../../src/sandbox-lifecycle/ensure-sandbox.ts";
import { stopSandbox } from "../../src/sandbox-lifecycle/stop-sandbox.ts";
import { createSandboxReconciler } from "../../src/sandbox-lifecycle/upkeep/reconcile-sandboxes.ts";
import { type BuildFixture, createBuildFixture } from "../support/build-fixture.ts";

const hour = 3_600_000;
const serve = `node -e "require('http').createServer((q,s)=>s.end('up')).listen(process.env.PORT,'127.0.0.1')"`;
const plan = {
  network: "none",
  preview: { command: `echo written > by-the-preview; exec ${serve}` },
  tasks: [{ id: "a", run: "echo a > a" }],
};

describe("an unused preview", () => {
  let fixture: BuildFixture;
  let ports: Ports;
  let buildId: string;
  let proxy: PreviewProxy;
  let passedMs: number;
  let atPoint: (name: string) => void;
  beforeEach(async () => {
    passedMs = 0;
    atPoint = () => undefined;
    fixture = await createBuildFixture({
      clock: () => new Date(Date.now() + passedMs),
      crashPoint: (name) => atPoint(name),
    });
    ports = fixture.app.ports;
    const build = await fixture.build(plan);
    expect([build.status, build.reason]).toEqual(["completed", null]);
    buildId = build.id;
    const ready = () => fixture.app.store.previews.find({ buildId, status: "ready" });
    await fixture.until(buildId, async () => (await ready()) !== null);
    proxy = await openPreviewProxy({ reach: () => reachPreview(ports, buildId, 0) });
  });
  afterEach(async () => {
    await proxy.close();
    await fixture.close();
  });

  const row = () => fixture.app.store.previews.get({ buildId });
  const driver = () => ports.driver(fixture.app.config.sandboxDriver);
  const place = () => previewPlaceOf(fixture.projectId);
  const volumes = () => join(fixture.app.config.dataDir, "volumes");
  const nothingIsLeft = async () => (await driver().find(place())) === null && !existsSync(join(volumes(), place()));
  const body = async () => (await fetch(proxy.origin)).text();

  it("is put to sleep, and its next request starts it again at the same address", async () => {
    expect(await body()).toBe("up");
    expect(existsSync(join(volumes(), place(), "repo", "by-the-preview"))).toBe(true);
    expect(existsSync(join(volumes(), fixture.projectId, "repo", "by-the-preview"))).toBe(false);
    passedMs = hour / 2;
    expect(await body()).toBe("up");
    passedMs = hour + hour / 4;
    expect(await sleepIdlePreviews(ports)).toEqual({ asleep: [], ended: [] });
    passedMs = 2 * hour;
    expect(await sleepIdlePreviews(ports)).toEqual({ asleep: [buildId], ended: [] });
    expect(await nothingIsLeft()).toBe(true);
    expect(await fixture.app.store.jobs.list({ ownerKind: "preview", status: ["intended", "running"] })).toEqual([]);
    expect(await row()).toMatchObject({ status: "asleep", reason: "nothing used it for a while" });

    const asked = await fetch(proxy.origin, { headers: { accept: "application/json" } });
    expect([asked.status, asked.headers.get("retry-after")]).toEqual([503, "2"]);
    expect(await asked.json()).toMatchObject({ code: "preview-starting" });
    await fixture.until(buildId, async () => (await fetch(proxy.origin)).status === 200);
    expect(await body()).toBe("up");
    expect(await row()).toMatchObject({ status: "ready", starts: 1, reason: null });
  });

  it("shows people a page that reloads, and says when the preview is over", async () => {
    passedMs = 2 * hour;
    await sleepIdlePreviews(ports);
    const page = await fetch(proxy.origin, { headers: { accept: "text/html" } });
    expect([page.status, page.headers.get("content-type")]).toEqual([503, "text/html; charset=utf-8"]);
    expect(await page.text()).toContain('http-equiv="refresh"');
    await fixture.app.store.previews.update({ buildId }, { status: "stopped", reason: "<b>rolled back</b>" });
    const over = await fetch(proxy.origin, { headers: { accept: "text/html" } });
    expect([over.status, over.headers.get("retry-after")]).toEqual([502, null]);
    expect(await over.text()).toContain("&lt;b&gt;rolled back&lt;/b&gt;");
  });

  it("wakes once for many requests, and stays awake if a request arrives as it goes to sleep", async () => {
    passedMs = 2 * hour;
    const list = ports.store.previews.list;
    const late = async (...args: Parameters<typeof list>) => {
      const rows = await list(...args);
      expect(await body()).toBe("up");
      return rows;
    };
    const store = { ...ports.store, previews: { ...ports.store.previews, list: late } };
    expect(await sleepIdlePreviews({ ...ports, store })).toEqual({ asleep: [], ended: [] });
    passedMs = 4 * hour;
    expect(await sleepIdlePreviews(ports)).toMatchObject({ asleep: [buildId] });
    await Promise.all([1, 2, 3, 4, 5].map(() => fetch(proxy.origin)));
    await fixture.until(buildId, async () => (await row()).status === "ready");
    expect(await fixture.app.store.jobs.list({ ownerKind: "preview" })).toHaveLength(2);
  });

  it("makes room for a build that needs it", async () => {
    const build = await fixture.app.store.builds.get({ id: buildId });
    const sandbox = await fixture.app.store.sandboxes.get({ projectId: build.projectId });
    await stopSandbox(ports, sandbox);
    const diskBytes = Number.MAX_SAFE_INTEGER;
    const room = async () => ({ diskBytes, memoryBytes: (await row()).status === "asleep" ? diskBytes : 0 });
    await ensureSandbox({ ...ports, machine: { ...ports.machine, room } }, build);
    expect(await row()).toMatchObject({ status: "asleep", reason: "its slot was needed" });
    expect(await nothingIsLeft()).toBe(true);
  });

  it("ends when its volume is above its limit", async () => {
    const limits = { ...ports.sandboxPolicy.limits, diskBytes: 1 };
    const ended = await sleepIdlePreviews({ ...ports, sandboxPolicy: { ...ports.sandboxPolicy, limits } });
    expect(ended).toEqual({ asleep: [], ended: [buildId] });
    expect((await row()).reason).toMatch(/its volume takes \d+ MiB of at most 0 MiB/);
    expect(await nothingIsLeft()).toBe(true);
  });

  it("is removed by the next check if the process that put it to sleep died in between", async () => {
    passedMs = 2 * hour;
    atPoint = (name) => {
      if (name !== "guest.cancelJob.before" && name !== "driver.remove.before") return;
      throw new Error("killed");
    };
    await sleepIdlePreviews(ports);
    expect((await row()).status).toBe("asleep");
    expect(await nothingIsLeft()).toBe(false);
    atPoint = () => undefined;
    await createSandboxReconciler(ports, [driver().name]).reconcile();
    expect(await nothingIsLeft()).toBe(true);
    await fixture.until(buildId, async () => (await fetch(proxy.origin)).status === 200);
  });

  it("is left alone by the reconciler while it is shown", async () => {
    passedMs = 20 * hour;
    await createSandboxReconciler(ports, [driver().name]).reconcile();
    expect(await body()).toBe("up");
  });

  it("starts again with its next request after its sandbox was lost while nobody watched", async () => {
    passedMs = 2 * hour;
    await driver().remove(place(), { volume: true });
    await fixture.until(buildId, async () => (await row()).status === "asleep");
    await fixture.until(buildId, async () => (await fetch(proxy.origin)).status === 200);
    expect(await row()).toMatchObject({ status: "ready", starts: 1 });
  });
});
