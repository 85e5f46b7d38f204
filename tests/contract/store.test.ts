import { beforeEach, describe, expect, it } from "vitest";
import type { ModelCallStatus } from "../../src/domain/models.ts";
import type { Plan } from "../../src/domain/plan/plan.ts";
import type { Store } from "../../src/store/port.ts";
import { createStore } from "../../src/store/store.ts";
import { testDatabase } from "../support/database.ts";
import { createMemoryDatabase } from "../support/memory-store.ts";

// The promises of the store's port, for the store on Postgres and the one in memory that
// simulations use.

const stores = [
  { name: "on Postgres", open: async () => createStore((await testDatabase()).pool) },
  { name: "in memory", open: async () => createMemoryDatabase({ now: () => new Date() }).connect() },
];

describe.each(stores)("the store $name", ({ open }) => {
  let store: Store;
  beforeEach(async () => {
    store = await open();
    await store.tenants.insert({ id: "ten_1", name: "one" });
    await store.projects.insert({ id: "proj_1", tenantId: "ten_1", name: "p" });
  });

  const build = (id: string, status: "queued" | "running" = "queued") => ({
    id,
    tenantId: "ten_1",
    projectId: "proj_1",
    eventId: `event ${id}`,
    status,
    plan: { name: id } as never,
    sandboxDriver: "local",
    network: "open" as const,
  });
  const event = (id: string) => {
    const data = { tenantId: "ten_1", projectId: "proj_1", sandboxId: "sbx_1", driver: "local" };
    return { name: "sandbox/created" as const, id, data };
  };
  const wave = (id: string, number: number) => ({
    id,
    buildId: "b1",
    number,
    status: "running" as const,
    baseSha: "0",
  });
  const job = (key: string) => ({
    key,
    buildId: "b1",
    projectId: "proj_1",
    ownerKind: "gate" as const,
    ownerId: "g",
    ownerFence: 0,
    status: "running" as const,
  });

  it("adds up what each attempt, and each tenant, has spent on models", async () => {
    await store.builds.insert(build("b1"));
    const call = (id: string, ownerId: string, status: ModelCallStatus, more: object) =>
      store.modelCalls.insert({
        id,
        buildId: "b1",
        ownerKind: "attempt",
        ownerId,
        provider: "p",
        model: "m",
        status,
        reservedTokens: 1_000,
        endedAt: status === "open" || status === "waiting" ? null : new Date(),
        ...more,
      });
    await call("c1", "att_1", "done", { inputTokens: 100, cachedTokens: 40, outputTokens: 7, microUsd: 12 });
    await call("c2", "att_1", "cut", { estimated: true });
    await call("c6", "att_1", "waiting", { reservedTokens: 0 });
    await call("c3", "att_1", "failed", {});
    await call("c4", "att_1", "open", {});
    await call("c5", "att_2", "done", { inputTokens: 5, cachedTokens: 0, outputTokens: 5, microUsd: null });
    const spent = await store.modelSpending("b1");
    expect(new Map(spent)).toEqual(
      new Map([
        [
          "att_1",
          {
            calls: 5,
            openCalls: 1,
            waitingCalls: 1,
            estimatedCalls: 1,
            tokens: 1_107,
            inputTokens: 100,
            cachedTokens: 40,
            outputTokens: 7,
            microUsd: 12,
            unpricedCalls: 1,
          },
        ],
        [
          "att_2",
          {
            calls: 1,
            openCalls: 0,
            waitingCalls: 0,
            estimatedCalls: 0,
            tokens: 10,
            inputTokens: 5,
            cachedTokens: 0,
            outputTokens: 5,
            microUsd: 0,
            unpricedCalls: 1,
          },
        ],
      ]),
    );
    expect((await store.modelSpending("b2")).size).toBe(0);
    await store.builds.insert(build("b2"));
    await store.buildSpending.insert({ buildId: "b1", spentTokens: 3, spentMicroUsd: 2 });
    await store.buildSpending.insert({ buildId: "b2", spentTokens: 4, unpricedCalls: 1 });
    expect(await store.tenantSpending("ten_1")).toEqual({ tokens: 7, microUsd: 2, unpricedCalls: 1 });
    expect(await store.tenantSpending("ten_2")).toEqual({ tokens: 0, microUsd: 0, unpricedCalls: 0 });
  });

  it("fills in defaults and numbers rows in the order of their insertion", async () => {
    const first = await store.builds.insert(build("b1"));
    const second = await store.builds.insert(build("b2"));
    expect(first).toMatchObject({ epoch: 0, baseSha: null, requestedBy: null });
    expect(first.createdAt).toBeInstanceOf(Date);
    expect(second.position).toBeGreaterThan(first.position);
  });

  it("finds by value, by any of a list, and by absence, in order and up to a limit", async () => {
    for (const id of ["b1", "b2", "b3"]) await store.builds.insert(build(id));
    await store.builds.update({ id: "b2" }, { reason: "because" });
    const ids = async (...args: Parameters<typeof store.builds.list>) =>
      (await store.builds.list(...args)).map((row) => row.id).sort();
    expect(await ids({ reason: null })).toEqual(["b1", "b3"]);
    expect(await ids({ id: ["b1", "b2", "nobody"] })).toEqual(["b1", "b2"]);
    expect(await ids({ id: [] })).toEqual([]);
    expect(await ids({}, { by: "position", descending: true, limit: 1 })).toEqual(["b3"]);
    expect(await store.builds.find({ id: "nobody" })).toBeNull();
    await expect(store.builds.get({ id: "nobody" })).rejects.toMatchObject({ code: "not-found" });
  });

  it("changes the matching rows and returns them as they were; nothing when none match", async () => {
    await store.builds.insert(build("b1"));
    expect(await store.builds.update({ id: "b1", status: "running" }, { epoch: 5 })).toEqual([]);
    expect(await store.builds.update({ id: "b1", status: "queued" }, { epoch: 5 })).toMatchObject([{ epoch: 5 }]);
    expect(await store.builds.remove({ id: "b1" })).toBe(1);
  });

  it("refuses a second row with the same key, or skips it when asked to", async () => {
    await store.builds.insert(build("b1"));
    expect(await store.builds.insertIfAbsent(build("b1"))).toBeNull();
    await expect(store.builds.insert(build("b1"))).rejects.toThrow();
    await store.builds.update({ id: "b1" }, { status: "running" });
    await expect(store.builds.insert(build("b2", "running")), "one running build a project").rejects.toThrow();
    await store.waves.insert(wave("w1", 1));
    await expect(store.waves.insert(wave("w2", 2)), "one live wave a build").rejects.toThrow();
    await expect(
      store.waves.update({ id: "w1" }, { status: "passed" }),
      "no passed wave without a commit",
    ).rejects.toThrow();
    await expect(store.builds.update({ id: "b1" }, { status: "failed" }), "an end has a time").rejects.toThrow();
  });

  it("keeps nothing of a transaction that fails, its events included", async () => {
    const failing = store.transaction("store-build", async (transaction) => {
      await transaction.builds.insert(build("b1"));
      await transaction.emit(event("1"));
      throw new Error("no");
    });
    await expect(failing).rejects.toThrow("no");
    expect(await store.builds.list({})).toEqual([]);
    expect(await store.outbox.list({})).toEqual([]);
  });

  it("sends each event once, in order, and again when it could not be sent", async () => {
    const emit = (...ids: string[]) =>
      store.transaction("store-build", async (transaction) => {
        for (const id of ids) await transaction.emit(event(id));
      });
    await emit("1", "2");
    await emit("2", "3");
    const sent: string[] = [];
    const deliver = async (rows: { eventId: string }[]) => void sent.push(...rows.map((row) => row.eventId));
    await expect(store.drainOutbox("all", () => Promise.reject(new Error("away")))).rejects.toThrow("away");
    expect(await store.drainOutbox(["proj_2"], deliver)).toBe(0);
    expect(await store.drainOutbox(["proj_1"], deliver)).toBe(3);
    expect(await store.drainOutbox("all", deliver)).toBe(0);
    expect(sent).toEqual(["1", "2", "3"]);
  });

  it("leases a running job to one owner, raises its fence with each lease, and releases it", async () => {
    await store.builds.insert(build("b1"));
    await store.jobs.insert(job("j1"));
    const take = (owner: string, leaseMs = 60_000) =>
      store.leaseJobs({ projectIds: "all", owner, leaseMs, limit: 10 }).then((all) => all.map(({ fence }) => fence));
    const alive = await store.registerProcess("one");
    expect(await take("one")).toEqual([1]);
    expect(await take("one")).toEqual([]);
    expect(await store.renewLeases("one", 60_000)).toEqual(["j1"]);
    await store.releaseLeases("one");
    expect(await store.renewLeases("one", 60_000)).toEqual([]);
    expect(await take("two", -1)).toEqual([2]);
    expect(await take("one")).toEqual([3]);
    await alive.release();
  });
});

describe("the store on Postgres", () => {
  it("reads JSON as it was written, and quotes no value of a statement that fails", async () => {
    const store = createStore((await testDatabase()).pool);
    await store.tenants.insert({ id: "ten_1", name: "one" });
    await store.projects.insert({ id: "proj_1", tenantId: "ten_1", name: "p" });
    const build = { id: "b1", tenantId: "ten_1", projectId: "proj_1", status: "queued", network: "open" } as const;
    const plan = { name: "a secret" } as Plan;
    await store.builds.insert({ ...build, eventId: "one", plan, sandboxDriver: "local" });
    const owner = { projectId: "proj_1", ownerKind: "gate", ownerId: "g", ownerFence: 0, status: "running" } as const;
    await store.jobs.insert({ key: "j1", buildId: "b1", ...owner, state: "123" });
    expect((await store.jobs.get({ key: "j1" })).state).toBe("123");
    const repeated = await store.builds
      .insert({ ...build, eventId: "two", plan, sandboxDriver: "local" })
      .catch((error: Error & { code?: string }) => error);
    expect(repeated).toMatchObject({ code: "23505", message: expect.stringContaining("duplicate key") });
    expect(String(repeated)).not.toContain("secret");
  });
});
