import { basename } from "node:path";
import { Pool } from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createKey } from "../../src/api/keys.ts";
import { tenantIdFor } from "../../src/coordinator/build/request/project.ts";
import { type RunningServer, startServer } from "../../src/server/server.ts";
import { poolForTenant } from "../../src/store/connection/tenant-pool.ts";
import { type BuildFixture, createBuildFixture } from "../support/build-fixture.ts";

const secret = "the-word-of-the-owner";
const plan = `name: owned
approval: wave
tasks:
  - { id: first, title: ${secret}, run: 'echo ${secret}; echo a > a.txt' }
  - { id: second, run: 'true', dependsOn: [first] }
`;

interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly Schema[];
  readonly minimum?: number;
  readonly default?: unknown;
  readonly items?: Schema;
  readonly minItems?: number;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
}

interface Route {
  readonly method: string;
  readonly path: string;
  readonly body: Schema | null;
  readonly media: string;
}

describe("a tenant", () => {
  let fixture: BuildFixture;
  let server: RunningServer;
  let pool: Pool;
  let owner: string;
  let stranger: string;
  let routes: Route[];
  let schemas: Readonly<Record<string, Schema>>;
  let buildId: string;
  /** The name of the owner's project. */
  let name: string;
  /** The owner's ids, by the word that precedes them in a path. */
  let ids: Readonly<Record<string, string>>;

  const ask = (key: string, method: string, path: string, body?: string, media = "application/json") =>
    fetch(`${server.origin}${path}`, {
      method: method.toUpperCase(),
      headers: { authorization: `Bearer ${key}`, ...(body === undefined ? {} : { "content-type": media }) },
      ...(body === undefined ? {} : { body }),
      signal: AbortSignal.timeout(20_000),
    });

  beforeAll(async () => {
    fixture = await createBuildFixture();
    server = await startServer({
      app: fixture.app,
      engine: { kind: "embedded", serveOrigin: null },
      key: "the-server's-key",
      host: "127.0.0.1",
      port: 0,
      inform: () => undefined,
      warn: () => undefined,
    });
    pool = new Pool({ connectionString: fixture.app.config.databaseUrl ?? "" });
    const keyOf = (tenant: string) =>
      createKey(fixture.app.ports, { tenant, name: "all", scope: "admin", validMs: null, createdBy: "a test" });
    const own = await keyOf("default");
    [owner, stranger] = [own.key, (await keyOf("acme")).key];
    const { store, config } = fixture.app;
    name = basename(config.dataDir);
    await store.projects.insert({ id: fixture.projectId, tenantId: tenantIdFor("default"), name });
    const made = await ask(owner, "post", `/api/v1/projects/${name}/builds`, plan, "application/yaml");
    expect(made.status).toBe(201);
    buildId = ((await made.json()) as { id: string }).id;
    await fixture.until(buildId, ({ status }) => status === "waiting");
    await fillOtherTables(fixture, buildId);
    const sandbox = await store.sandboxes.find({ projectId: fixture.projectId });
    ids = {
      ...{ builds: buildId, previews: buildId, projects: fixture.projectId },
      ...{ sandboxes: sandbox?.id ?? "", keys: own.view.id },
    };
    const document = (await (await ask(owner, "get", "/openapi.json")).json()) as {
      paths: Record<string, Record<string, { requestBody?: { content: Record<string, { schema: Schema }> } }>>;
      components: { schemas: Record<string, Schema> };
    };
    schemas = document.components.schemas;
    routes = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, { requestBody }]) => {
        const [media = "application/json", content] = Object.entries(requestBody?.content ?? {})[0] ?? [];
        return { method, path, body: content?.schema ?? null, media };
      }),
    );
  }, 120_000);
  afterAll(async () => {
    await pool.end();
    await server.stop();
    await fixture.close();
  });

  /** The path with the owner's ids, or with ids that nobody has. */
  const filled = (path: string, known: boolean): string =>
    path
      .replace(/(\w+)\/\{id\}/, (_, noun) => `${noun}/${known ? ids[noun] : "nobody-has-this"}`)
      .replace(/\{task\}/, "first")
      .replace(/\{\w+\}/g, "1");
  const sample = (schema: Schema): unknown => {
    const { $ref, type, anyOf } = schema;
    if ($ref !== undefined) return sample(schemas[$ref.split("/").at(-1) ?? ""] ?? {});
    if (schema.const !== undefined) return schema.const;
    if (schema.enum !== undefined) return schema.enum[0];
    if (anyOf?.[0] !== undefined) return sample(anyOf[0]);
    if (type === "object")
      return Object.fromEntries((schema.required ?? []).map((key) => [key, sample(schema.properties?.[key] ?? {})]));
    if (type === "array") return schema.minItems === undefined ? [] : [sample(schema.items ?? {})];
    if (type === "integer" || type === "number") return Math.max(schema.minimum ?? 0, 1);
    return type === "boolean" ? true : "x";
  };
  const bodyOf = ({ body, media }: Route): string | undefined => {
    if (body === null) return undefined;
    return media === "application/yaml" ? plan : JSON.stringify(sample(body));
  };

  it("gets the same answer for another tenant's ids as for unknown ids, on every route", async () => {
    const checked: string[] = [];
    for (const route of routes.filter(({ path }) => path.includes("{id}"))) {
      const body = bodyOf(route);
      const [known, unknown] = [filled(route.path, true), filled(route.path, false)];
      const answers = await Promise.all(
        [known, unknown].map(async (path) => {
          const response = await ask(stranger, route.method, path, body, route.media);
          const text = (await response.text()).replaceAll(path.split("/")[4] ?? "", "ID");
          return `${response.status} ${text}`;
        }),
      );
      const at = `${route.method} ${route.path}`;
      expect(`${at}: ${answers[0]}`).toBe(`${at}: ${answers[1]}`);
      expect(answers[0]).toMatch(/^40[04] /);
      if (answers[0]?.startsWith("404 ")) checked.push(at);
    }
    expect(checked.length).toBeGreaterThan(20);
    // By the name that the owner gave it, the project is unknown as well.
    expect((await ask(stranger, "get", `/api/v1/projects/${name}`)).status).toBe(404);
    expect((await ask(owner, "get", `/api/v1/projects/${name}`)).status).toBe(200);
    expect((await fixture.app.store.builds.get({ id: buildId })).status).toBe("waiting");
  });

  it("sees nothing of another tenant in any list", async () => {
    // Not the stranger, whose own audit log contains the ids that it asked for.
    const { key: newcomer } = await createKey(fixture.app.ports, {
      ...{ tenant: "newcomer", name: "all", scope: "admin", validMs: null, createdBy: "a test" },
    });
    const lists = routes.filter(({ method, path }) => method === "get" && !path.includes("{"));
    let seen = "";
    for (const { path } of lists) {
      const text = await (await ask(newcomer, "get", path)).text();
      for (const own of [...Object.values(ids), secret]) expect(`${path}: ${text}`).not.toContain(own);
      seen += await (await ask(owner, "get", path)).text();
    }
    for (const own of Object.values(ids)) expect(seen).toContain(own);
  });

  it("neither reads nor changes another tenant's memory, comments and messages", async () => {
    const memory = `/api/v1/projects/${fixture.projectId}/memory`;
    const askMemory = (key: string, headers: Record<string, string>, text?: string) =>
      fetch(`${server.origin}${memory}`, {
        ...(text === undefined ? {} : { method: "PUT", body: JSON.stringify({ text }) }),
        headers: { authorization: `Bearer ${key}`, ...headers },
      });
    const before = (await askMemory(owner, {})).headers.get("etag") ?? "";
    const written = await askMemory(owner, { "if-match": before }, "Doors are green.");
    const now = written.headers.get("etag") ?? "";
    expect([written.status, now === before]).toEqual([200, false]);
    expect((await askMemory(owner, { "if-match": before }, "Lost.")).status).toBe(409);
    expect((await askMemory(owner, { "if-none-match": now })).status).toBe(304);

    const ofBuild = `/api/v1/builds/${buildId}`;
    const said = JSON.stringify({ text: "forged" });
    const refused = [
      await askMemory(stranger, {}),
      await askMemory(stranger, { "if-none-match": now }),
      await askMemory(stranger, { "if-match": now }, "forged"),
      await askMemory(stranger, {}, "forged"),
      await ask(stranger, "get", `${ofBuild}/findings`),
      await ask(stranger, "post", `${ofBuild}/findings`, said),
      await ask(stranger, "get", `${ofBuild}/tasks/first/messages`),
      await ask(stranger, "post", `${ofBuild}/tasks/first/messages`, said),
    ];
    expect(refused.map(({ status }) => status)).toEqual(Array(8).fill(404));
    expect(await (await askMemory(owner, {})).json()).toEqual({ text: "Doors are green.", tag: now });
    const { store } = fixture.app;
    const rows = [await store.findings.list({}), await store.messages.list({ buildId })];
    expect(JSON.stringify(rows)).not.toContain("forged");
  });

  it("has its own projects and builds, even under a name that another tenant uses", async () => {
    const made = await ask(stranger, "post", "/api/v1/projects", JSON.stringify({ name }));
    expect(made.status).toBe(201);
    const { id } = (await made.json()) as { id: string };
    expect(id).not.toBe(fixture.projectId);
    const build = await ask(stranger, "post", `/api/v1/projects/${name}/builds`, plan, "application/yaml");
    expect(build.status).toBe(201);
    const own = (await build.json()) as { id: string; projectId: string };
    expect(own.projectId).toBe(id);
    const row = await fixture.app.store.builds.get({ id: own.id });
    expect(row.tenantId).toBe(tenantIdFor("acme"));
    const requests = await fixture.app.store.outbox.list({ buildId: own.id });
    expect(requests.map(({ tenantId }) => tenantId)).toEqual([tenantIdFor("acme")]);
    expect((await ask(owner, "get", `/api/v1/builds/${own.id}`)).status).toBe(404);
    expect((await ask(stranger, "post", `/api/v1/builds/${own.id}/cancel`, "{}")).status).toBe(202);
  });

  it("may not use this machine's secrets in a plan", async () => {
    const named = JSON.stringify({ name: "owned", secrets: ["PATH"], tasks: [{ id: "a", run: "true" }] });
    await ask(stranger, "post", "/api/v1/projects", '{"name":"thief"}');
    expect((await ask(stranger, "post", "/api/v1/projects/thief/builds", named)).status).toBe(400);
  });

  it("finds no row of another tenant in any table, and can neither change nor forge one", async () => {
    const { rows: tables } = await pool.query<{ name: string; apart: boolean }>(
      `select relname as name, relrowsecurity as apart from pg_class
       where relnamespace = 'public'::regnamespace and relkind = 'r' order by 1`,
    );
    // For a new table: `ofOneTenant` in src/store/schema.ts says what it needs.
    const ofNobody = ["exported_spans", "installations"];
    expect(tables.filter(({ apart }) => !apart).map(({ name }) => name)).toEqual(ofNobody);
    const views = { own: poolForTenant(pool, tenantIdFor("default")), other: poolForTenant(pool, tenantIdFor("none")) };
    const count = async (view: Pool, table: string) => {
      const client = await view.connect();
      const { rows } = await client.query(`select count(*)::int as number from "${table}"`);
      client.release();
      return Number(rows[0].number);
    };
    let filled = 0;
    for (const { name } of tables.filter(({ apart }) => apart)) {
      expect([name, await count(views.other, name)]).toEqual([name, 0]);
      if ((await count(views.own, name)) > 0) filled += 1;
    }
    expect(filled).toBeGreaterThan(24);
    const client = await views.other.connect();
    expect((await client.query("update builds set reason = 'taken'")).rowCount).toBe(0);
    expect((await client.query("delete from log_chunks")).rowCount).toBe(0);
    const forged = "insert into projects (id, tenant_id, name) values ('proj_x', $1, 'x')";
    await expect(client.query(forged, [tenantIdFor("default")])).rejects.toThrow(/row-level security/);
    await expect(client.query("select * from installations")).rejects.toThrow(/permission denied/);
    client.release(true);
  });
});

/** Rows in the tables that the build itself leaves empty. */
async function fillOtherTables({ app, projectId }: BuildFixture, buildId: string): Promise<void> {
  const { store } = app;
  const { id: sandboxId } = (await store.sandboxes.find({ projectId })) ?? { id: "" };
  const wave = await store.waves.get({ buildId, number: 1 });
  const job = (await store.jobs.list({ buildId }))[0];
  const at = new Date();
  await store.snapshots.insert({
    ...{ id: "snap_1", projectId, sandboxId, state: "writing", reason: "asked", format: "tar.gz", expiresAt: at },
  });
  await store.previews.insert({
    ...{ buildId, waveNumber: 1, sha: "0".repeat(40), status: "stopped", port: 0, jobKey: "preview-x" },
  });
  await store.questions.insert({
    ...{ buildId, jobKey: job?.key ?? "", name: "q", role: "default", text: secret, reason: "r", options: [] },
    ...{ askedAt: at, deadlineAt: new Date(at.getTime() + 60_000) },
  });
  await store.approvals.insert({ id: "appr_1", buildId, waveId: wave.id, sha: "0".repeat(40), decision: "approved" });
  const gate = await store.gateRuns.find({ buildId });
  await store.findings.insert({ gateRunId: gate?.id ?? "", rule: "r", severity: "low", message: secret });
  const before = { status: "waiting" } as never;
  await store.rollbacks.insert({ buildId, epoch: 1, fromSha: null, toSha: "0".repeat(40), before });
  await store.buildSpending.insertIfAbsent({ buildId });
  await store.modelCalls.insert({
    ...{ id: "call_1", buildId, ownerKind: "gate", ownerId: "x", provider: "p", model: "m", status: "open" },
    ...{ reservedTokens: 1, reservedMicroUsd: null },
  });
  const tenantId = tenantIdFor("default");
  await store.sessions.insert({ id: "s", tenantId, kind: "session", keyHash: "h", expiresAt: at });
  await store.auditEntries.insert({ tenantId, actor: "a", via: "cli", action: "x", result: 0 });
}
