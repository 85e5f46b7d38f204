import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createKey } from "../../src/api/keys.ts";
import type { Scope } from "../../src/domain/access.ts";
import { type RunningServer, startServer } from "../../src/server/server.ts";
import { type BuildFixture, createBuildFixture } from "../support/build-fixture.ts";

const serveKey = "s3cret-of-the-server";

describe("keys and sessions of the API", () => {
  let fixture: BuildFixture;
  let server: RunningServer;
  let now = new Date();

  beforeEach(async () => {
    now = new Date();
    fixture = await createBuildFixture({ clock: () => now });
    server = await startServer({
      app: fixture.app,
      engine: { kind: "embedded", serveOrigin: null },
      key: serveKey,
      host: "127.0.0.1",
      port: 0,
      inform: () => undefined,
      warn: () => undefined,
      heartbeatMs: 50,
    });
  });
  afterEach(async () => {
    await server.stop();
    await fixture.close();
  });

  const send = (method: string, path: string, headers: Record<string, string>, body?: unknown) =>
    fetch(`${server.origin}${path}`, {
      method,
      headers,
      redirect: "manual",
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(20_000),
    });
  const bearer = (key: string) => ({ authorization: `Bearer ${key}` });
  const json = async (response: Promise<Response>) => (await (await response).json()) as Record<string, unknown>;
  const makeKey = async (scope: Scope, validMs: number | null = null) => {
    const wanted = { tenant: "default", name: `a ${scope} key`, scope, validMs, createdBy: "a test" };
    return createKey(fixture.app.ports, wanted);
  };
  const cookieOf = (response: Response) => response.headers.get("set-cookie")?.split(";")[0] ?? "";
  /** The headers of a page that has signed in. */
  const signIn = async (key: string) => {
    const response = await send("POST", "/api/v1/session", {}, { key });
    const { token } = (await response.json()) as { token: string };
    return { cookie: cookieOf(response), "x-wavesmith": token };
  };

  it("allows a key what its scope includes, and no more", async () => {
    const allowed = { read: [200, 403, 403], build: [200, 201, 403], admin: [200, 201, 200] } as const;
    for (const scope of ["read", "build", "admin"] as const) {
      const { key } = await makeKey(scope);
      const answers = [
        await send("GET", "/api/v1/builds", bearer(key)),
        await send("POST", "/api/v1/projects", bearer(key), { name: `of ${scope}` }),
        await send("GET", "/api/v1/keys", bearer(key)),
      ];
      expect([scope, ...answers.map(({ status }) => status)]).toEqual([scope, ...allowed[scope]]);
      expect((await send("POST", "/api/v1/plans/check", bearer(key), { name: "x" })).status).toBe(200);
    }
  });

  it("refuses a key from the moment it is revoked or expires, and the sessions that it opened", async () => {
    const revoked = await makeKey("admin");
    const expiring = await makeKey("admin", 60_000);
    const keys = [revoked.key, expiring.key];
    const pages = await Promise.all(keys.map(signIn));
    const statuses = async () => [
      ...(await Promise.all(keys.map(async (key) => (await send("GET", "/api/v1/builds", bearer(key))).status))),
      ...(await Promise.all(pages.map(async (page) => (await send("GET", "/api/v1/builds", page)).status))),
    ];
    expect(await statuses()).toEqual([200, 200, 200, 200]);
    now = new Date(now.getTime() + 60_000);
    expect((await send("DELETE", `/api/v1/keys/${revoked.view.id}`, bearer(serveKey))).status).toBe(200);
    expect(await statuses()).toEqual([401, 401, 401, 401]);
    const { items } = await json(send("GET", "/api/v1/keys", bearer(serveKey)));
    expect((items as { status: string }[]).map(({ status }) => status).sort()).toEqual(["expired", "revoked"]);
  });

  it("shows a key once, and stores only its hash", async () => {
    const made = await json(send("POST", "/api/v1/keys", bearer(serveKey), { name: "ci", scope: "build" }));
    expect(made.key).toMatch(/^wsk_[\w-]{43}$/);
    const listed = await (await send("GET", "/api/v1/keys", bearer(serveKey))).text();
    expect(listed).toContain('"name":"ci"');
    expect(listed).not.toContain("wsk_");
    expect(JSON.stringify(await fixture.app.store.apiKeys.list({}))).not.toContain(String(made.key).slice(4));
    expect((await send("POST", "/api/v1/keys", bearer(serveKey), { name: "x", scope: "root" })).status).toBe(400);
    const forged = '{"name":"x","__proto__":{"scope":"admin"}}';
    const response = await fetch(`${server.origin}/api/v1/keys`, {
      ...{ method: "POST", headers: bearer(serveKey), body: forged },
    });
    expect(response.status).toBe(400);
  });

  it("signs a browser in with a key and out again", async () => {
    expect((await send("POST", "/api/v1/session", {}, { key: "wsk_wrong" })).status).toBe(401);
    const signedIn = await send("POST", "/api/v1/session", {}, { key: serveKey });
    expect([signedIn.status, signedIn.headers.get("cache-control")]).toEqual([201, "no-store"]);
    expect(signedIn.headers.get("set-cookie")).toMatch(/; Path=\/api\/v1; Max-Age=\d+; HttpOnly; SameSite=Strict$/);
    const { token } = (await signedIn.json()) as { token: string };
    const page = { cookie: cookieOf(signedIn), "x-wavesmith": token };
    expect(page.cookie).not.toContain(serveKey);
    expect(page.cookie).not.toContain(token);
    expect(JSON.stringify(await fixture.app.store.sessions.list({}))).not.toContain(token);
    expect(await json(send("GET", "/api/v1/session", page))).toEqual({
      tenant: "default",
      scopes: ["read", "build", "admin"],
      name: "the server's own key",
    });
    expect((await send("DELETE", "/api/v1/session", { cookie: page.cookie })).status).toBe(204);
    expect((await send("GET", "/api/v1/session", page)).status).toBe(200);
    expect((await send("DELETE", "/api/v1/session", page)).status).toBe(204);
    expect((await send("GET", "/api/v1/session", page)).status).toBe(401);
  });

  it("lets only its own pages use a session", async () => {
    const page = await signIn(serveKey);
    const project = { name: "forged" };
    const refused = [
      await send("POST", "/api/v1/projects", { ...page, origin: "http://127.0.0.1:1" }, project),
      await send("GET", "/api/v1/builds", { ...page, "sec-fetch-site": "same-site" }),
      await send("GET", "/api/v1/builds", { ...page, "sec-fetch-site": "cross-site" }),
      await send("POST", "/api/v1/session", { origin: "http://evil.example" }, { key: serveKey }),
    ];
    expect(refused.map(({ status }) => status)).toEqual([403, 403, 403, 403]);
    expect(await json(send("GET", "/api/v1/projects", page))).toMatchObject({ items: [] });
    const own = { ...page, origin: server.origin, "sec-fetch-site": "same-origin" };
    expect((await send("POST", "/api/v1/projects", own, project)).status).toBe(201);
  });

  it("CA3: takes no session for a cookie that a server at another port of this host replays", async () => {
    const [page, other] = [await signIn(serveKey), await signIn(serveKey)];
    // A preview, to which browsers send every cookie of its host, as they do to our port.
    const preview = createServer(async ({ headers: { cookie = "" } }, response) => {
      const guesses = [{}, { "x-wavesmith": "dashboard" }, { "x-wavesmith": "" }, other].map((guess) => ({
        ...guess,
        cookie,
      }));
      const asked = guesses.flatMap((headers) => [
        send("GET", "/api/v1/session", headers),
        send("GET", "/api/v1/builds/any/events", headers),
        send("POST", "/api/v1/projects", headers, { name: "stolen" }),
      ]);
      response.end(JSON.stringify((await Promise.all(asked)).map(({ status }) => status)));
    });
    await once(preview.listen(0, "127.0.0.1"), "listening");
    const { port } = preview.address() as AddressInfo;
    try {
      const answer = await fetch(`http://127.0.0.1:${port}/`, { headers: { cookie: page.cookie } });
      expect(await answer.json()).toEqual(Array(12).fill(401));
    } finally {
      await new Promise((resolve) => preview.close(resolve));
    }
    expect((await send("GET", "/api/v1/session", page)).status).toBe(200);
    expect(await json(send("GET", "/api/v1/projects", page))).toMatchObject({ items: [] });
  });

  it("LF2: ends an open stream after its key or session has ended", async () => {
    await send("POST", "/api/v1/projects", bearer(serveKey), { name: "followed" });
    const [signedOut, revoked] = [await signIn(serveKey), await makeKey("read")];
    const expiring = await makeKey("read", 60_000);
    const open = [signedOut, bearer(revoked.key), bearer(expiring.key), bearer(serveKey)];
    const streams = await Promise.all(
      open.map(async (headers) => (await send("GET", "/api/v1/projects/followed/events", headers)).body!.getReader()),
    );
    const [ofSession, ofRevoked, ofExpiring, ofServer] = streams.map((reader) => async () => {
      for (;;) if ((await reader.read()).done) return "ended";
    });
    for (const reader of streams) expect((await reader.read()).done).toBe(false);
    await send("DELETE", "/api/v1/session", signedOut);
    expect(await ofSession?.()).toBe("ended");
    await send("DELETE", `/api/v1/keys/${revoked.view.id}`, bearer(serveKey));
    expect(await ofRevoked?.()).toBe("ended");
    now = new Date(now.getTime() + 60_000);
    expect(await ofExpiring?.()).toBe("ended");
    const unending = ofServer?.();
    await server.stop();
    expect(await unending).toBe("ended");
  });

  it("shows /metrics to admins of the default tenant alone", async () => {
    const { key: foreign } = await createKey(fixture.app.ports, {
      ...{ tenant: "acme", name: "foreign", scope: "admin", validMs: null, createdBy: "a test" },
    });
    const keys = [serveKey, (await makeKey("admin")).key, (await makeKey("read")).key, foreign, "wsk_wrong"];
    const answers = await Promise.all(keys.map((key) => send("GET", "/metrics", bearer(key))));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 403, 403, 401]);
    expect((await send("GET", "/metrics", await signIn(serveKey))).status).toBe(401);
  });

  it("signs a browser in by a link, once and for five minutes", async () => {
    const link = async () => String((await json(send("POST", "/api/v1/session/link", {}, { key: serveKey }))).path);
    const path = await link();
    const [first, second] = await Promise.all([send("GET", `${path}&to=/builds/x`, {}), send("GET", path, {})]);
    expect([first.status, second.status].sort()).toEqual([303, 401]);
    const [late, evil] = [await link(), await link()];
    const away = await send("GET", `${evil}&to=${encodeURIComponent("//evil.example")}`, {});
    const [place, token = ""] = (away.headers.get("location") ?? "").split("#token=");
    expect([away.status, place]).toEqual([303, "/"]);
    const page = { cookie: cookieOf(away), "x-wavesmith": token };
    expect((await send("GET", "/api/v1/session", { cookie: page.cookie })).status).toBe(401);
    expect((await send("GET", "/api/v1/session", page)).status).toBe(200);
    now = new Date(now.getTime() + 5 * 60_000);
    expect((await send("GET", late, {})).status).toBe(401);
    expect((await send("POST", "/api/v1/session/link", {}, { key: "wrong" })).status).toBe(401);
  });

  it("records who asked for which change, and the outcome", async () => {
    const { key } = await makeKey("read");
    await send("POST", "/api/v1/projects", bearer(serveKey), { name: "recorded" });
    await send("POST", "/api/v1/projects", bearer(key), { name: "refused" });
    await send("POST", "/api/v1/builds/nobody/cancel", bearer(serveKey), {});
    await send("GET", "/api/v1/builds", bearer(serveKey));
    const { items } = await json(send("GET", "/api/v1/audit", bearer(serveKey)));
    expect(items).toMatchObject([
      { action: "POST /builds/{id}/cancel", target: "nobody", result: 404, via: "api" },
      { action: "POST /projects", actor: "a read key", target: null, result: 403 },
      { action: "POST /projects", actor: "the server's own key", result: 201 },
    ]);
  });
});

describe("limits of the API", () => {
  it("RL1: answers a key that asks too often with 429 and when to ask again, and no other key", async () => {
    const fixture = await createBuildFixture();
    const server = await startServer({
      ...{ app: fixture.app, engine: { kind: "embedded", serveOrigin: null }, key: serveKey, requestsPerMinute: 2 },
      ...{ host: "127.0.0.1", port: 0, inform: () => undefined, warn: () => undefined },
    });
    const ask = (key: string) =>
      fetch(`${server.origin}/api/v1/builds`, { headers: { authorization: `Bearer ${key}` } });
    try {
      const other = await createKey(fixture.app.ports, {
        ...{ tenant: "default", name: "other", scope: "read", validMs: null, createdBy: "a test" },
      });
      const answers = await Promise.all(Array.from({ length: 12 }, () => ask(serveKey)));
      const refused = answers.filter(({ status }) => status === 429);
      // Under load, one or two may be refilled meanwhile.
      expect(refused.length).toBeGreaterThan(5);
      expect(answers.filter(({ status }) => status === 200).length).toBe(12 - refused.length);
      for (const { headers } of refused) expect(Number(headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
      expect(await refused[0]?.json()).toMatchObject({ code: "capacity", remedy: expect.stringContaining("API_RATE") });
      expect((await ask(other.key)).status).toBe(200);
      // Terminals and CI reports count as well.
      const headers = { authorization: `Bearer ${serveKey}`, "content-type": "application/json" };
      const shells = Array.from({ length: 5 }, () => fetch(`${server.origin}/api/v1/builds/b/shell`, { headers }));
      expect((await Promise.all(shells)).map(({ status }) => status)).toContain(429);
      const report = () => fetch(`${server.origin}/webhooks/ci`, { method: "POST", headers, body: "{}" });
      const reports = await Promise.all(Array.from({ length: 5 }, report));
      expect(reports.map(({ status }) => status)).toContain(429);
    } finally {
      await server.stop();
      await fixture.close();
    }
  });

  it("refuses a tenant's next build while the tenant has as many unfinished ones as it may", async () => {
    const fixture = await createBuildFixture({ env: { WAVESMITH_TENANT_BUILDS: "1" } });
    const server = await startServer({
      ...{ app: fixture.app, engine: { kind: "embedded", serveOrigin: null }, key: serveKey },
      ...{ host: "127.0.0.1", port: 0, inform: () => undefined, warn: () => undefined },
    });
    const send = (path: string, body: unknown) =>
      fetch(`${server.origin}/api/v1${path}`, {
        ...{ method: "POST", headers: { authorization: `Bearer ${serveKey}` }, body: JSON.stringify(body) },
      });
    try {
      // The fixture does not drive this project, so its build stays queued.
      await send("/projects", { name: "limited" });
      const plan = { name: "limited", tasks: [{ id: "a", run: "true" }] };
      expect((await send("/projects/limited/builds", plan)).status).toBe(201);
      const refused = await send("/projects/limited/builds", plan);
      expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "60"]);
      expect(await refused.text()).toContain("1 unfinished builds, of at most 1");
    } finally {
      await server.stop();
      await fixture.close();
    }
  });
});
