import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createKey } from "../../src/api/keys.ts";
import { type RunningServer, startServer } from "../../src/server/server.ts";
import { type BuildFixture, createBuildFixture } from "../support/build-fixture.ts";

const plan = "name: fetched\ngates: { testing: false, integration: false }\ntasks:\n  - { id: a, run: 'true' }\n";

describe("the settings of a server", () => {
  let fixture: BuildFixture;
  let server: RunningServer;
  let plans: Server;
  let operator: string;
  let changes = 0;

  const ask = async (
    key: string,
    method: string,
    path: string,
    body?: string,
    headers: Record<string, string> = {},
  ) => {
    const response = await fetch(`${server.origin}/api/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, ...headers },
      ...(body === undefined ? {} : { body }),
      signal: AbortSignal.timeout(20_000),
    });
    const json = (await response.json()) as Record<string, unknown>;
    return { status: response.status, etag: response.headers.get("etag") ?? "", body: json };
  };
  const keyOf = async (tenant: string, scope: "admin" | "build" = "admin") => {
    const wanted = { tenant, name: scope, scope, validMs: null, createdBy: "a test" };
    return (await createKey(fixture.app.ports, wanted)).key;
  };
  const put = (text: string, headers: Record<string, string> = {}) =>
    ask(operator, "PUT", "/settings", text, { "content-type": "application/yaml", ...headers });

  beforeAll(async () => {
    plans = createServer(({ url }, response) => {
      if (url === "/plan.yaml") response.end(plan);
      else if (url === "/changing.yaml") response.end(plan.replace("fetched", `fetched-${++changes}`));
      else response.end("name: faulty\ntasks: []\n");
    });
    await new Promise<void>((resolve) => plans.listen(0, "127.0.0.1", resolve));
    fixture = await createBuildFixture({
      env: { WAVESMITH_PLAN_HOSTS: "127.0.0.1", ANTHROPIC_API_KEY: "sk-ant-hidden" },
    });
    server = await startServer({
      ...{ app: fixture.app, engine: { kind: "embedded", serveOrigin: null }, key: "the-server's-own-key" },
      ...{ host: "127.0.0.1", port: 0, inform: () => undefined, warn: () => undefined },
    });
    operator = await keyOf("default");
  });
  afterAll(async () => {
    plans.close();
    await server.stop();
    await fixture.close();
  });

  it("are shown with their sources, and without secrets", async () => {
    const { status, etag, body } = await ask(operator, "GET", "/settings");
    expect([status, etag, body.text, body.restartNeeded]).toEqual([200, body.tag, "", false]);
    expect(body.items).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ name: "WAVESMITH_PLAN_HOSTS", key: "network.planHosts", source: "environment" }),
        expect.objectContaining({ name: "ANTHROPIC_API_KEY", value: null, isSecret: true, isSet: true }),
      ]),
    );
    expect(JSON.stringify(body)).not.toMatch(/hidden|settings\.yaml/);
  });

  it("are replaced only with a file without faults, and only from the current version", async () => {
    const { etag } = await ask(operator, "GET", "/settings");
    const faulty = await put("limits:\n  tasks: many\n");
    expect([faulty.status, faulty.body.code]).toEqual([422, "settings-invalid"]);
    expect(faulty.body.faults).toMatchObject([{ path: "limits.tasks", line: 2 }]);
    const replaced = await put("limits: { tasks: 4 }\n", { "if-match": etag });
    expect(replaced).toMatchObject({ status: 200, body: { text: "limits: { tasks: 4 }\n", restartNeeded: true } });
    expect(replaced.etag).not.toBe(etag);
    const late = await put("limits: { tasks: 5 }\n", { "if-match": etag });
    expect([late.status, late.body.code]).toEqual([409, "conflict"]);
    expect((await ask(operator, "GET", "/settings")).body.text).toBe("limits: { tasks: 4 }\n");
    expect((await put("{}", { "if-match": "*" })).status).toBe(200);
  });

  it("are hidden from other tenants, and from keys that only build", async () => {
    const [stranger, builder] = [await keyOf("acme"), await keyOf("default", "build")];
    for (const [key, status] of [
      [stranger, 404],
      [builder, 403],
    ] as const) {
      expect((await ask(key, "GET", "/settings")).status).toBe(status);
      expect((await ask(key, "PUT", "/settings", "{}")).status).toBe(status);
      // It would send the provider's key to another address.
      const elsewhere = JSON.stringify({ models: { compatibleUrl: "https://elsewhere.example" } });
      expect((await ask(key, "PUT", "/settings", elsewhere)).status).toBe(status);
    }
    expect((await ask(operator, "GET", "/settings")).body.text).not.toContain("elsewhere");
  });

  it("say from which hosts a build's plan may be fetched", { timeout: 60_000 }, async () => {
    const name = fixture.app.config.dataDir.split("/").at(-1) ?? "";
    await ask(operator, "POST", "/projects", JSON.stringify({ name }));
    const origin = `127.0.0.1:${(plans.address() as AddressInfo).port}`;
    const start = (request: object) => ask(operator, "POST", `/projects/${name}/builds`, JSON.stringify(request));
    const made = await start({ planUrl: `http://${origin}/plan.yaml`, requestedBy: "ada" });
    expect([made.status, made.body.detail]).toEqual([201, undefined]);
    expect((await fixture.until(String(made.body.id))).status).toBe("completed");
    expect((await ask(operator, "GET", `/builds/${made.body.id}/plan`)).body.name).toBe("fetched");
    expect(await start({ planUrl: `http://${origin}/faulty` })).toMatchObject({ status: 422 });
    const refused = await start({ planUrl: "https://localhost/plan.yaml" });
    expect(refused).toMatchObject({
      status: 400,
      body: { detail: expect.stringContaining("its address is not public") },
    });
    expect(await start({ planUrl: `http://${origin}/plan.yaml`, plan })).toMatchObject({ status: 400 });
  });

  it("start one build of a planUrl for an Idempotency-Key, even if the plan at the address changes", async () => {
    const name = fixture.app.config.dataDir.split("/").at(-1) ?? "";
    await ask(operator, "POST", "/projects", JSON.stringify({ name }));
    const origin = `http://127.0.0.1:${(plans.address() as AddressInfo).port}`;
    const start = (planUrl: string) =>
      ask(operator, "POST", `/projects/${name}/builds`, JSON.stringify({ planUrl }), { "idempotency-key": "nightly" });
    const first = await start(`${origin}/changing.yaml`);
    const again = await start(`${origin}/changing.yaml`);
    expect([first.status, again.status, again.body.id]).toEqual([201, 201, first.body.id]);
    expect(changes).toBe(1);
    expect((await start(`${origin}/plan.yaml`)).status).toBe(409);
    await fixture.until(String(first.body.id));
  });
});
