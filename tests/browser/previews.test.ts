import { request } from "node:http";
import { basename } from "node:path";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { servePreviewHosts } from "../../src/cli/preview/preview-hosts.ts";
import { type ServedPreviews, servePreviews } from "../../src/cli/preview/serve-previews.ts";
import { sleepIdlePreviews } from "../../src/coordinator/preview/sleep-preview.ts";
import { buildIdForEvent } from "../../src/domain/events/request-ids.ts";
import { previewOriginOf } from "../../src/domain/preview-domain.ts";
import { type RunningServer, startServer } from "../../src/server/server.ts";
import { type BuildFixture, createBuildFixture } from "../support/build-fixture.ts";
import { openBrowser } from "../support/dashboard.ts";
import { requires } from "../support/require.ts";

const key = "k3y-of-previews";
const domain = { name: "previews.localhost" };

/**
 * An application with a page, a service worker, a WebSocket that answers in capitals, and failures.
 */
const application = `
import { createServer } from "node:http";
import { createHash } from "node:crypto";
const page = \`<!doctype html><title>loading</title><script>
  const socket = new WebSocket(location.origin.replace("http", "ws") + "/echo");
  socket.onopen = () => socket.send("hello");
  socket.onmessage = ({ data }) => { document.title = data; };
</script>\`;
const server = createServer((request, response) => {
  const { url, headers } = request;
  if (url === "/worker.js") return response.setHeader("content-type", "text/javascript").end("");
  if (url === "/500") return response.writeHead(500).end("broken");
  if (url === "/away") return response.writeHead(302, { location: "/" }).end();
  if (url === "/die") return process.exit(1);
  if (url === "/cut") return request.socket.destroy();
  if (url === "/told") {
    let body = "";
    request.on("data", (part) => { body += part; }).on("end", () => response.end(headers.host + " " + body));
    return;
  }
  response.writeHead(200, { "content-type": "text/html", "set-cookie": ["wide=1; Domain=previews.localhost", "own=1"] });
  response.end(page);
});
server.on("upgrade", (request, socket) => {
  if (request.url !== "/echo") return socket.end("HTTP/1.1 403 Forbidden\\r\\nset-cookie: a=1; domain=localhost\\r\\ncontent-length: 2\\r\\n\\r\\nno");
  const accept = createHash("sha1").update(request.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest("base64");
  socket.write("HTTP/1.1 101 Switching Protocols\\r\\nupgrade: websocket\\r\\nconnection: Upgrade\\r\\nsec-websocket-accept: " + accept + "\\r\\n\\r\\n");
  socket.on("data", (frame) => {
    if ((frame[0] & 15) !== 1) return socket.end();
    const text = Buffer.from(frame.subarray(6, 6 + (frame[1] & 127)).map((byte, index) => byte ^ frame[2 + (index % 4)]));
    socket.write(Buffer.concat([Buffer.from([129, text.length]), Buffer.from(text.toString().toUpperCase())]));
  });
});
server.listen(process.env.PORT, "127.0.0.1");
`;

describe.runIf(requires("chromium"))("a preview in a browser", () => {
  let passedMs = 0;
  let fixture: BuildFixture;
  let server: RunningServer;
  let previews: ServedPreviews;
  let browser: Browser;
  let context: BrowserContext;
  let page: Page;
  let buildId: string;
  let ownUrl: string;
  let portUrl: string;

  beforeAll(async () => {
    [fixture, browser] = await Promise.all([
      createBuildFixture({ clock: () => new Date(Date.now() + passedMs) }),
      openBrowser(),
    ]);
    const { app } = fixture;
    server = await startServer({
      ...{ app, engine: { kind: "embedded", serveOrigin: null }, key, host: "127.0.0.1", port: 0 },
      previewHosts: await servePreviewHosts(app, domain),
      inform: () => undefined,
      warn: () => undefined,
    });
    const port = Number(new URL(server.origin).port);
    const quiet = { tell: () => undefined, warn: () => undefined };
    previews = servePreviews(app, { domain: { ...domain, protocol: "http", port }, ...quiet });
    const plan = {
      name: "shop",
      preview: { command: "exec node app.mjs" },
      tasks: [{ id: "app", run: `cat > app.mjs <<'END'\n${application}END\n` }],
    };
    // Started only by an event.
    const data = { project: basename(app.config.dataDir), plan };
    const event = { name: "project/build.requested", id: "previewed", data };
    await fetch(`${server.origin}/e/${key}`, { method: "POST", body: JSON.stringify(event) });
    buildId = buildIdForEvent("previewed");
    await vi.waitFor(() => app.store.builds.get({ id: buildId }), { timeout: 20_000 });
    await fixture.until(buildId);
    await vi.waitFor(
      async () => expect(await shown()).toMatchObject({ status: "ready", url: expect.stringContaining("localhost") }),
      { timeout: 30_000, interval: 200 },
    );
    const { url, localUrl, projectId } = await shown();
    [ownUrl, portUrl] = [url, localUrl];
    expect(url).toBe(`${previewOriginOf({ ...domain, protocol: "http", port }, projectId as never)}/`);
    context = await browser.newContext();
    page = await context.newPage();
  }, 90_000);
  afterAll(async () => {
    await browser?.close();
    await previews?.stop();
    await server?.stop();
    await fixture?.close();
  });

  const api = async (path: string, method = "GET") => {
    const answer = await fetch(`${server.origin}/api/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${key}` },
    });
    return (await answer.json()) as { items: { status: string; url: string; localUrl: string; projectId: string }[] };
  };
  const shown = async () => (await api("/previews")).items[0]!;
  /** Sends a request for a host to the server, because `fetch` cannot send another Host. */
  const ask = (host: string, path: string, headers: Record<string, string> = {}, body = "") =>
    new Promise<{ status: number; headers: Record<string, unknown>; text: string }>((resolve, reject) => {
      const sent = request(`${server.origin}${path}`, {
        method: body === "" ? "GET" : "POST",
        headers: { host, ...headers },
      });
      sent.on("response", (response) => {
        let text = "";
        response.setEncoding("utf8").on("data", (part: string) => {
          text += part;
        });
        response.on("end", () => resolve({ status: response.statusCode ?? 0, headers: response.headers, text }));
      });
      sent.on("error", reject).end(body);
    });
  const ownHost = () => new URL(ownUrl).host;

  it("opens at its own host and at its port, with WebSocket", async () => {
    for (const url of [ownUrl, portUrl]) {
      await page.goto(url);
      await expect.poll(() => page.title()).toBe("HELLO");
    }
  });

  it("keeps its cookies and service workers to its own host, and cannot use the dashboard's API", async () => {
    await page.goto(ownUrl);
    const names = async (url: string) => (await context.cookies(url)).map(({ name }) => name).sort();
    expect(await names(ownUrl)).toEqual(["own", "wide"]);
    expect(await names(ownUrl.replace(/\/\/\w+\./, "//another."))).toEqual([]);
    await page.evaluate("navigator.serviceWorker.register('/worker.js').then(() => undefined)");
    const api = `${server.origin}/api/v1/builds`;
    expect(await page.evaluate((url) => fetch(url).then(String, () => "refused"), api)).toBe("refused");
    await page.goto(`${server.origin}/docs`);
    expect(await page.evaluate("navigator.serviceWorker.getRegistrations().then((all) => all.length)")).toBe(0);
  });

  it("gets requests unchanged, and passes its errors and redirects on unchanged", async () => {
    const host = ownHost();
    expect(await ask(host, "/told", {}, "a body")).toMatchObject({ status: 200, text: `${host} a body` });
    expect(await ask(host, "/500")).toMatchObject({ status: 500, text: "broken" });
    expect(await ask(host, "/away")).toMatchObject({ status: 302, headers: { location: "/" } });
    expect(await ask(host, "/cut")).toMatchObject({ status: 503, headers: { "retry-after": "2" } });
    const refused = await ask(host, "/other", { connection: "Upgrade", upgrade: "websocket" });
    expect(refused).toMatchObject({ status: 403, text: "no", headers: { connection: "close", "set-cookie": ["a=1"] } });
  });

  it("never shares its host with the server: other names of the domain show nothing, paths of the API reach the preview", async () => {
    const host = ownHost();
    expect((await ask(host, "/api/v1/builds", { authorization: `Bearer ${key}` })).text).toContain("<title>loading");
    const port = host.split(":")[1];
    for (const name of ["previews.localhost", "a.b.previews.localhost", "nobody.previews.localhost."]) {
      expect((await ask(`${name}:${port}`, "/healthz")).status).toBe(502);
    }
    expect((await ask("127.0.0.1", "/healthz")).status).toBe(200);
    const upgrade = { connection: "Upgrade", upgrade: "websocket" };
    expect((await ask("127.0.0.1", "/healthz", upgrade)).status).toBe(400);
  });

  it("comes back after it dies, and with the first request after it was put to sleep", async () => {
    await ask(ownHost(), "/die").catch(() => undefined);
    await expect.poll(async () => (await ask(ownHost(), "/")).status, { timeout: 20_000 }).toBe(200);
    passedMs = 2 * 3_600_000;
    expect(await sleepIdlePreviews(fixture.app.ports)).toEqual({ asleep: [buildId], ended: [] });
    const answer = await page.goto(ownUrl);
    expect([200, 503]).toContain(answer?.status());
    await expect.poll(() => page.title(), { timeout: 20_000 }).toBe("HELLO");
  });

  it("starts again over HTTP after it was stopped", async () => {
    await api(`/previews/${buildId}/stop`, "POST");
    expect((await ask(ownHost(), "/")).status).toBe(502);
    await api(`/previews/${buildId}/start`, "POST");
    await expect.poll(async () => (await ask(ownHost(), "/")).status, { timeout: 20_000 }).toBe(200);
  });
});
