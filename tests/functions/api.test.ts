import { request as httpRequest } from "node:http";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { z } from "zod";
import { createApp } from "../../src/app.ts";
import type { ServedEngine } from "../../src/server/port.ts";
import { type RunningServer, startServer } from "../../src/server/server.ts";
import { type BuildFixture, createBuildFixture } from "../support/build-fixture.ts";

const key = "s3cret-of-the-api";
const embedded: ServedEngine = { kind: "embedded", serveOrigin: null };
const yaml = "name: served\ntasks:\n  - { id: a, run: 'echo hello; echo a > a.txt' }\n";

type Json = Record<string, never> & { items: Record<string, never>[] };

type JsonSchema = Exclude<Parameters<typeof z.fromJSONSchema>[0], boolean>;

interface OpenApi {
  readonly paths: Record<
    string,
    { get: { responses: { 200: { content: { "application/json": { schema: object } } } } } }
  >;
  readonly components: { readonly schemas: Record<string, JsonSchema> };
}

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Json;
}

interface Sent {
  readonly method?: string;
  readonly body?: string;
  readonly headers?: Record<string, string>;
}

interface Streamed {
  readonly id: number;
  readonly event: string;
  readonly data: Record<string, unknown>;
}

describe("the API", () => {
  let fixture: BuildFixture;
  let server: RunningServer;
  let project: string;
  const warnings: string[] = [];

  const start = (app = fixture.app) =>
    startServer({
      app,
      engine: embedded,
      key,
      host: "127.0.0.1",
      port: 0,
      inform: () => undefined,
      warn: (message) => warnings.push(message),
    });
  const raw = (path: string, { method = "GET", body, headers = {} }: Sent = {}) =>
    fetch(`${server.origin}${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, ...headers },
      ...(body === undefined ? {} : { body }),
      signal: AbortSignal.timeout(20_000),
    });
  const ask = async (path: string, sent: Sent = {}): Promise<Answer> => {
    const response = await raw(`/api/v1${path}`, sent);
    const text = await response.text();
    const isJson = /json/.test(response.headers.get("content-type") ?? "");
    return { status: response.status, headers: response.headers, body: (isJson ? JSON.parse(text) : text) as Json };
  };
  const post = (path: string, body: unknown = {}, headers: Record<string, string> = {}) =>
    ask(path, { method: "POST", body: typeof body === "string" ? body : JSON.stringify(body), headers });
  const build = async (plan: string, headers: Record<string, string> = {}): Promise<Answer> =>
    post(`/projects/${project}/builds`, plan, { "content-type": "application/yaml", ...headers });

  beforeEach(async () => {
    warnings.length = 0;
    fixture = await createBuildFixture();
    server = await start();
    project = fixture.projectId;
    const name = await projectName(fixture);
    expect((await post("/projects", { name })).body).toMatchObject({ id: project, name });
  });
  afterEach(async () => {
    await server.stop();
    await fixture.close();
  });

  /** Reads a stream until `enough`, then hangs up. */
  async function stream(path: string, enough: (events: Streamed[]) => boolean, headers: Record<string, string> = {}) {
    const hangUp = new AbortController();
    const response = await fetch(`${server.origin}/api/v1${path}`, {
      headers: { authorization: `Bearer ${key}`, ...headers },
      signal: AbortSignal.any([hangUp.signal, AbortSignal.timeout(40_000)]),
    });
    const events: Streamed[] = [];
    let text = "";
    for await (const part of response.body!.pipeThrough(new TextDecoderStream())) {
      text += part;
      const parts = text.split("\n\n");
      text = parts.pop()!;
      events.push(...parts.filter((one) => !one.startsWith(":")).map(eventIn));
      if (enough(events)) break;
    }
    hangUp.abort();
    return events;
  }

  it("answers nothing without the key, and names itself to people and programs", async () => {
    for (const authorization of ["", "Bearer wrong", `Basic ${key}`]) {
      const refused = await ask("/builds", { headers: { authorization } });
      expect([refused.status, refused.body.code]).toEqual([401, "unauthorized"]);
      expect(refused.headers.get("content-type")).toBe("application/problem+json");
    }
    const document = (await (await raw("/openapi.json")).json()) as { openapi: string; paths: object };
    expect(document.openapi).toBe("3.1.0");
    expect(Object.keys(document.paths)).toContain("/api/v1/builds/{id}/tasks/{task}/logs");
    const page = await (await raw("/docs")).text();
    expect(page).toContain("/api/v1/plans/check");
    expect(page).not.toMatch(/<script|<link|src=|https?:\/\/(?!\$)/);
  });

  it("answers 201 with the build at once, runs it, and shows all of it", async () => {
    const made = await build(yaml);
    expect([made.status, made.body.status, made.body.projectId]).toEqual([201, "queued", project]);
    const id = String(made.body.id);
    expect(made.headers.get("location")).toBe(`/api/v1/builds/${id}`);
    await fixture.until(id);
    expect((await ask(`/builds/${id}`)).body).toMatchObject({ status: "completed", tasks: [{ id: "a" }] });
    expect((await ask(`/builds/${id}/tasks`)).body).toMatchObject({ items: [{ id: "a", status: "completed" }] });
    expect((await ask(`/builds/${id}/tasks/a`)).body).toMatchObject({ eachAttempt: [{ outcome: "succeeded" }] });
    const log = (await ask(`/builds/${id}/tasks/a/logs`)).body as unknown as { text: string; nextOffset: number };
    expect(log).toMatchObject({ ended: true, text: expect.stringContaining("hello\n") });
    const rest = (await ask(`/builds/${id}/tasks/a/logs?offset=${log.text.indexOf("hello") + 2}`)).body;
    expect(rest.text).toBe(log.text.slice(log.text.indexOf("hello") + 2));
    const followed = await stream(`/builds/${id}/tasks/a/logs?follow=true`, (events) => events.at(-1)?.event === "end");
    expect(followed.map(({ data }) => data.text ?? "").join("")).toBe(log.text);
    expect(await (await raw(`/api/v1/builds/${id}/diff?task=a`)).text()).toContain("+++ b/a.txt");
    expect((await ask(`/builds/${id}/plan`)).body).toMatchObject({ name: "served" });
    expect((await ask(`/builds/${id}/gates`)).body.items.length).toBeGreaterThan(0);
    expect((await ask("/sandboxes")).body).toMatchObject({ items: [{ projectId: project }] });
    expect((await post(`/projects/${project}/sandbox/exec`, { argv: ["cat", "a.txt"] })).body).toMatchObject({
      exitCode: 0,
      stdout: "a\n",
    });
    expect(await post("/sandboxes", { project })).toMatchObject({ status: 200, body: { state: "running" } });
    const [sandbox] = (await ask("/sandboxes")).body.items;
    expect((await ask(`/sandboxes/${sandbox?.id}`, { method: "DELETE" })).status).toBe(200);
    expect(await post("/sandboxes", { project })).toMatchObject({ status: 201, body: { state: "running" } });
    await post("/projects", { name: "unbuilt" });
    expect((await post("/sandboxes", { project: "unbuilt" })).status).toBe(404);
    for (const path of ["/inbox", "/previews", `/builds/${id}/questions`])
      expect([path, (await ask(path)).body.items]).toEqual([path, []]);
  });

  it("answers as its document says, because the client's types are made from it", async () => {
    const id = String((await build(yaml.replace("a.txt", "a.txt; exit 1"))).body.id);
    await fixture.until(id);
    await post(`/builds/${id}/findings`, { text: "It must pass." });
    expect((await post("/keys", { name: "looker" })).status).toBe(201);
    const parts = ["", "/graph", "/gates", "/plan", "/findings", "/tasks", "/tasks/{task}"];
    const ofTask = ["/messages", "/prompt"].map((part) => `/tasks/{task}${part}`);
    const ofProject = ["/snapshots", "/spending", "/files", "/memory"].map((part) => `/projects/{id}${part}`);
    const ofServer = ["/builds", "/inbox", "/sandboxes", "/keys", "/tenants", "/settings", "/schedules", "/session"];
    const paths = [...ofServer, ...ofProject, ...[...parts, ...ofTask].map((part) => `/builds/{id}${part}`)];
    const text = await (await raw("/openapi.json")).text();
    const document = JSON.parse(text.replaceAll("#/components/schemas/", "#/$defs/")) as OpenApi;
    const wrong: object[] = [];
    for (const path of paths) {
      const own = path.startsWith("/projects/") ? project : id;
      const { status, body } = await ask(path.replace("{id}", own).replace("{task}", "a"));
      const { schema } = document.paths[`/api/v1${path}`]!.get.responses[200].content["application/json"];
      const reply = z.fromJSONSchema({ ...schema, $defs: schemasIn(schema, document.components.schemas) });
      const { error } = reply.safeParse(body);
      if (status !== 200 || error !== undefined) wrong.push({ path, status, issues: error?.issues });
    }
    expect(wrong).toEqual([]);
  });

  it("starts one build for an Idempotency-Key, however often it comes, even at the same time", async () => {
    const plan = yaml.replace("echo a", "echo b");
    const answers = await Promise.all([1, 2, 3].map(() => build(plan, { "idempotency-key": "nightly" })));
    expect(answers.map(({ status }) => status)).toEqual([201, 201, 201]);
    expect(new Set(answers.map(({ body }) => body.id)).size).toBe(1);
    const again = await build(plan, { "idempotency-key": "nightly" });
    expect([again.body.id, again.headers.get("idempotent-replayed")]).toEqual([answers[0]!.body.id, "true"]);
    const other = await build(yaml, { "idempotency-key": "nightly" });
    expect([other.status, other.body.code]).toEqual([409, "conflict"]);
    expect((await ask("/builds")).body.items).toHaveLength(1);
    await fixture.until(String(again.body.id));
  });

  it("reports every fault of a plan with its line, and starts nothing", async () => {
    const faulty =
      "name: x\ntasks:\n  - { id: a, run: 'true', dependsOn: [ghost] }\n  - { id: a, run: 'true' }\nodd: 1\n";
    const refused = await build(faulty);
    expect([refused.status, refused.body.code]).toEqual([422, "plan-invalid"]);
    const { faults } = refused.body as unknown as { faults: { line: number | null }[] };
    expect(faults.map(({ line }) => line)).toEqual(expect.arrayContaining([3, 4, 5]));
    const checked = await post("/plans/check", faulty, { "content-type": "application/yaml" });
    expect([checked.status, checked.body.faults]).toEqual([200, faults]);
    // The default header of `curl -d`.
    const untyped = { "content-type": "application/x-www-form-urlencoded" };
    expect((await post("/plans/check", faulty, untyped)).body.faults).toEqual(faults);
    expect((await post("/plans/check", '{"name":"x"', untyped)).body).toMatchObject({ faults: [{ code: "syntax" }] });
    const fine = await post("/plans/check", yaml, { "content-type": "application/yaml" });
    expect(fine.body).toMatchObject({ waves: [{ number: 1, tasks: ["a"] }], criticalPath: ["a"], faults: [] });
    expect((await ask("/builds")).body.items).toEqual([]);
  });

  it("pages its lists, and does not send an unchanged page twice", async () => {
    for (const name of ["p-one", "p-two", "p-three"]) await post("/projects", { name });
    const seen: string[] = [];
    let cursor: string | null = "";
    while (cursor !== null) {
      const page: Json = (await ask(`/projects?limit=2${cursor === "" ? "" : `&cursor=${cursor}`}`)).body;
      seen.push(...page.items.map(({ name }) => String(name)));
      cursor = page.nextCursor ?? null;
    }
    expect(seen).toHaveLength(4);
    expect(seen).toEqual([...seen].sort());
    expect((await ask("/projects?cursor=nonsense")).body).toMatchObject({ status: 400, code: "usage" });
    const etag = (await ask("/projects")).headers.get("etag")!;
    const again = await raw("/api/v1/projects", { headers: { "if-none-match": etag } });
    expect([again.status, await again.text()]).toEqual([304, ""]);
    await post("/projects", { name: "p-four" });
    expect((await raw("/api/v1/projects", { headers: { "if-none-match": etag } })).status).toBe(200);
  });

  it("steers a build: cancel, retry, approve, reject and rollback, with the command line's words", async () => {
    const waiting = await build("name: s\napproval: wave\ntasks:\n  - { id: a, run: 'echo a > a' }\n");
    const id = String(waiting.body.id);
    await fixture.until(id, ({ status }) => status === "waiting");
    expect((await ask("/inbox")).body.items).toMatchObject([{ kind: "build", buildId: id }]);
    const remedy = `wave 1 is waiting; see its changes: wavesmith diff ${id} --wave 1`;
    expect((await ask(`/builds/${id}/diff`)).body).toMatchObject({ status: 404, remedy });
    expect((await post(`/builds/${id}/retry`)).body).toMatchObject({ status: 409, remedy: `wavesmith resume ${id}` });
    expect((await post(`/builds/${id}/reject`)).status).toBe(400);
    expect((await post(`/builds/${id}/approve`, { by: "Ada" })).status).toBe(202);
    expect((await fixture.until(id, ({ status }) => status === "completed")).status).toBe("completed");
    expect((await post(`/builds/${id}/cancel`)).body).toMatchObject({ status: 409, code: "conflict" });
    expect((await post(`/projects/${project}/sandbox/stop`)).body).toMatchObject({ state: "stopped" });
    const roll = (said: object) => post(`/builds/${id}/rollback`, said);
    expect((await roll({ wave: 0 })).body).toMatchObject({ status: "waiting" });
    expect((await roll({ undo: true })).body).toMatchObject({ status: "completed" });
    expect((await roll({ undo: true })).body).toMatchObject({ status: 409 });
    expect((await roll({ wave: 0 })).body).toMatchObject({ status: "waiting" });
    // A sandbox that was stopped meanwhile shows main as it is now.
    const seen = await post(`/projects/${project}/sandbox/exec`, { argv: ["ls"] });
    expect(seen.body).toMatchObject({ exitCode: 0, stdout: "" });
    expect((await post(`/builds/${id}/cancel`, { reason: "enough" })).status).toBe(202);
    expect((await fixture.until(id, ({ status }) => status === "cancelled")).status).toBe("cancelled");
  });

  it("says with retry, resume and an edited plan whether a person answers questions from now on", async () => {
    const failing = "name: s\napproval: wave\ntasks:\n  - { id: a, run: 'test -e ok' }\n";
    const id = String((await build(failing)).body.id);
    const isInteractive = async () => (await fixture.app.store.builds.get({ id })).interactive;
    const ended = () => fixture.until(id, ({ status }) => status === "failed" || status === "waiting");
    await ended();
    expect(await isInteractive()).toBe(false);
    expect((await post(`/builds/${id}/resume`, { interactive: true })).status).toBe(409);
    for (const [said, expected] of [
      [{ interactive: true }, true],
      [{}, true],
      [{ interactive: false }, false],
    ] as const) {
      expect((await post(`/builds/${id}/retry`, said)).status).toBe(202);
      expect(await isInteractive()).toBe(expected);
      await ended();
    }
    const edit = (query: string, plan: string) =>
      ask(`/builds/${id}/plan${query}`, { method: "PUT", body: plan, headers: { "content-type": "application/yaml" } });
    expect((await edit("?interactive=maybe", failing)).status).toBe(400);
    expect((await edit("?interactive=true", failing.replace("test -e ok", "echo a > a; sleep 30"))).status).toBe(200);
    expect(await isInteractive()).toBe(true);
    // It is at work, so there is nothing to resume but this.
    expect((await post(`/builds/${id}/resume`)).status).toBe(409);
    expect((await post(`/builds/${id}/resume`, { interactive: false })).status).toBe(202);
    expect(await isInteractive()).toBe(false);
    await post(`/builds/${id}/cancel`);
    await fixture.until(id, ({ status }) => status === "cancelled");
    await edit("", failing.replace("test -e ok", "echo a > a"));
    expect((await ended()).status).toBe("waiting");
    expect((await post(`/builds/${id}/resume`, { interactive: true })).body).toMatchObject({ code: "conflict" });
    expect(await isInteractive()).toBe(false);
  });

  it("drafts a plan from a brief, and builds it once it is approved", async () => {
    const drafted = {
      name: "made",
      tasks: [{ id: "a", agent: "backend", instructions: "write a.txt", acceptance: [{ check: "test -e a.txt" }] }],
      gates: { testing: { command: "echo 1..1; echo ok 1 - fine" } },
    };
    const agents = {
      planner: { runtime: "command", command: `echo '${JSON.stringify(drafted)}' > "$WAVESMITH_RESULT_FILE"` },
      default: { runtime: "command", command: "echo a > a.txt" },
    };
    const request = { brief: "one file", agents, requestedBy: "Ada", metadata: { ticket: "SHOP-1" } };
    const started = await post(`/projects/${project}/builds`, request);
    const id = String(started.body.id);
    expect([started.status, started.body.brief]).toEqual([201, "one file"]);
    await fixture.until(id, async () => (await ask(`/builds/${id}`)).body.status === ("waiting" as never));
    const { items } = (await ask("/inbox")).body;
    expect(items).toMatchObject([{ kind: "build", buildId: id, decision: "plan" }]);
    expect((await ask(`/builds/${id}/plan`)).body).toMatchObject({
      tasks: [
        { key: "plan", agent: "planner" },
        { key: "a", agent: "backend" },
      ],
    });
    expect((await post(`/builds/${id}/approve`, { by: "Ada" })).status).toBe(202);
    expect(await fixture.until(id)).toMatchObject({ status: "completed", metadata: { ticket: "SHOP-1" } });
    expect(await fixture.git("show", "main:a.txt")).toBe("a\n");
  });

  it("streams every event once and in order, even across a restart of the server", async () => {
    const id = String((await build(yaml)).body.id);
    const isOver = (events: Streamed[]) => events.some(({ event }) => event === "project/build.completed");
    const first = await stream(`/builds/${id}/events`, (events) => events.length >= 3);
    await server.stop();
    server = await start();
    const last = String(first.at(-1)!.id);
    const second = await stream(`/builds/${id}/events`, isOver, { "last-event-id": last });
    const whole = await stream(`/builds/${id}/events`, isOver);
    expect([...first, ...second].map((one) => one.id)).toEqual(whole.map((one) => one.id));
    expect(whole[0]).toMatchObject({ event: "project/build.requested", data: { type: "project/build.requested" } });
    const rows = await fixture.app.store.outbox.list({ buildId: id });
    expect(new Set(whole.map((one) => one.id))).toEqual(new Set(rows.map(({ seq }) => seq)));
    const ofProject = await stream(`/projects/${project}/events`, isOver);
    expect(ofProject.map((one) => one.id)).toEqual(expect.arrayContaining(whole.map((one) => one.id)));
    const unknown = await ask(`/builds/${id}/events`, { headers: { "last-event-id": "999999999" } });
    expect([unknown.status, unknown.body.code]).toEqual([404, "not-found"]);
  });

  it("goes on at another replica, which learns of events from the database alone", async () => {
    const plan = { name: "served", tasks: [{ id: "a", run: "until test -e ../../../cache/go; do sleep 0.05; done" }] };
    const id = String((await build(JSON.stringify(plan))).body.id);
    const isOver = (events: Streamed[]) => events.some(({ event }) => event === "project/build.completed");
    const first = await stream(`/builds/${id}/events`, (events) => events.length >= 3);
    const replica = await createApp({ config: fixture.app.config, warn: (message) => warnings.push(message) });
    const usual = server;
    server = await start(replica);
    try {
      let isBehind = false;
      const second = stream(
        `/builds/${id}/events`,
        (events) => {
          isBehind = events.length > 0;
          return isOver(events);
        },
        { "last-event-id": String(first.at(-1)!.id) },
      );
      await fixture.until(id, async () => isBehind);
      const { guest } = (await fixture.app.ports.driver(fixture.app.config.sandboxDriver).find(project as never))!;
      await guest.writeFile("cache/go", "");
      const seen = [...first, ...(await second)].map((one) => one.id);
      await server.stop();
      server = usual;
      expect(seen).toEqual((await stream(`/builds/${id}/events`, isOver)).map((one) => one.id));
    } finally {
      await replica.close();
    }
  });

  it("loses no event that commits after one with a higher number", async () => {
    const id = String((await build(yaml)).body.id);
    await fixture.until(id);
    const before = await stream(`/builds/${id}/events?follow=false`, () => false);
    let commit: () => void = () => undefined;
    const held = new Promise<void>((resolve) => {
      commit = resolve;
    });
    let isHeld: () => void = () => undefined;
    const holding = new Promise<void>((resolve) => {
      isHeld = resolve;
    });
    const data = { tenantId: "t", projectId: project, buildId: id, sandboxId: "s", driver: "local", reason: "lost" };
    const emit = (eventId: string, wait: () => Promise<void>) =>
      fixture.app.store.transaction("test", async (transaction) => {
        await transaction.emit({ id: eventId, name: "sandbox/lost", data });
        await wait();
      });
    const early = emit("early", () => {
      isHeld();
      return held;
    });
    await holding;
    await emit("late", async () => undefined);
    const last = String(before.at(-1)!.id);
    const names = stream(`/builds/${id}/events`, (events) => events.length >= 2, { "last-event-id": last });
    commit();
    await early;
    expect((await names).map(({ data }) => data.eventId)).toEqual(["early", "late"]);
  });

  it("keeps serving beside a follower that never reads", async () => {
    const id = String((await build(yaml)).body.id);
    const idle = httpRequest(`${server.origin}/api/v1/builds/${id}/events`, {
      headers: { authorization: `Bearer ${key}` },
    });
    idle.on("error", () => undefined); // the server cuts it off at the end
    idle.end();
    await fixture.until(id);
    expect((await ask(`/builds/${id}`)).status).toBe(200);
    idle.destroy();
  });

  it("refuses bodies that are too large, hostile or invalid for the route", async () => {
    const cases: [string, string, number][] = [
      ["/projects", `{"name":"${"x".repeat(50 * 1024 * 1024)}"}`, 413],
      ["/projects", '{"__proto__":{"name":"x"}}', 400],
      ["/projects", '{"name":"x","odd":1}', 400],
      ["/projects", '{"name":"a\\u0000b"}', 400],
      ["/projects", "{", 400],
      ["/projects", `${"[".repeat(1_000_000)}${"]".repeat(1_000_000)}`, 400],
      [`/projects/${project}/builds`, `{"plan":${"[".repeat(9_000)}${"]".repeat(9_000)}}`, 422],
      [`/projects/${project}/builds`, `${"[".repeat(9_000)}${"]".repeat(9_000)}`, 422],
      ["/plans/check", `${"[".repeat(1_000_000)}${"]".repeat(1_000_000)}`, 200],
      ["/projects", "[]", 400],
      ["/projects", "", 400],
      [`/projects/${project}/builds`, '{"plan":{"name":"x","tasks":[]},"odd":1}', 400],
      [`/projects/${project}/builds`, '{"plan":{"name":"x","source":{"path":"/etc"},"tasks":[]}}', 422],
      [`/projects/${project}/builds`, '{"__proto__":1,"brief":"x"}', 400],
      [`/projects/${project}/builds`, "", 422],
      [`/projects/${project}/builds`, "null", 422],
      ["/projects/prj_none/builds", "{}", 404],
      ["/builds/bld_none/cancel", "{}", 404],
    ];
    for (const [path, body, status] of cases) {
      const answer = await post(path, body);
      expect([path, body.slice(0, 60), answer.status]).toEqual([path, body.slice(0, 60), status]);
    }
    const said: [string, string, string][] = [
      ["/projects", "{}", "name is missing"],
      ["/projects", '{"name":5,"odd":1}', "name must be text; the body has the unknown key odd"],
      ["/projects", '{"name":""}', "name must have at least 1 character"],
      ["/projects", "[]", "the body must be an object"],
      ["/keys", '{"name":"x","scope":"all"}', "scope must be read or build or admin"],
      ["/keys", '{"name":"x","expiresInDays":0}', "expiresInDays must be at least 1"],
      [
        "/keys",
        '{"name":"x","expiresInDays":1,"expiresInHours":1}',
        "expiresInDays and expiresInHours cannot be used together",
      ],
      [`/projects/${project}/builds`, '{"plan":{},"metadata":"x"}', "metadata must be a JSON object"],
      [`/projects/${project}/builds`, '{"plan":{},"brief":"x"}', "a request has only one of plan, planUrl and brief"],
      ["/builds/bld_none/rollback", "{}", "the body has none of the forms that it may have"],
    ];
    for (const [path, body, detail] of said) expect((await post(path, body)).body).toMatchObject({ detail });
    const bomb = `a: &a [x,x,x,x,x,x,x,x,x]\n${[..."bcdefghi"].map((name, at) => `${name}: &${name} [${`*${"abcdefgh"[at]},`.repeat(9)}]`).join("\n")}`;
    expect((await build(bomb)).status).toBe(422);
    for (const path of [
      "/builds/%00",
      "/builds/..%2f..",
      "/builds/x'%20or%201=1--/tasks",
      "/projects?limit=0",
      "/builds?status=odd",
    ])
      expect([path, (await ask(path)).status < 500]).toEqual([path, true]);
  });
});

function eventIn(text: string): Streamed {
  const fields = new Map(
    text.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]),
  );
  return { id: Number(fields.get("id")), event: fields.get("event")!, data: JSON.parse(fields.get("data")!) };
}

async function projectName({ app }: BuildFixture): Promise<string> {
  return app.config.dataDir.split("/").at(-1)!;
}

type Schemas = OpenApi["components"]["schemas"];

/**
 * The named schemas that a schema needs, because converting them all for each reply takes seconds.
 */
function schemasIn(schema: object, all: Schemas, known: Record<string, Schemas[string]> = {}): Schemas {
  for (const [, name = ""] of JSON.stringify(schema).matchAll(/#\/\$defs\/(\w+)/g)) {
    const named = all[name];
    if (named === undefined || name in known) continue;
    known[name] = named;
    schemasIn(named, all, known);
  }
  return known;
}
