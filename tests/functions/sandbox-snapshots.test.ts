import { Readable } from "node:stream";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { WavesmithError } from "../../src/domain/errors.ts";
import { expireSnapshots } from "../../src/sandbox-lifecycle/snapshots/expire-snapshots.ts";
import { restoreSnapshot } from "../../src/sandbox-lifecycle/snapshots/restore-snapshot.ts";
import { takeSnapshot } from "../../src/sandbox-lifecycle/snapshots/snapshots.ts";
import { stopIdleSandboxes } from "../../src/sandbox-lifecycle/upkeep/idle-sandboxes.ts";
import type { BuildRow, SandboxRow } from "../../src/store/port.ts";
import {
  createLifecycle,
  failureOf,
  hour,
  type Lifecycle,
  memorySnapshots,
  minute,
} from "../support/lifecycle-fixture.ts";

let life: Lifecycle;
let build: BuildRow;
let sandbox: SandboxRow;
let snapshots: ReturnType<typeof memorySnapshots>;
beforeEach(async () => {
  life = await createLifecycle();
  build = await life.build("shop");
  sandbox = await life.start(build);
  snapshots = memorySnapshots();
  life.host.volumes.set("proj_shop", "first");
});
afterEach(() => life.close());

const ports = (more = {}) => life.ports({ snapshots, ...more });
const endBuild = () => ports().store.builds.update({ id: build.id }, { status: "cancelled", endedAt: new Date() });
const take = () => takeSnapshot(ports(), sandbox, { reason: "asked" });

describe("a snapshot", () => {
  it("is kept with its size and checksum, in the best available format or the requested one", async () => {
    const progress: number[] = [];
    const kept = await takeSnapshot(ports(), sandbox, { reason: "asked", onProgress: (bytes) => progress.push(bytes) });
    expect(kept).toMatchObject({ state: "kept", format: "tar.zst", sizeBytes: 5, sha256: "right", reason: "asked" });
    expect(kept.expiresAt.getTime() - kept.createdAt.getTime()).toBe(30 * 24 * hour);
    expect(progress).toEqual([5]);
    expect(await takeSnapshot(ports(), sandbox, { reason: "asked", format: "tar.gz" })).toMatchObject({
      format: "tar.gz",
    });
    expect(await life.row("proj_shop")).toMatchObject({ state: "running" });
  });

  it("leaves its reason and no bytes when it fails", async () => {
    life.host.meanwhile = () => {
      throw new WavesmithError("sandbox-unavailable", "the engine is away");
    };
    expect((await failureOf(take())).message).toBe("the engine is away");
    expect(await ports().store.snapshots.list({})).toMatchObject([{ state: "failed", error: "the engine is away" }]);
    expect(snapshots.kept.size).toBe(0);
  });

  it("becomes failed if its process died, and its bytes are removed; one being written is left alone", async () => {
    await ports().store.snapshots.insert({
      id: "snap_dead",
      projectId: "proj_shop",
      sandboxId: sandbox.id,
      state: "writing",
      reason: "asked",
      format: "tar.zst",
      expiresAt: new Date(),
    });
    snapshots.kept.set("snap_dead", Buffer.from("half"));
    snapshots.kept.set("snap_unknown", Buffer.from("of another database"));
    let living: Promise<unknown> | null = null;
    const during = await new Promise<Awaited<ReturnType<typeof expireSnapshots>>>((resolve) => {
      life.host.meanwhile = async (call) => {
        if (call === "pack proj_shop") resolve(await expireSnapshots(ports({ other: true })));
      };
      living = take();
    });
    expect(during.failed).toEqual(["snap_dead"]);
    expect(await living!).toMatchObject({ state: "kept" });
    expect(await ports().store.snapshots.get({ id: "snap_dead" })).toMatchObject({
      state: "failed",
      error: /ended before/ as never,
    });
    expect([...snapshots.kept.keys()]).toEqual(["snap_unknown", expect.stringMatching(/^snap_/)]);
  });

  it("is removed when it has been kept long enough", async () => {
    const { id } = await take();
    life.pass(29 * 24 * hour);
    const young = await take();
    expect((await expireSnapshots(ports())).expired).toEqual([]);
    life.pass(24 * hour);
    expect((await expireSnapshots(ports())).expired).toEqual([id]);
    expect([...snapshots.kept.keys()]).toEqual([young.id]);
    expect(await ports().store.snapshots.get({ id })).toMatchObject({ state: "removed" });
    await expect(restoreSnapshot(ports(), await ports().store.snapshots.get({ id }))).rejects.toThrow(/is removed/);
  });

  it("is not interrupted by an idle stop", async () => {
    life.pass(3 * hour);
    let stopped: string[] | null = null;
    life.host.meanwhile = async (call) => {
      if (call === "pack proj_shop") stopped = (await stopIdleSandboxes(ports({ other: true }))).stopped;
    };
    await take();
    expect(stopped).toEqual([]);
    expect((await stopIdleSandboxes(ports())).stopped).toEqual([sandbox.id]);
  });
});

describe("restoring a snapshot", () => {
  const changed = () => life.host.volumes.set("proj_shop", "second");

  it("replaces the volume, reports it, and leaves the sandbox stopped until its next use", async () => {
    const kept = await take();
    changed();
    await endBuild();
    const progress: string[] = [];
    await restoreSnapshot(ports(), kept, { onProgress: (what, bytes) => progress.push(`${what} ${bytes}`) });
    expect(life.host.volumes.get("proj_shop")).toBe("first");
    expect(progress).toEqual(["checking 5", "unpacking 5"]);
    expect((await life.eventTexts()).slice(-2)).toEqual(["sandbox/stopped: restored", "sandbox/restored"]);
    expect(await life.row("proj_shop")).toMatchObject({ state: "stopped", reason: "restored" });
    life.pass(minute);
    await restoreSnapshot(ports(), kept);
    expect((await life.eventTexts()).slice(-2)).toEqual(["sandbox/restored", "sandbox/restored"]);
    await life.start(build);
    expect(life.host.volumes.get("proj_shop")).toBe("first");
  });

  it("is refused while a build runs, and while a job runs in the sandbox", async () => {
    const kept = await take();
    changed();
    expect(await failureOf(restoreSnapshot(ports(), kept))).toMatchObject({ code: "conflict" });
    await endBuild();
    life.host.sandboxes.get("proj_shop")!.activeJobs = 1;
    expect(await failureOf(restoreSnapshot(ports(), kept))).toMatchObject({ code: "conflict" });
    expect(life.host.volumes.get("proj_shop")).toBe("second");
    expect(await life.row("proj_shop")).toMatchObject({ state: "running" });
    expect(life.host.calls).not.toContain("restore proj_shop");
  });

  it("checks the checksum before anything is changed", async () => {
    const kept = await take();
    changed();
    await endBuild();
    const wrong = async () =>
      Readable.from(
        (async function* () {
          yield Buffer.from("fi");
          throw new WavesmithError("archive", "its checksum differs");
        })(),
      );
    const failing = { ...ports(), snapshots: { ...snapshots, get: wrong } };
    expect(await failureOf(restoreSnapshot(failing, kept))).toMatchObject({ code: "archive" });
    expect(life.host.calls.slice(1)).toEqual(["pack proj_shop"]);
    expect(await life.row("proj_shop")).toMatchObject({ state: "running", bootId: sandbox.bootId });
  });

  it("changes nothing if it fails, and the sandbox keeps running", async () => {
    const kept = await take();
    changed();
    await endBuild();
    life.host.meanwhile = (call) => {
      if (call === "restore proj_shop") throw new WavesmithError("archive", "a link leads out");
    };
    expect(await failureOf(restoreSnapshot(ports(), kept))).toMatchObject({ code: "archive" });
    expect(life.host.volumes.get("proj_shop")).toBe("second");
    expect(await life.row("proj_shop")).toMatchObject({ state: "running", bootId: sandbox.bootId });
    expect(await life.eventTexts()).toEqual(["sandbox/created", "sandbox/started"]);
  });

  it("makes a use wait that comes meanwhile", async () => {
    const kept = await take();
    changed();
    await endBuild();
    let using: Promise<unknown> | null = null;
    life.host.meanwhile = (call) => {
      if (call === "restore proj_shop") using = life.start(build);
    };
    await restoreSnapshot(ports(), kept);
    await using!;
    expect(life.host.calls.slice(-2)).toEqual(["restore proj_shop", "start proj_shop"]);
    expect(life.host.volumes.get("proj_shop")).toBe("first");
  });
});
