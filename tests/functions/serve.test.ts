import { EventEmitter, once } from "node:events";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { retryBuild } from "../../src/coordinator/build/retry-build.ts";
import { requestCancel, takeCancelRequest } from "../../src/coordinator/build/stop/cancel-build.ts";
import { eventSchemas } from "../../src/domain/events/events.ts";
import { buildIdForEvent } from "../../src/domain/events/request-ids.ts";
import type { ServedEngine } from "../../src/server/port.ts";
import { type RunningServer, startServer } from "../../src/server/server.ts";
import { type BuildFixture, createBuildFixture } from "../support/build-fixture.ts";
import { type FakeInngest, startFakeInngest } from "../support/fake-inngest.ts";

const plan = { name: "served", tasks: [{ id: "a", run: "echo a > a.txt" }] };

/** Sends a request with any Host, which `fetch` cannot do. */
async function statusFor(origin: string, headers: Record<string, string>): Promise<number> {
  const { request } = await import("node:http");
  return new Promise((resolve, reject) => {
    request(`${origin}/healthz`, { headers }, (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    })
      .on("error", reject)
      .end();
  });
}

describe("serve with the embedded engine", () => {
  let fixture: BuildFixture;
  let server: RunningServer;
  const warnings: string[] = [];
  const embedded: ServedEngine = { kind: "embedded", serveOrigin: null };
  const start = (engine: ServedEngine = embedded, host = "127.0.0.1") =>
    startServer({
      app: fixture.app,
      engine,
      key: "s3cret",
      host,
      port: 0,
      inform: () => undefined,
      warn: (message) => warnings.push(message),
    });
  const post = async (body: unknown, key = "s3cret") => {
    const response = await fetch(`${server.origin}/e/${key}`, {
      method: "POST",
      body: typeof body === "string" ? body : JSON.stringify(body),
    });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };

  /** Resolves once the build that an event requested is over. */
  const ended = async (eventId: string) => {
    const id = buildIdForEvent(eventId);
    await expect.poll(() => fixture.app.store.builds.find({ id }), { timeout: 20_000 }).not.toBeNull();
    return fixture.until(id);
  };

  beforeEach(async () => {
    fixture = await createBuildFixture();
    server = await start();
  });
  afterEach(async () => {
    await server.stop();
    await fixture.close();
  });

  it("runs a build that was requested only over HTTP, once however often the request arrives", async () => {
    // The fixture drives one project, under this name in events.
    const project = (await projectName(fixture)) ?? "";
    const event = { name: "project/build.requested", id: "by-curl", data: { project, plan } };
    const buildId = buildIdForEvent("by-curl");
    const answered = (repeated: boolean) => ({ id: "by-curl", buildId, repeated });
    expect(await post(event)).toEqual({
      status: 200,
      body: { ids: ["by-curl"], status: 200, builds: [answered(false)] },
    });
    const again = { ids: ["by-curl", "by-curl"], status: 200, builds: [answered(true), answered(true)] };
    expect(await post([event, event])).toEqual({ status: 200, body: again });
    expect((await ended("by-curl")).status).toBe("completed");
    expect(await fixture.app.store.builds.list({})).toHaveLength(1);
    const approved = await post({ name: "project/wave.approved", data: { buildId, waveNumber: 7 } });
    expect([approved.status, JSON.stringify(approved.body)]).toEqual([404, expect.stringMatching(/has no wave 7/)]);
  });

  it("carries the metadata of a request on every event of its build, and never reads it", async () => {
    const project = await projectName(fixture);
    const metadata = { ticket: 7, plan: "none of ours", deep: { list: [null, true, "ünï"] } };
    const event = { name: "project/build.requested", id: "carried", data: { project, plan, metadata } };
    expect((await post(event)).status).toBe(200);
    const build = await ended("carried");
    const rows = await fixture.app.store.outbox.list({});
    expect(new Set(rows.map(({ name }) => name))).toContain("sandbox/started");
    expect(rows.length).toBeGreaterThan(8);
    for (const { name, data } of rows) expect([name, data.metadata]).toEqual([name, metadata]);
    await post({ name: "project/build.cancel-requested", id: "late", data: { buildId: build.id } });
    expect((await fixture.app.store.outbox.get({ eventId: "late" })).data.metadata).toEqual(metadata);
  });

  it("refuses metadata that is not a JSON object of at most 16 KB", async () => {
    const nest = (depth: number): object => JSON.parse(`${'{"in":'.repeat(depth)}{}${"}".repeat(depth)}`);
    const [nested, shallower] = [nest(1_000), nest(100)];
    const cases: [unknown, RegExp][] = [
      ["text", /metadata must be a JSON object/],
      [["list"], /metadata must be a JSON object/],
      [null, /metadata must be a JSON object/],
      [{ much: "ü".repeat(8_190) }, /metadata must be at most 16 KB of JSON/],
      [nested, /the event is nested more than 200 levels deep/],
      [shallower, /metadata must not be nested more than 64 levels deep/],
    ];
    for (const [metadata, message] of cases) {
      const answer = await post({ name: "project/build.requested", data: { plan, metadata } });
      expect([answer.status, answer.body.detail]).toEqual([400, expect.stringMatching(message)]);
    }
    for (const metadata of [{ a: "x\0" }, { "\0": 1 }, { a: ["\ud800"] }])
      expect(eventSchemas["project/build.requested"].safeParse({ metadata }).success).toBe(false);
    for (const metadata of [{ a: "\\u0000 \ud83d\ude00" }, { much: "x".repeat(16_371) }])
      expect(eventSchemas["project/build.requested"].safeParse({ metadata }).success).toBe(true);
  });

  it("takes a cancellation that names only the build", async () => {
    const buildId = await fixture.request({ tasks: [{ id: "long", run: "sleep 600" }] });
    await fixture.until(buildId, (build) => build.status === "running");
    const { status, body } = await post({
      name: "project/build.cancel-requested",
      data: { buildId, reason: "enough" },
    });
    expect([status, (body.ids as string[]).length]).toEqual([200, 1]);
    expect((await fixture.until(buildId)).status).toBe("cancelled");
    // The echo of that request, delivered again when the build runs again, ends nothing.
    const { ports, store } = fixture.app;
    const echo = await store.outbox.find({ buildId, name: "project/build.cancel-requested" });
    await retryBuild(ports, buildId);
    await takeCancelRequest(ports, echo!.eventId, { buildId });
    expect((await store.builds.get({ id: buildId })).status).toBe("running");
    await requestCancel(ports, buildId, "the test is over");
    await fixture.until(buildId);
  });

  it("names each field that may not come from outside, and sends no event of a list with one", async () => {
    const wanted = { name: "project/build.requested", id: "kept-back", data: { plan } };
    const cases: [unknown, number, RegExp][] = [
      [[wanted, { name: "agent/wave.start", data: {} }], 400, /agent\/wave\.start is refused: only Wavesmith sends it/],
      [{ name: "agent/wave.begin", data: {} }, 400, /there is no such event/],
      [{ name: "inngest/function.failed", data: {} }, 400, /is refused/],
      [{ name: "project/build.requested", data: {} }, 400, /neither a plan nor a brief/],
      [{ name: "project/build.requested", data: { plan, project: 7 } }, 400, /project must be text/],
      [{ name: "project/build.cancel-requested", data: { buildId: "bld_none" } }, 404, /no build bld_none/],
      [{ name: "project/wave.rejected", data: {} }, 400, /names no buildId/],
      [{ data: {} }, 400, /name is missing/],
      ["[]", 400, /the list of events must have at least 1 item/],
      ["{", 400, /not JSON/],
      [`"${"x".repeat(5 * 1024 * 1024)}"`, 413, /larger than/],
    ];
    for (const [body, status, message] of cases) {
      const answer = await post(body);
      expect([answer.status, answer.body.status]).toEqual([status, status]);
      expect(answer.body.error).toMatch(message);
    }
    await fixture.app.ports.store.transaction("look", async () => undefined);
    expect(await fixture.app.store.builds.list({})).toEqual([]);
  });

  it("answers only to this machine's own name and pages", async () => {
    const { port } = new URL(server.origin);
    expect(await statusFor(server.origin, { host: `localhost:${port}` })).toBe(200);
    expect(await statusFor(server.origin, { host: "[::1]:1" })).toBe(200);
    expect(await statusFor(server.origin, { host: `attacker.example:${port}` })).toBe(403);
    expect(await statusFor(server.origin, { host: `127.0.0.1.attacker.example:${port}` })).toBe(403);
    expect(await statusFor(server.origin, { host: `localhost:${port}`, origin: `http://localhost:${port}` })).toBe(200);
    expect(
      await statusFor(server.origin, { host: `localhost:${port}`, origin: "http://localhost:3000" }),
      "a preview is the agents' code",
    ).toBe(403);
    expect(await statusFor(server.origin, { host: "localhost", origin: "https://attacker.example" })).toBe(403);
    expect(await statusFor(server.origin, { host: "localhost", origin: "null" })).toBe(403);
  });

  it("always requires its key, and answers to the host name by which others reach it", async () => {
    await server.stop();
    server = await start({ kind: "embedded", serveOrigin: "https://builds.example.com" });
    const event = { name: "project/build.requested", id: "keyed", data: { plan: { name: "keyed", tasks: [] } } };
    for (const guess of ["local", "any", "S3cret", "s3cret%20"]) expect((await post(event, guess)).status).toBe(401);
    expect(await post(event, "s3cret")).toMatchObject({ status: 422, body: { code: "plan-invalid" } });
    expect(await statusFor(server.origin, { host: "builds.example.com" })).toBe(200);
    expect(await statusFor(server.origin, { host: "attacker.example" })).toBe(403);
  });

  it("answers 400 with the reason to text it cannot store, an unknown key and an id that we reserve", async () => {
    const request = (said: object, id?: string) => ({ name: "project/build.requested", id, data: { plan, ...said } });
    const cases: [object | string, RegExp][] = [
      [request({}, "a\u0007b"), /id contains control characters/],
      [request({ requestedBy: "a\0b" }), /data\.requestedBy contains a NUL/],
      [
        request({ plan: { ...plan, tasks: [{ id: "a", run: "\ud800" }] } }),
        /data\.plan\.tasks\.0\.run contains a NUL or half a character/,
      ],
      [`{"name":"project/build.requested","data":{"plan":${"[".repeat(9_000)}${"]".repeat(9_000)}}}`, /nested/],
      [request({ porject: "x", nonsense: 1 }), /unknown keys: "porject", did you mean project\?; "nonsense"/],
      [request({}, "agent/wave.start:wave_x:1"), /begins like Wavesmith's own ids/],
      [request({}, "again:1:other"), /begins like Wavesmith's own ids/],
      [{ name: "project/wave.approved", data: { buildId: "bld_x", wave: 1 } }, /"wave"/],
    ];
    for (const [body, message] of cases) {
      const answer = await post(body);
      expect([answer.status, answer.body.detail]).toEqual([400, expect.stringMatching(message)]);
    }
    expect(warnings.filter((warning) => warning.includes("a request failed"))).toEqual([]);
  });

  it("refuses an id that was used for another plan, and sends nothing of that list", async () => {
    const project = await projectName(fixture);
    const request = (tasks: object[]) => ({
      name: "project/build.requested",
      id: "twice",
      data: { project, plan: { name: "twice", tasks } },
    });
    expect((await post(request([{ id: "a", run: "true", changes: "optional" }]))).status).toBe(200);
    const other = { ...request(plan.tasks), id: "with-it" };
    const answer = await post([other, request([{ id: "b", run: "true" }])]);
    expect([answer.status, answer.body.detail]).toEqual([409, expect.stringMatching(/id twice was used before/)]);
    expect(await fixture.app.store.outbox.find({ eventId: "with-it" })).toBeNull();
    await ended("twice");
  });

  it("lets a plan that an event sent use no secret that the settings do not name", async () => {
    const secret = (name: string) => ({
      name: "project/build.requested",
      data: { plan: { ...plan, secrets: [name] } },
    });
    for (const name of ["HOME", "PATH", "WAVESMITH_DATA", "DATABASE_URL"]) {
      const { status, body } = await post(secret(name));
      expect([status, body.code, body.detail]).toEqual([400, "unsupported", expect.stringContaining(name)]);
    }
    const project = await projectName(fixture);
    const allowing = { ...fixture.app, ports: { ...fixture.app.ports, eventSecrets: ["HOME", "DATABASE_URL"] } };
    await server.stop();
    server = await startServer({
      app: allowing,
      engine: embedded,
      key: "s3cret",
      host: "127.0.0.1",
      port: 0,
      inform: () => undefined,
      warn: () => undefined,
    });
    const allowed = secret("HOME");
    const answer = await post({ ...allowed, id: "allowed", data: { ...allowed.data, project } });
    expect(answer.status).toBe(200);
    await ended("allowed");
    expect((await post(secret("DATABASE_URL"))).status, "our own settings never").toBe(400);
  });

  it("lets no event choose folders or sandboxes, because an agent could have sent it", async () => {
    const request = (data: object) => ({ name: "project/build.requested", data: { plan, ...data } });
    for (const said of [
      { planFolder: "/etc" },
      { sandbox: "local-unsafe" },
      { interactive: true },
      { plan: { ...plan, source: { path: "/etc" } } },
      { plan: { ...plan, source: { git: "/srv/secret.git" } } },
    ]) {
      const { status, body } = await post(request(said));
      expect([status, body.code]).toEqual([400, "unsupported"]);
    }
  });

  it("answers a faulty plan, or a brief without an agent, with what is wrong, and starts nothing", async () => {
    const request = (data: object) => ({ name: "project/build.requested", data });
    const tasks = [{ id: "a", dependsOn: ["b"], run: "true" }];
    const faulty = await post(request({ plan: { name: "faulty", tasks } }));
    expect([faulty.status, faulty.body.detail]).toEqual([422, expect.stringContaining("There is no task b")]);
    const brief = await post(request({ brief: "a guestbook" }));
    expect([brief.status, brief.body.detail]).toEqual([503, expect.stringContaining("WAVESMITH_MODEL")]);
    expect(await fixture.app.store.builds.list({})).toEqual([]);
  });

  it("refuses to be reachable from other machines when a dev server calls the functions", async () => {
    const dev = { kind: "inngest", isDev: true, baseUrl: "http://127.0.0.1:1", serveOrigin: null } as const;
    await expect(start(dev, "0.0.0.0")).rejects.toThrow(/signs no calls/);
  });

  it("stops only when the requests of clients that have gone are handled too", async () => {
    const asked = new EventEmitter();
    await server.stop();
    let isHandled = false;
    const held: typeof fixture.app = {
      ...fixture.app,
      async ping() {
        const answer = once(asked, "answer");
        asked.emit("asked");
        await answer;
        isHandled = true;
      },
    };
    server = await startServer({
      ...{ app: held, engine: embedded, key: "s3cret", host: "127.0.0.1", port: 0 },
      ...{ inform: () => undefined, warn: () => undefined },
    });
    const client = new AbortController();
    const begun = once(asked, "asked");
    const request = fetch(`${server.origin}/readyz`, { signal: client.signal });
    await begun;
    client.abort();
    await expect(request).rejects.toThrow();
    const stopped = server.stop().then(() => isHandled);
    // As many turns as an early stop would take many times over.
    for (let turn = 0; turn < 50; turn += 1) await fixture.app.ping();
    asked.emit("answer");
    expect(await stopped).toBe(true);
  });

  it("serves nothing at the path where an Inngest server would call functions", async () => {
    const url = `${server.origin}/api/inngest`;
    for (const method of ["GET", "PUT", "POST"]) {
      const body = method === "GET" ? undefined : "{}";
      const response = await fetch(url, { method, ...(body === undefined ? {} : { body }) });
      expect([method, response.status]).toEqual([method, 404]);
    }
  });

  it("is ready when the database answers, and always alive", async () => {
    expect((await fetch(`${server.origin}/healthz`)).status).toBe(200);
    const ready = await fetch(`${server.origin}/readyz`);
    expect([ready.status, await ready.json()]).toEqual([
      200,
      { status: "ready", database: "ok", engine: "embedded", functions: "running" },
    ]);
    await server.stop();
    const away = { ...fixture.app, ping: () => Promise.reject(new Error("connect to db.internal refused")) };
    server = await startServer({
      app: away,
      engine: embedded,
      key: "s3cret",
      host: "127.0.0.1",
      port: 0,
      inform: () => undefined,
      warn: () => undefined,
    });
    const unready = await fetch(`${server.origin}/readyz`);
    expect(unready.status).toBe(503);
    expect(await unready.text(), "where the database is, is nobody's business").not.toContain("db.internal");
    expect((await fetch(`${server.origin}/healthz`)).status).toBe(200);
  });
});

describe("serve with an Inngest server", () => {
  let inngest: FakeInngest;
  let fixture: BuildFixture;
  let server: RunningServer;
  const messages: string[] = [];
  const warnings: string[] = [];
  const start = async (env: Record<string, string>, clock: () => Date = () => new Date()) => {
    fixture = await createBuildFixture({ env, clock });
    server = await startServer({
      app: fixture.app,
      engine: fixture.app.config.engine,
      key: "s3cret",
      host: "127.0.0.1",
      port: 0,
      inform: (message) => messages.push(message),
      warn: (message) => warnings.push(message),
      registerEveryMs: 50,
    });
  };
  const readiness = async () => (await fetch(`${server.origin}/readyz`)).status;
  afterEach(async () => {
    await server.stop();
    await fixture.close();
    await inngest.close();
    messages.length = 0;
    warnings.length = 0;
  });

  it("registers its functions with a dev server, and again when the server has forgotten them", async () => {
    inngest = await startFakeInngest();
    await start({ INNGEST_DEV: inngest.url });
    await expect.poll(readiness, { timeout: 20_000 }).toBe(200);
    expect(messages).toEqual([`${inngest.url} calls the functions at ${server.origin}/api/inngest`]);
    inngest.forget();
    await expect.poll(() => inngest.registrations, { timeout: 20_000 }).toBe(2);
  });

  it("reports once that the server does not answer, and is not ready until it does", async () => {
    inngest = await startFakeInngest();
    const { url } = inngest;
    await inngest.close();
    await start({ INNGEST_DEV: url });
    await expect.poll(() => warnings.length, { timeout: 20_000 }).toBe(1);
    expect(warnings[0]).toMatch(new RegExp(`Inngest at ${url} does not answer.*npx inngest-cli dev`));
    expect(await readiness()).toBe(503);
    await expect(fixture.request({ tasks: [] })).rejects.toThrow(/did not accept an event/);
  });

  it("registers again if the server calls a process that is gone, but not if that process is alive", async () => {
    inngest = await startFakeInngest();
    await start({ INNGEST_DEV: inngest.url });
    await expect.poll(readiness, { timeout: 20_000 }).toBe(200);
    const peer = await startServer({
      app: fixture.app,
      engine: fixture.app.config.engine,
      key: "s3cret",
      host: "127.0.0.1",
      port: 0,
      inform: () => undefined,
      warn: () => undefined,
      registerEveryMs: 50,
    });
    inngest.callAt(peer.origin);
    await expect
      .poll(() => messages.at(-1), { timeout: 20_000 })
      .toBe(`${inngest.url} calls the functions at ${peer.origin}/api/inngest`);
    expect([inngest.calledAt, await readiness()]).toEqual([[peer.origin], 200]);
    await peer.stop();
    await expect.poll(() => inngest.calledAt, { timeout: 20_000 }).toEqual([server.origin]);
    expect(await readiness()).toBe(200);
  });

  it("is not ready while the server calls another installation, and says so", async () => {
    inngest = await startFakeInngest();
    await start({ INNGEST_DEV: inngest.url });
    await expect.poll(readiness, { timeout: 20_000 }).toBe(200);
    const other = await createBuildFixture({ env: { INNGEST_DEV: inngest.url } });
    const foreign = await startServer({
      app: other.app,
      engine: { kind: "embedded", serveOrigin: null },
      key: "s3cret",
      host: "127.0.0.1",
      port: 0,
      inform: () => undefined,
      warn: () => undefined,
    });
    inngest.callAt(foreign.origin);
    await expect.poll(readiness, { timeout: 20_000 }).toBe(503);
    expect(warnings.at(-1)).toContain(`another installation, at ${foreign.origin}/api/inngest`);
    await foreign.stop();
    await other.close();
    await expect.poll(readiness, { timeout: 20_000 }).toBe(200);
  });

  it("is not ready when the server refuses its event key, and says so", async () => {
    const keys = { signing: "signkey-test-0123456789abcdef", event: "event-key" };
    inngest = await startFakeInngest({ keys });
    await start({
      INNGEST_DEV: "0",
      INNGEST_BASE_URL: inngest.url,
      INNGEST_EVENT_KEY: "not-the-key",
      INNGEST_SIGNING_KEY: keys.signing,
    });
    await expect.poll(() => warnings.at(-1), { timeout: 20_000 }).toMatch(/refuses INNGEST_EVENT_KEY/);
    expect(await readiness()).toBe(503);
  });

  it("registers again with a server with keys that lost its functions", async () => {
    const keys = { signing: "signkey-test-0123456789abcdef", event: "event-key" };
    inngest = await startFakeInngest({ keys });
    await start({
      INNGEST_DEV: "0",
      INNGEST_BASE_URL: inngest.url,
      INNGEST_EVENT_KEY: keys.event,
      INNGEST_SIGNING_KEY: keys.signing,
    });
    await expect.poll(readiness, { timeout: 20_000 }).toBe(200);
    inngest.forget();
    await expect.poll(() => inngest.calledAt, { timeout: 20_000 }).toEqual([server.origin]);
  });

  it("sends a request again if the server accepted and lost it, for the same build", async () => {
    inngest = await startFakeInngest();
    let laterMs = 0;
    await start({ INNGEST_DEV: inngest.url }, () => new Date(Date.now() + laterMs));
    await expect.poll(readiness, { timeout: 20_000 }).toBe(200);
    inngest.lose("project/build.requested", 2);
    const project = await projectName(fixture);
    const body = JSON.stringify({ name: "project/build.requested", id: "lost", data: { project, plan } });
    expect((await fetch(`${server.origin}/e/s3cret`, { method: "POST", body })).status).toBe(200);
    await fixture.app.reconcile();
    const asked = () => inngest.events.filter(({ name }) => name === "project/build.requested").map(({ id }) => id);
    expect(asked()).toEqual(["lost"]);
    const sent = [
      ["lost", "again:1:lost"],
      ["lost", "again:1:lost", "again:2:lost"],
    ];
    for (const ids of sent) {
      laterMs += 121_000;
      await expect.poll(asked, { timeout: 20_000 }).toEqual(ids);
    }
    const id = buildIdForEvent("lost");
    await expect.poll(() => fixture.app.store.builds.find({ id }), { timeout: 20_000 }).not.toBeNull();
    expect((await fixture.until(id)).status).toBe("completed");
    laterMs += 121_000;
    await fixture.app.reconcile();
    expect([asked().length, (await fixture.app.store.builds.list({})).length]).toEqual([3, 1]);
  });

  it("does not repeat a request whose plan was refused", async () => {
    inngest = await startFakeInngest();
    let laterMs = 0;
    await start({ INNGEST_DEV: inngest.url }, () => new Date(Date.now() + laterMs));
    await expect.poll(readiness, { timeout: 20_000 }).toBe(200);
    const { projectId } = fixture;
    const data = { projectId, plan: { name: "faulty", tasks: [{ id: "a", dependsOn: ["b"], run: "true" }] } };
    await fixture.app.send({ name: "project/build.requested", id: "faulty", data });
    await expect
      .poll(async () => (await fixture.app.store.outbox.get({ eventId: "faulty" })).buildId, { timeout: 20_000 })
      .toBe(buildIdForEvent("faulty"));
    laterMs += 121_000;
    await fixture.app.reconcile();
    expect(inngest.events.filter(({ name }) => name === "project/build.requested")).toHaveLength(1);
  });

  it("lets nobody decide about a build through a dev server, which requires no key", async () => {
    inngest = await startFakeInngest();
    await start({ INNGEST_DEV: inngest.url });
    await expect.poll(readiness, { timeout: 20_000 }).toBe(200);
    const buildId = await fixture.request({ approval: "wave", tasks: [{ id: "a", run: "echo a > a.txt" }] });
    expect((await fixture.until(buildId)).status).toBe("waiting");
    const { tenantId, projectId } = await fixture.app.store.builds.get({ id: buildId });
    const approval = { name: "project/wave.approved", data: { tenantId, projectId, buildId, waveNumber: 1 } };
    const cancel = { name: "project/build.cancel-requested", data: { tenantId, projectId, buildId } };
    for (const [index, forged] of [approval, cancel].entries()) {
      // Also under the id of one of our events.
      const [{ eventId } = { eventId: "" }] = await fixture.app.store.outbox.list({ name: "project/build.requested" });
      for (const id of [`forged-${index}`, eventId])
        await fetch(`${inngest.url}/e/any`, { method: "POST", body: JSON.stringify({ ...forged, id }) });
    }
    await inngest.idle();
    expect((await fixture.app.store.builds.get({ id: buildId })).status).toBe("waiting");
    expect(JSON.stringify(inngest.runs.map(({ output }) => output))).toContain("it decides nothing");
    const body = JSON.stringify({ name: approval.name, data: { buildId, waveNumber: 1 } });
    expect((await fetch(`${server.origin}/e/any`, { method: "POST", body })).status).toBe(401);
    expect((await fetch(`${server.origin}/e/s3cret`, { method: "POST", body })).status).toBe(200);
    expect((await fixture.until(buildId, ({ status }) => status === "completed")).status).toBe("completed");
  });

  it("runs a build on a server with keys, and refuses calls that are not signed with them", async () => {
    const keys = { signing: "signkey-test-0123456789abcdef", event: "event-key" };
    inngest = await startFakeInngest({ keys });
    await start({
      INNGEST_DEV: "0",
      INNGEST_BASE_URL: inngest.url,
      INNGEST_EVENT_KEY: keys.event,
      INNGEST_SIGNING_KEY: keys.signing,
    });
    await expect.poll(readiness, { timeout: 20_000 }).toBe(200);
    const url = `${server.origin}/api/inngest`;
    const call = `${url}?fnId=wavesmith-build-start&stepId=step`;
    for (const method of ["GET", "PUT", "POST"]) {
      const body = method === "GET" ? undefined : JSON.stringify({ event: {}, events: [{}], steps: {}, ctx: {} });
      const response = await fetch(call, { method, ...(body === undefined ? {} : { body }) });
      expect([method, response.status]).toEqual([method, 401]);
    }
    const build = await fixture.build({ tasks: [{ id: "a", run: "echo a > a.txt" }] });
    expect(build.status).toBe("completed");
    expect(inngest.faults).toEqual([]);
  });

  it("refuses folders and sandboxes in an event that came through the server from elsewhere", async () => {
    inngest = await startFakeInngest();
    await start({ INNGEST_DEV: inngest.url });
    await expect.poll(readiness, { timeout: 20_000 }).toBe(200);
    const event = { name: "project/build.requested", id: "x", data: { plan, planFolder: "/etc" } };
    await fetch(`${inngest.url}/e/any`, { method: "POST", body: JSON.stringify(event) });
    await inngest.idle();
    expect(JSON.stringify(inngest.runs[0]?.output)).toContain("may not set planFolder");
    expect(await fixture.app.store.builds.list({})).toEqual([]);
  });
});

/** The project whose id the fixture drives. */
async function projectName({ app }: BuildFixture): Promise<string | undefined> {
  const { dataDir } = app.config;
  return dataDir.split("/").at(-1);
}
