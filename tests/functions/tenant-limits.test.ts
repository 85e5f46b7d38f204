import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createKey } from "../../src/api/keys.ts";
import { limitTenant } from "../../src/api/tenants.ts";
import { projectIdFor, tenantIdFor } from "../../src/coordinator/build/request/project.ts";
import { buildIdForEvent } from "../../src/domain/events/request-ids.ts";
import { type RunningServer, startServer } from "../../src/server/server.ts";
import { type BuildFixture, createBuildFixture } from "../support/build-fixture.ts";

const noGates = { gates: { testing: false, critic: false, integration: false } };
/** Many short tasks in one wave; roles have no cap that matters here. */
const many = (count: number, script: string) => ({
  ...{ name: "shared", ...noGates },
  limits: { tasksPerAgentPerWave: count, maxParallelTasks: count },
  tasks: Array.from({ length: count }, (_, index) => ({ id: `t${index}`, run: script, changes: "optional" })),
});

describe("the limits of tenants", () => {
  let fixture: BuildFixture;
  let server: RunningServer;
  let operator: string;
  let acme: string;

  const ask = async (key: string, method: string, path: string, body?: unknown) => {
    const response = await fetch(`${server.origin}/api/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${key}` },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(20_000),
    });
    return { status: response.status, body: (await response.json()) as Record<string, never> };
  };
  const buildOf = async (tenant: string, plan: object) => {
    const id = `project/build.requested:${tenant}-${Math.random()}:0`;
    await fixture.app.send({ name: "project/build.requested", id, data: { tenant, project: "shared", plan } } as never);
    const buildId = buildIdForEvent(id);
    await expect.poll(() => fixture.app.store.builds.find({ id: buildId }), { timeout: 20_000 }).not.toBeNull();
    return buildId;
  };
  const attemptsOf = (buildId: string) => fixture.app.store.attempts.list({ buildId }, { by: "createdAt" });

  beforeAll(async () => {
    fixture = await createBuildFixture({ env: { WAVESMITH_TASKS: "2" }, drivesAll: true });
    server = await startServer({
      ...{ app: fixture.app, engine: { kind: "embedded", serveOrigin: null }, key: "the-server's-own-key" },
      ...{ host: "127.0.0.1", port: 0, inform: () => undefined, warn: () => undefined },
    });
    const keyOf = async (tenant: string) =>
      (await createKey(fixture.app.ports, { tenant, name: "all", scope: "admin", validMs: null, createdBy: "a test" }))
        .key;
    [operator, acme] = [await keyOf("default"), await keyOf("acme")];
  });
  afterAll(async () => {
    await server.stop();
    for (const { projectId, driver } of await fixture.app.store.sandboxes.list({}))
      await fixture.app.ports.driver(driver).remove(projectId, { volume: true });
    await fixture.close();
  });

  it("let a tenant start soon while another has a long queue", { timeout: 120_000 }, async () => {
    const queue = await buildOf("default", many(12, "sleep 1"));
    await expect.poll(async () => (await attemptsOf(queue)).length, { timeout: 40_000 }).toBeGreaterThan(0);
    const quick = await buildOf("acme", many(1, "true"));
    await fixture.until(quick);
    const [quickAttempt] = await attemptsOf(quick);
    await fixture.until(queue);
    const queued = await attemptsOf(queue);
    expect(queued).toHaveLength(12);
    expect(queued.filter(({ createdAt }) => createdAt > quickAttempt!.createdAt).length).toBeGreaterThan(0);
    for (const { startedAt } of queued) {
      const together = queued.filter((other) => other.startedAt! <= startedAt! && other.endedAt! > startedAt!);
      expect(together.length).toBeLessThanOrEqual(2);
    }
  });

  it("are set for one tenant by the server's operators, and are kept", { timeout: 60_000 }, async () => {
    const set = await ask(operator, "PUT", "/tenants/acme/limits", { tasks: 1, usd: 12.5, builds: null });
    expect(set.body).toMatchObject({
      limits: { tasks: 1, usd: 12.5, builds: null },
      own: expect.arrayContaining(["tasks", "usd", "builds"]),
    });
    const build = await buildOf("acme", many(4, "sleep 0.2"));
    expect((await fixture.until(build)).status).toBe("completed");
    const attempts = await attemptsOf(build);
    for (const { startedAt } of attempts) {
      const together = attempts.filter((other) => other.startedAt! <= startedAt! && other.endedAt! > startedAt!);
      expect(together).toHaveLength(1);
    }
    expect((await fixture.app.store.builds.get({ id: build })).heldBackAt).toBeNull();
  });

  it("refuse builds over them, and are shown with what is used", async () => {
    const { ports } = fixture.app;
    await limitTenant(ports, "acme", { builds: 0, tasks: "default" });
    const project = projectIdFor("acme", "shared");
    const refused = await ask(acme, "POST", `/projects/${project}/builds`, {
      name: "more",
      tasks: [{ id: "a", run: "true" }],
    });
    expect([refused.status, refused.body.detail]).toEqual([429, "this tenant has 0 unfinished builds, of at most 0"]);
    const listed = await ask(operator, "GET", "/tenants");
    expect(listed.body.items).toMatchObject([
      { name: "acme", limits: { builds: 0, tasks: null, usd: 12.5 }, use: { builds: 0, tasks: 0 } },
      { name: "default", own: [] },
    ]);
  });

  it("are hidden from other tenants", async () => {
    expect((await ask(acme, "GET", "/tenants")).body.items).toMatchObject([{ name: "acme" }]);
    const own = await ask(acme, "PUT", "/tenants/acme/limits", { usd: null });
    expect([own.status, own.body.code]).toEqual([400, "unsupported"]);
    expect((await ask(acme, "PUT", "/tenants/default/limits", { usd: 0 })).status).toBe(404);
    expect((await ask(operator, "PUT", "/tenants/nobody/limits", { usd: 0 })).status).toBe(404);
    expect((await ask(operator, "PUT", "/tenants/acme/limits", { usd: -1 })).status).toBe(400);
    expect((await fixture.app.store.tenants.get({ id: tenantIdFor("default") })).limits).toEqual({});
  });
});
