import { randomBytes } from "node:crypto";
import { request } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { requestCancel } from "../../src/coordinator/build/stop/cancel-build.ts";
import { type RunningServer, startServer } from "../../src/server/server.ts";
import { type BuildFixture, createBuildFixture } from "../support/build-fixture.ts";

const key = "s3cret-of-the-files";
const script = [
  "mkdir -p src/deep",
  "echo one > src/one.js",
  "echo two > 'src/deep/a b%.txt'",
  "ln -s /etc/passwd link",
  "ln -s /etc folder-link",
  "printf '#!/bin/sh\\n' > run.sh",
  "chmod +x run.sh",
].join("; ");
const sleeper = "sleep 600";

describe("a project's files", () => {
  let fixture: BuildFixture;
  let server: RunningServer;
  let buildId: string;

  const ask = (path: string, init: RequestInit = {}) =>
    fetch(`${server.origin}/api/v1/projects/${fixture.projectId}/files${path}`, {
      ...init,
      headers: { authorization: `Bearer ${key}`, ...init.headers },
      signal: AbortSignal.timeout(20_000),
    });
  const put = (path: string, body: string | Buffer, headers: Record<string, string> = {}) =>
    ask(path, { method: "PUT", body: body as string, headers });
  const json = async (path: string) => (await ask(path)).json() as Promise<Record<string, never>>;
  /** Requests a path that `fetch` would clean up. */
  const askRaw = (path: string): Promise<number> =>
    new Promise((resolve, reject) => {
      const { hostname, port } = new URL(server.origin);
      const sent = request({ hostname, port, path, headers: { authorization: `Bearer ${key}` } }, (response) => {
        response.resume();
        resolve(response.statusCode ?? 0);
      });
      sent.on("error", reject);
      sent.end();
    });

  beforeAll(async () => {
    fixture = await createBuildFixture();
    server = await startServer({
      ...{ app: fixture.app, engine: { kind: "embedded", serveOrigin: null }, key, host: "127.0.0.1", port: 0 },
      ...{ inform: () => undefined, warn: (message) => fixture.warnings.push(message) },
    });
    buildId = (await fixture.build({ tasks: [{ id: "a", run: script }] })).id;
  });
  afterAll(async () => {
    await server.stop();
    await fixture.close();
  });

  it("are listed folder by folder, in pages", async () => {
    const top = await json("");
    expect(top.items).toMatchObject([
      { name: "folder-link", kind: "link" },
      { name: "link", kind: "link", sizeBytes: "/etc/passwd".length },
      { name: "run.sh", kind: "file", executable: true },
      { name: "src", path: "src", kind: "folder", sizeBytes: null },
    ]);
    const first = await json("?limit=3");
    expect(first.items).toHaveLength(3);
    expect((await json(`?limit=3&cursor=${first.nextCursor}`)).items).toMatchObject([{ name: "src" }]);
    expect((await json("?path=src")).items).toMatchObject([{ path: "src/deep" }, { path: "src/one.js", sizeBytes: 4 }]);
    expect((await json(`?path=src&build=${buildId}&task=a`)).items).toMatchObject([{}, { path: "src/one.js" }]);
    expect((await ask("?path=nowhere")).status).toBe(404);
    expect((await ask("?path=src/one.js")).status).toBe(404);
  });

  it("are read with an ETag, and no browser renders them", async () => {
    const read = await ask("/src/one.js");
    expect([read.status, await read.text()]).toEqual([200, "one\n"]);
    expect(read.headers.get("content-type")).toBe("application/octet-stream");
    expect(read.headers.get("content-security-policy")).toContain("sandbox");
    const etag = read.headers.get("etag") ?? "";
    const again = await ask("/src/one.js", { headers: { "if-none-match": etag } });
    expect([again.status, await again.text()]).toEqual([304, ""]);
    expect(await (await ask(`/${encodeURIComponent("src/deep/a b%.txt")}`)).text()).toBe("two\n");
    expect(await (await ask(`/src/one.js?build=${buildId}&wave=1`)).text()).toBe("one\n");
    expect(await (await ask("/link")).text()).toBe("/etc/passwd");
  });

  it("stay inside the project's tree", async () => {
    const base = `/api/v1/projects/${fixture.projectId}/files`;
    for (const path of [
      "../../x",
      "%2e%2e/x",
      "..%2f..%2fserve-key",
      "src%2f..%2frun.sh",
      "/etc/passwd",
      ".git/config",
      "a%00b",
    ])
      expect([path, [400, 404].includes(await askRaw(`${base}/${path}`))]).toEqual([path, true]);
    expect((await ask("/folder-link/passwd")).status).toBe(404);
    for (const path of ["folder-link/x", "src/one.js/x", "link", "src"])
      expect([path, (await put(`/${path}`, "x")).status]).toEqual([path, 409]);
    for (const path of [".git/hooks/post-update", "src/.GIT/config", "..%2fx", "a%5cb", "git~1/config"])
      expect([path, (await put(`/${path}`, "x")).status]).toEqual([path, 400]);
  });

  it("are committed to main under the caller's name, and the next build starts from them", async () => {
    const etag = (await ask("/run.sh")).headers.get("etag") ?? "";
    const written = await put("/run.sh?by=Ada&message=Say+hello", "echo hello\n", { "if-match": etag });
    expect(written.status).toBe(200);
    const { commit, tag } = (await written.json()) as { commit: string; tag: string };
    expect(written.headers.get("etag")).toBe(tag);
    expect(await fixture.git("log", "-1", "--format=%an %s %H", "main")).toBe(`Ada Say hello ${commit}\n`);
    expect(await fixture.git("ls-tree", "main", "run.sh")).toMatch(/^100755/);
    const late = await put("/run.sh", "echo other\n", { "if-match": etag });
    expect([late.status, await late.json()]).toMatchObject([409, { code: "conflict" }]);
    const made = await put("/docs/new.md", "# New\n", { "if-none-match": "*" });
    expect(made.status).toBe(201);
    expect((await put("/docs/new.md", "x", { "if-none-match": "*" })).status).toBe(409);
    const build = await fixture.build({ tasks: [{ id: "b", run: "cat docs/new.md run.sh > both.txt" }] });
    expect(build.status).toBe("completed");
    expect(await (await ask("/both.txt")).text()).toBe("# New\necho hello\n");
  });

  it("keep bytes as they are, up to 10 MiB", async () => {
    const bytes = randomBytes(3_000_000);
    expect((await put("/bytes.bin", bytes)).status).toBe(201);
    expect(Buffer.from(await (await ask("/bytes.bin")).arrayBuffer()).equals(bytes)).toBe(true);
    expect((await put("/empty", "")).status).toBe(201);
    expect(await (await ask("/empty")).text()).toBe("");
    const large = await put("/large.bin", Buffer.alloc(10 * 1024 * 1024 + 1));
    expect([large.status, await large.json()]).toMatchObject([413, { code: "too-large" }]);
  });

  it("are not changed while a build is active", async () => {
    const running = await fixture.request({ tasks: [{ id: "c", run: sleeper }] });
    await fixture.until(running, ({ status }) => status === "running");
    const refused = await put("/run.sh", "x");
    expect([refused.status, await refused.json()]).toMatchObject([409, { detail: expect.stringContaining(running) }]);
    await requestCancel(fixture.app.ports, running, "seen enough");
    await fixture.until(running);
  });
});
