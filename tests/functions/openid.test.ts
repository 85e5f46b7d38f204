import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type RunningServer, startServer } from "../../src/server/server.ts";
import { type BuildFixture, createBuildFixture } from "../support/build-fixture.ts";
import { type RunningProvider, startOpenIdProvider } from "../support/openid-provider.ts";

// The public address of our server: the provider sends browsers there, and this test visits the
// server's own address instead, as a proxy would.
const publicUrl = "http://wavesmith.localhost";
const hour = 60 * 60_000;

describe("signing in with an OpenID provider", () => {
  let provider: RunningProvider;
  let fixture: BuildFixture;
  let server: RunningServer;
  let now = new Date();
  const rights = [
    { who: "ada@example.com", scope: "admin", tenant: null },
    { who: "@example.com", scope: "read", tenant: null },
    { who: "@acme.com", scope: "build", tenant: "acme" },
  ] as const;

  beforeAll(async () => {
    provider = await startOpenIdProvider();
    provider.sendBackTo(`${publicUrl}/sign-in/oidc/callback`);
  });
  afterAll(() => provider.close());
  beforeEach(async () => {
    now = new Date();
    fixture = await createBuildFixture({ clock: () => now });
    server = await serve(provider.settings.issuer);
  });
  afterEach(async () => {
    await server.stop();
    await fixture.close();
  });
  const serve = (issuer: string, serveOrigin = publicUrl): Promise<RunningServer> =>
    startServer({
      app: fixture.app,
      engine: { kind: "embedded", serveOrigin },
      key: "s3cret-of-the-server",
      ...{ host: "127.0.0.1", port: 0 },
      openId: { ...provider.settings, issuer, rights },
      inform: () => undefined,
      warn: () => undefined,
    });

  /** A browser that keeps each origin's cookies and follows no redirect by itself. */
  const createBrowser = () => {
    const jar = new Map<string, Map<string, string>>();
    return async (address: string): Promise<Response> => {
      const url = new URL(address.replace(publicUrl, server.origin));
      const cookies = jar.get(url.origin) ?? new Map<string, string>();
      jar.set(url.origin, cookies);
      const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join("; ");
      const response = await fetch(url, {
        headers: { cookie },
        redirect: "manual",
        signal: AbortSignal.timeout(20_000),
      });
      for (const line of response.headers.getSetCookie()) {
        const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
        if (value === "") cookies.delete(name);
        else cookies.set(name, value);
      }
      return response;
    };
  };
  type Visit = ReturnType<typeof createBrowser>;
  const leadsTo = (response: Response, from: string): string => new URL(response.headers.get("location")!, from).href;
  /** Goes from our page to the provider and through its pages; returns the address that leads back. */
  const atProvider = async (visit: Visit, to = ""): Promise<string> => {
    let address = leadsTo(await visit(`${server.origin}/sign-in/oidc${to}`), server.origin);
    for (let pages = 0; address.startsWith(provider.settings.issuer); pages += 1) {
      expect(pages).toBeLessThan(5);
      address = leadsTo(await visit(address), address);
    }
    return address;
  };
  const signIn = async (visit: Visit, to?: string) => visit(await atProvider(visit, to));
  /** What a page of our origin sends after the browser was let in. */
  const sessionOf = (response: Response) => ({
    cookie: response.headers
      .getSetCookie()
      .find((line) => line.includes("Path=/api/v1"))!
      .split(";")[0]!,
    "x-wavesmith": /#token=([\w-]+)$/.exec(response.headers.get("location")!)![1]!,
  });
  const ask = async (path: string, headers: Record<string, string>) => {
    const response = await fetch(`${server.origin}/api/v1${path}`, { headers });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };
  const bearer = { authorization: "Bearer s3cret-of-the-server" };

  it("gives people the rights of their address, or of its domain", async () => {
    for (const [email, session] of [
      ["Ada@Example.com", { tenant: "default", scopes: ["read", "build", "admin"], name: "ada@example.com" }],
      ["bob@example.com", { tenant: "default", scopes: ["read"], name: "bob@example.com" }],
      ["cleo@acme.com", { tenant: "acme", scopes: ["read", "build"], name: "cleo@acme.com" }],
    ] as const) {
      provider.next = { email };
      const response = await signIn(createBrowser(), "?to=/builds?status=running");
      expect([response.status, response.headers.get("location")]).toEqual([
        303,
        expect.stringMatching(/^\/builds\?status=running#token=/),
      ]);
      expect((await ask("/session", sessionOf(response))).body).toEqual(session);
    }
    expect((await ask("/session/providers", {})).body).toEqual({
      items: [{ name: new URL(provider.settings.issuer).host, path: "/sign-in/oidc" }],
    });
  });

  it("refuses those without rights, with an unverified address, and who cancelled; says why", async () => {
    for (const [person, reason] of [
      [{ email: "eve@elsewhere.org" }, "eve@elsewhere.org may not use this server"],
      [{ email: "ada@example.com.elsewhere.org" }, "may not use this server"],
      [{ email: "ada@example.com", isVerified: false }, "The address ada@example.com is not verified"],
      [null, "the person cancelled."],
    ] as const) {
      provider.next = person;
      const response = await signIn(createBrowser());
      expect([response.status, response.headers.getSetCookie()]).toEqual([403, []]);
      expect(await response.text()).toContain(reason);
    }
    expect(await fixture.app.store.apiKeys.list({})).toEqual([]);
  });

  it("takes no answer that another browser asked for, a second time, or with another state", async () => {
    provider.next = { email: "ada@example.com" };
    const visit = createBrowser();
    const back = await atProvider(visit);
    const stranger = createBrowser();
    expect(await (await stranger(back)).text()).toContain("This browser has not begun to sign in");
    await stranger(`${server.origin}/sign-in/oidc`);
    expect((await stranger(back)).status).toBe(403);
    const forged = new URL(back);
    forged.searchParams.set("state", "forged");
    expect((await visit(forged.href)).status).toBe(403);
    expect((await visit(back)).status).toBe(303);
    expect((await visit(back)).status).toBe(403);
  });

  it("leads only to pages of this server", async () => {
    provider.next = { email: "ada@example.com" };
    for (const to of ["//evil.example", "https://evil.example", "/\\evil.example"]) {
      const response = await signIn(createBrowser(), `?to=${encodeURIComponent(to)}`);
      expect(response.headers.get("location")).toMatch(/^\/#token=/);
    }
  });

  it("lists people as keys, which end after twelve hours or when they are revoked", async () => {
    provider.next = { email: "ada@example.com" };
    const pages = [sessionOf(await signIn(createBrowser())), sessionOf(await signIn(createBrowser()))];
    const statuses = () => Promise.all(pages.map(async (page) => (await ask("/builds", page)).status));
    const keys = async () => (await ask("/keys", bearer)).body.items as { id: string; status: string }[];
    expect(await keys()).toMatchObject([
      { name: "ada@example.com", scope: "admin", status: "active", createdBy: provider.settings.issuer },
    ]);
    expect(await statuses()).toEqual([200, 200]);
    now = new Date(now.getTime() + 12 * hour);
    expect(await statuses()).toEqual([401, 401]);
    pages.push(sessionOf(await signIn(createBrowser())));
    expect((await statuses()).at(-1)).toBe(200);
    const [key, ...more] = await keys();
    expect(more).toEqual([]);
    await fetch(`${server.origin}/api/v1/keys/${key!.id}`, { method: "DELETE", headers: bearer });
    expect((await statuses()).at(-1)).toBe(401);
    // The text that is stored opens nothing.
    const [row] = await fixture.app.store.apiKeys.list({});
    expect((await ask("/builds", { authorization: `Bearer ${row!.keyHash}` })).status).toBe(401);
  });

  it("ends a person's sessions once they sign in with other rights", async () => {
    provider.next = { email: "bob@example.com" };
    const before = sessionOf(await signIn(createBrowser()));
    await server.stop();
    server = await startServer({
      app: fixture.app,
      engine: { kind: "embedded", serveOrigin: publicUrl },
      ...{ key: "s3cret-of-the-server", host: "127.0.0.1", port: 0 },
      openId: { ...provider.settings, rights: [{ who: "bob@example.com", scope: "build", tenant: null }] },
      inform: () => undefined,
      warn: () => undefined,
    });
    const after = sessionOf(await signIn(createBrowser()));
    expect((await ask("/session", after)).body.scopes).toEqual(["read", "build"]);
    expect((await ask("/session", before)).status).toBe(401);
  });

  it("says when the provider does not answer, and tries again at the next sign-in", async () => {
    await server.stop();
    server = await serve("http://127.0.0.1:9");
    const response = await createBrowser()(`${server.origin}/sign-in/oidc`);
    expect(response.status).toBe(502);
    expect(await response.text()).toMatch(
      /The provider http:\/\/127\.0\.0\.1:9 cannot be used: .*or sign in with a key/s,
    );
  });
});
