import { readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { BuildRow } from "../../src/store/port.ts";
import { eachBuildFixture } from "../support/build-fixture.ts";

// Infrastructure fails under a build: the attempt is lost and repeated, and no retry of the task is
// spent (W4).

describe("a build whose parts are lost", () => {
  const fixture = eachBuildFixture();

  const endpoint = async (build: BuildRow) =>
    (await fixture.app.ports.driver(build.sandboxDriver).find(fixture.projectId as never))!;
  const dataDir = () => fixture.app.config.dataDir;

  /** Starts a build whose task `slow` waits for cache/go; resolves once it waits. */
  async function startWaiting(extra: Record<string, unknown> = {}): Promise<BuildRow> {
    const buildId = await fixture.request({
      tasks: [
        { id: "first", run: "echo 1 > first" },
        {
          id: "slow",
          dependsOn: ["first"],
          run: "echo up; touch begun; while ! test -e ../../../cache/go; do sleep 0.05; done; cat first > slow",
          retries: 0,
        },
      ],
      ...extra,
    });
    const build = await fixture.until(buildId, async (row) => {
      const found = await fixture.app.ports
        .driver(row.sandboxDriver)
        .find(fixture.projectId as never)
        .catch(() => null);
      return (await found?.guest.stat(`trees/${buildId}/slow.1/begun`).catch(() => null)) != null;
    });
    return build;
  }

  /** Kills the guest of the project's sandbox, found by the mark in its environment. */
  function killGuest(): void {
    const guests = readdirSync("/proc").filter((pid) => {
      try {
        return (
          /^\d+$/.test(pid) &&
          readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("guest.mjs\0--root") &&
          !readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("bwrap") &&
          readFileSync(`/proc/${pid}/environ`, "utf8").includes(`:${fixture.projectId}:`)
        );
      } catch {
        return false; // it has just ended, or we may not look into it
      }
    });
    expect(guests).toHaveLength(1);
    process.kill(Number(guests[0]), "SIGKILL");
  }

  it("repeats an attempt whose sandbox was killed, without spending a retry", async () => {
    const build = await startWaiting();
    killGuest();
    await fixture.until(
      build.id,
      async () => (await fixture.app.store.attempts.find({ buildId: build.id, outcome: "lost" })) !== null,
    );
    await fixture.until(build.id, async () => (await endpoint(build)) !== null);
    await (await endpoint(build)).guest.writeFile("cache/go", "");
    const ended = await fixture.until(build.id);
    expect([ended.status, ended.reason]).toEqual(["completed", null]);
    const slow = await fixture.app.store.tasks.get({ buildId: build.id, key: "slow" });
    expect([slow.losses, slow.retriesUsed, slow.attempts]).toEqual([1, 0, 2]);
    expect((await fixture.app.store.tasks.get({ buildId: build.id, key: "first" })).attempts).toBe(1);
  });

  it("rebuilds a volume that is gone from the repository outside the sandbox", async () => {
    const build = await startWaiting();
    killGuest();
    rmSync(join(dataDir(), "volumes", fixture.projectId), { recursive: true, force: true });
    await fixture.until(
      build.id,
      async () => (await fixture.app.store.attempts.find({ buildId: build.id, number: 2, status: "running" })) !== null,
    );
    await (await endpoint(build)).guest.writeFile("cache/go", "");
    const ended = await fixture.until(build.id);
    expect([ended.status, ended.reason]).toEqual(["completed", null]);
    expect(await fixture.git("show", "main:slow")).toBe("1\n");
  });

  it("continues when every connection to the database is cut in mid-wave", async () => {
    const build = await startWaiting();
    const { rowCount } = await fixture.cutConnections();
    expect(rowCount).toBeGreaterThan(2);
    await (await endpoint(build)).guest.writeFile("cache/go", "");
    const ended = await fixture.until(build.id);
    expect([ended.status, ended.reason]).toEqual(["completed", null]);
    const slow = await fixture.app.store.tasks.get({ buildId: build.id, key: "slow" });
    expect(slow.attempts, "the running attempt was not repeated").toBe(1);
  });

  it("repeats a gate whose sandbox was killed", async () => {
    const buildId = await fixture.request({
      gates: {
        testing: { command: "while ! test -e ../../../signals/go; do sleep 0.05; done; echo 1..1; echo ok 1 - fine" },
      },
      tasks: [{ id: "a", run: "echo a > a" }],
    });
    const build = await fixture.until(
      buildId,
      async () => (await fixture.app.store.jobs.find({ buildId, ownerKind: "gate", status: "running" })) !== null,
    );
    killGuest();
    await fixture.until(
      buildId,
      async () => (await fixture.app.store.gateRuns.get({ buildId, gate: "testing" })).losses === 1,
    );
    await fixture.until(buildId, async () => (await endpoint(build)) !== null);
    await (await endpoint(build)).guest.writeFile("signals/go", "");
    const ended = await fixture.until(buildId);
    expect([ended.status, ended.reason]).toEqual(["completed", null]);
  });
});
