import { beforeEach, describe, expect, it } from "vitest";
import { loadConfig } from "../../src/config.ts";
import { reconcileBuilds, stillMs } from "../../src/coordinator/build/reconcile.ts";
import type { Ports } from "../../src/coordinator/port.ts";
import type { EventName } from "../../src/domain/events/events.ts";
import { parsePlanValue } from "../../src/plan/parse-plan.ts";
import { traitsOf } from "../../src/sandbox/drivers/registry.ts";
import type { OutboxRow, Store } from "../../src/store/port.ts";
import { createMemoryDatabase } from "../support/memory-store.ts";

// W13: if nothing moves in a build, its request is repeated under a raised epoch.

describe("a build that stands still for a gate", () => {
  const now = new Date(0);
  let store: Store;
  beforeEach(async () => {
    store = createMemoryDatabase({ now: () => now }).connect();
    const { plan } = parsePlanValue({ name: "p", tasks: [{ id: "a", run: "true" }] }, { baseDir: null, env: {} });
    await store.builds.insert({
      id: "b",
      tenantId: "t",
      projectId: "p",
      eventId: "e",
      status: "running",
      plan: plan!,
      sandboxDriver: "local",
      network: "open",
      baseSha: "0",
      headSha: "0",
    });
    await store.waves.insert({ id: "w", buildId: "b", number: 1, status: "gating", baseSha: "0", headSha: "1" });
    await store.gateRuns.insert({
      id: "g",
      buildId: "b",
      waveId: "w",
      gate: "testing",
      round: 1,
      sha: "1",
      epoch: 0,
      fence: 1,
      status: "requested",
      jobKey: "g-1",
    });
    await tell("agent/quality.testing:g:0", 0);
    await tell("agent/quality.testing:g:1", 1);
    // The job under the first fence ended after the second one had been requested.
    await tell("agent/gate.finished:g:0", 0);
  });

  const tell = (eventId: string, fence: number) => {
    const name = eventId.slice(0, eventId.indexOf(":")) as EventName;
    const data = { fence } as OutboxRow["data"];
    return store.outbox.insert({ eventId, name, projectId: "p", buildId: "b", data, sentAt: now });
  };
  const job = (status: "intended" | "running") =>
    store.jobs.insert({
      key: "g-0",
      buildId: "b",
      projectId: "p",
      ownerKind: "gate",
      ownerId: "g",
      ownerFence: 0,
      status,
    });
  const reconcile = async (): Promise<string[]> => {
    const clock = { now: () => new Date(stillMs) };
    await reconcileBuilds(
      {
        store,
        clock,
        driverTraits: traitsOf,
        processors: 2,
        memoryBytes: 8 * 1024 ** 3,
        sandboxPolicy: loadConfig({}).sandboxPolicy,
      } as Ports,
      "all",
    );
    return (await store.outbox.list({ sentAt: null })).map((row) => row.eventId);
  };

  it("is requested again under the current fence, not an older one", async () => {
    expect(await reconcile()).toEqual(["agent/quality.testing:g:1001"]);
  });

  it("is requested again even if a job that never started was left behind", async () => {
    await job("intended");
    expect(await reconcile()).toHaveLength(1);
  });

  it("is left alone while one of its jobs runs", async () => {
    await job("running");
    expect(await reconcile()).toEqual([]);
  });
});
