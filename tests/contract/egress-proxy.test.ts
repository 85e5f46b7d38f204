import { execFile, execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server } from "node:http";
import { type AddressInfo, connect, createServer as createPlainServer, type Server as NetServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createServer as createSecureServer } from "node:tls";
import { promisify } from "node:util";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { kindOfAddress } from "../../src/sandbox/egress/addresses.ts";
import { createDecisionLog, readDecisions } from "../../src/sandbox/egress/decision-log.ts";
import { createProxy, type ProxyLimits } from "../../src/sandbox/egress/proxy.ts";
import { createRules } from "../../src/sandbox/egress/rules.ts";

const run = promisify(execFile);
const folder = mkdtempSync(join(tmpdir(), "wavesmith-egress-"));
const log = join(folder, "decisions.jsonl");
const servers: NetServer[] = [];
const portOf = (server: NetServer) => (server.address() as AddressInfo).port;

/** Loopback stands in for the internet here, because a sandbox's proxy never goes there. */
const kindOf = (address: string) => (address === "127.0.0.1" ? ("public" as const) : kindOfAddress(address));
const addresses: Record<string, readonly (readonly string[])[]> = {
  "up.example": [["127.0.0.1"]],
  "rebinds.example": [["127.0.0.1"], ["169.254.169.254"]],
  "metadata.example": [["169.254.169.254"]],
  "mapped.example": [["::ffff:169.254.169.254", "fe80::1", "::"]],
  "mixed.example": [["169.254.169.254", "127.0.0.1"]],
  "private.wild.example": [["10.1.2.3"]],
  "nobody.example": [["127.0.0.1"]],
};
const asked: string[] = [];
async function lookup(host: string): Promise<readonly string[]> {
  asked.push(host);
  const known = addresses[host];
  if (known === undefined) throw Object.assign(new Error(`no ${host}`), { code: "ENOTFOUND" });
  return known[Math.min(asked.filter((one) => one === host).length, known.length) - 1]!;
}

interface Seen {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage["headers"];
  readonly rawHeaders: readonly string[];
  readonly body: string;
}
const seen: Seen[] = [];
let upstream: Server;
let up = 0;
let proxy = 0;

async function listen(server: NetServer): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  servers.push(server);
  return portOf(server);
}

/** A proxy for a plan that names these hosts. */
function proxyFor(hosts: readonly string[], limits: Partial<ProxyLimits> = {}): Promise<number> {
  const rules = createRules({ mode: "allowlist", hosts }, kindOf);
  return listen(createProxy({ rules: () => rules, lookup, decisions: createDecisionLog(openSync(log, "a+")), limits }));
}

function startProxy(limits: Partial<ProxyLimits> = {}): Promise<number> {
  const hosts = ["up", "rebinds", "metadata", "mapped", "mixed", "nobody"].map((name) => `${name}.example:${up}`);
  return proxyFor([...hosts, "*.wild.example", "nobody.example:1"], limits);
}

beforeAll(async () => {
  upstream = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    const { method = "", url = "", headers, rawHeaders } = request;
    seen.push({ method, url, headers, rawHeaders, body });
    if (url === "/breaks") {
      response.writeHead(200, { "content-length": 100 });
      response.write("half");
      setTimeout(() => response.destroy(), 20);
      return;
    }
    response.writeHead(200, { "x-up": "1", connection: "x-hop", "x-hop": "gone", "content-type": "text/plain" });
    response.end(url === "/large" ? Buffer.alloc(3_000_000, "x") : `${method} ${url} ${body}`);
  });
  up = await listen(upstream);
  proxy = await startProxy();
});
beforeEach(() => {
  asked.length = 0;
  seen.length = 0;
  writeFileSync(log, "");
});
afterAll(() => {
  for (const server of servers) {
    server.close();
    (server as Partial<Server>).closeAllConnections?.();
  }
  rmSync(folder, { recursive: true, force: true });
});

/**
 * Sends bytes unchanged, and returns everything that comes until the proxy closes the connection.
 */
function raw(bytes: string | Buffer, port = proxy): Promise<string> {
  return new Promise((resolve) => {
    let text = "";
    const socket = connect(port, "127.0.0.1", () => socket.write(bytes));
    socket.setEncoding("latin1");
    socket.on("data", (chunk) => {
      text += chunk;
    });
    socket.on("error", () => undefined);
    socket.on("close", () => resolve(text));
  });
}
const statusOf = (reply: string) => Number(/^HTTP\/1\.1 (\d+)/.exec(reply)?.[1] ?? 0);
const get = (url: string, headers = "") => raw(`GET ${url} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${headers}\r\n`);

describe("a request through the proxy", () => {
  it("keeps its end-to-end headers and its body, and nothing else", async () => {
    const hop = "Proxy-Authorization: Basic c2VjcmV0\r\nTE: trailers\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA\r\n";
    const named = `Connection: close, X-Named\r\nX-Named: 1\r\nX-Kept: 1\r\nX-Kept: 2\r\n`;
    const reply = await raw(`GET http://up.example:${up}/a?b=c HTTP/1.1\r\nHost: other.example\r\n${hop}${named}\r\n`);
    expect(statusOf(reply)).toBe(200);
    expect(reply).toContain("x-up: 1");
    expect(reply).not.toContain("x-hop");
    expect(seen).toMatchObject([
      { method: "GET", url: "/a?b=c", headers: { host: `up.example:${up}`, "x-kept": "1, 2" } },
    ]);
    expect(Object.keys(seen[0]!.headers).sort()).toEqual(["connection", "host", "x-kept"]);
  });

  it.each([
    ["of a known length", "Content-Length: 5\r\n\r\nhello"],
    ["in chunks", "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"],
  ])("is a body %s, of any method", async (_, framed) => {
    for (const method of ["POST", "GET", "DELETE"]) {
      const head = `${method} http://up.example:${up}/ HTTP/1.1\r\nConnection: close\r\n`;
      expect(statusOf(await raw(head + framed))).toBe(200);
    }
    expect(seen.map(({ method, body }) => [method, body])).toEqual([
      ["POST", "hello"],
      ["GET", "hello"],
      ["DELETE", "hello"],
    ]);
  });

  it("is each request of a connection by itself", async () => {
    const first = `GET http://up.example:${up}/one HTTP/1.1\r\nHost: up.example\r\n\r\n`;
    const second = `GET http://denied.example/two HTTP/1.1\r\nHost: up.example\r\nConnection: close\r\n\r\n`;
    const reply = await raw(first + second);
    expect(reply.match(/^HTTP\/1\.1 \d+/gm)).toEqual(["HTTP/1.1 200", "HTTP/1.1 403"]);
    expect(seen.map(({ url }) => url)).toEqual(["/one"]);
  });

  it("is a tunnel for any protocol, including the bytes sent along at once, until both sides have ended", async () => {
    const echo = createPlainServer({ allowHalfOpen: true }, (socket) => socket.pipe(socket));
    addresses["echo.wild.example"] = [["127.0.0.1"]];
    const port = await listen(echo);
    const wild = await proxyFor([`*.wild.example:${port}`]);
    const text = await new Promise<string>((resolve) => {
      let all = "";
      const socket = connect({ port: wild, host: "127.0.0.1", allowHalfOpen: true }, () => {
        socket.write(`CONNECT ECHO.wild.example.:${port} HTTP/1.1\r\n\r\nearly `);
        setTimeout(() => socket.end("late"), 50);
      });
      socket.on("data", (chunk) => {
        all += chunk;
      });
      socket.on("end", () => resolve(all));
    });
    expect(text).toBe("HTTP/1.1 200 Connection established\r\n\r\nearly late");
  });

  it("breaks off where the server broke off, so that half an answer is not taken for a whole one", async () => {
    const reply = await get(`http://up.example:${up}/breaks`);
    expect(reply).toMatch(/content-length: 100/i);
    expect(reply.endsWith("half")).toBe(true);
  });

  it("has its own error, different from no answer and from no address", async () => {
    expect(await get("http://nobody.example:1/")).toMatch(
      /^HTTP\/1\.1 502 [\s\S]*nobody\.example:1 is allowed and does not answer: ECONNREFUSED\n$/,
    );
    expect(await get("http://unknown.wild.example/")).toMatch(
      /^HTTP\/1\.1 502 [\s\S]*unknown\.wild\.example is allowed but has no address: ENOTFOUND\n$/,
    );
  });
});

describe("the proxy denies", () => {
  const inPlainForm: [string, number][] = [
    ["http://denied.example/", 403],
    ["http://up.example/", 403],
    ["http://up.example:22/", 403],
    ["http://wild.example/", 403],
    ["http://up.example.denied.example/", 403],
    ["http://127.0.0.1/", 403],
    ["http://127.0.0.1:80/", 403],
    ["http://169.254.169.254/latest/meta-data/", 403],
    ["http://[::1]/", 403],
    ["http://[::ffff:127.0.0.1]/", 403],
    ["http://[fd00:ec2::254]/", 403],
    ["http://10.1.2.3/", 403],
    ["http://2130706433/", 400],
    ["http://0x7f000001/", 400],
    ["http://0177.0.0.1/", 400],
    ["http://127.1/", 400],
    ["http://0/", 400],
    ["http://127.0.0.1.:80/", 403],
    ["http://user@up.example/", 400],
    ["http://up.example@denied.example/", 400],
    ["http://up.example\\@denied.example/", 400],
    ["http://up.example#@denied.example/", 400],
    ["http://up.example%2edenied.example/", 400],
    ["http:///", 400],
    ["http://up.example:99999/", 400],
    ["https://up.example/", 400],
    ["ftp://up.example/", 400],
    ["file:///etc/passwd", 400],
    ["/", 400],
    ["*", 400],
  ];

  it.each(inPlainForm)("%s as an address with %i", async (url, status) => {
    expect(statusOf(await get(url, "Host: up.example\r\n"))).toBe(status);
    expect(seen).toEqual([]);
    expect(asked).toEqual([]);
  });

  it.each([
    ["denied.example:443", 403],
    ["up.example:22", 403],
    ["127.0.0.1:443", 403],
    ["[::1]:443", 403],
    ["[::ffff:7f00:1]:443", 403],
    ["169.254.169.254:80", 403],
    ["2130706433:443", 400],
    ["0x7f.1:443", 400],
    ["up.example", 400],
    ["up.example:0", 400],
    ["user@up.example:443", 400],
    ["up.example:443/path", 400],
    ["http://up.example/", 400],
    ["//up.example:443", 400],
  ])("CONNECT %s with %i", async (target, status) => {
    const reply = await raw(`CONNECT ${target} HTTP/1.1\r\nHost: up.example\r\n\r\n`);
    expect(statusOf(reply)).toBe(status);
    expect(asked).toEqual([]);
  });

  it.each(["metadata.example", "mapped.example"])("%s, which is allowed and whose addresses are not", async (host) => {
    const reply = await get(`http://${host}:${up}/`);
    expect(reply).toMatch(/^HTTP\/1\.1 403 [\s\S]*has an address that no sandbox may reach/);
    expect(statusOf(await raw(`CONNECT ${host}:${up} HTTP/1.1\r\n\r\n`))).toBe(403);
  });

  it("a private address of a host that the plan does not name itself", async () => {
    expect(await get("http://private.wild.example/")).toMatch(/403 [\s\S]*allow: \["private\.wild\.example"\]/);
  });

  it("a second answer of the name server, because a connection goes to the checked address", async () => {
    expect(statusOf(await get(`http://rebinds.example:${up}/`))).toBe(200);
    expect(asked).toEqual(["rebinds.example"]);
    expect(statusOf(await get(`http://rebinds.example:${up}/`))).toBe(403);
    expect(statusOf(await get(`http://mixed.example:${up}/`))).toBe(200);
  });

  it("an upgrade: the server gets the request without it, and the connection stays HTTP", async () => {
    const reply = await get(
      `http://up.example:${up}/`,
      "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n",
    );
    expect(statusOf(reply)).toBe(200);
    expect(seen[0]!.headers).not.toHaveProperty("upgrade");
  });

  const to = () => `POST http://up.example:${up}/ HTTP/1.1\r\nHost: up.example\r\n`;
  it.each([
    ["both lengths", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n"],
    [
      "both the other way",
      "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n",
    ],
    ["two lengths", "Content-Length: 5\r\nContent-Length: 50\r\n\r\nhello"],
    ["a list of lengths", "Content-Length: 5, 5\r\n\r\nhello"],
    ["a negative length", "Content-Length: -1\r\n\r\nhello"],
    ["another encoding", "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"],
    ["an encoding that hides", "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"],
    ["a space before the colon", "Transfer-Encoding : chunked\r\nContent-Length: 5\r\n\r\nhello"],
    ["a folded header", "Transfer-Encoding:\r\n chunked\r\nContent-Length: 5\r\n\r\nhello"],
    ["a bare line feed", "X: 1\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"],
    ["a chunk of no size", "Transfer-Encoding: chunked\r\n\r\nzz\r\n"],
  ])("%s, by which a server could be made to see another request", async (_, rest) => {
    const reply = await raw(`${to()}Connection: close\r\n${rest}`);
    expect(statusOf(reply)).not.toBe(0);
    expect(seen.map(({ url }) => url)).not.toContain("/smuggled");
    for (const { headers } of seen)
      expect([headers["content-length"], headers["transfer-encoding"]]).toContain(undefined);
    if (seen.length > 0) expect(statusOf(reply)).toBe(200);
  });

  it("endless headers, by size and by time, and more connections than its limit", async () => {
    expect(statusOf(await get(`http://up.example:${up}/`, `X: ${"x".repeat(40_000)}\r\n`))).toBe(431);
    const hurried = await startProxy({ headersMs: 200 });
    expect(statusOf(await raw("GET http://up.example/ HTTP/1.1\r\nHost:", hurried))).toBe(408);
    const narrow = await startProxy({ connections: 1 });
    const held = connect(narrow, "127.0.0.1");
    await new Promise((resolve) => held.once("connect", resolve));
    expect(await raw(`GET http://up.example:${up}/ HTTP/1.1\r\nHost: x\r\n\r\n`, narrow)).toBe("");
    held.destroy();
  });

  it("a tunnel that is silent for too long", async () => {
    const impatient = await startProxy({ idleMs: 200 });
    expect(await raw(`CONNECT up.example:${up} HTTP/1.1\r\n\r\n`, impatient)).toMatch(/^HTTP\/1\.1 200/);
  });
});

describe("the decisions", () => {
  it("are logged with host, port and reason, and without any part of the request", async () => {
    await get(`http://up.example:${up}/secret-path?token=secret`, "Cookie: secret\r\n");
    await get("http://denied.example/secret-path");
    await get("http://unknown.wild.example/secret-path");
    await raw("CONNECT secret@up.example:443 HTTP/1.1\r\n\r\n");
    expect(readDecisions(log)).toMatchObject([
      { decision: "allowed", host: "up.example", port: up },
      { decision: "denied", host: "denied.example", port: 80, why: "unlisted" },
      { decision: "unreachable", host: "unknown.wild.example", port: 80, problem: "ENOTFOUND" },
      { decision: "denied", host: "", port: 0, why: "malformed" },
    ]);
    expect(readFileSync(log, "utf8")).not.toContain("secret");
  });

  it("stay within their size limit, and the latest are complete", () => {
    const path = join(folder, "bounded.jsonl");
    const decisions = createDecisionLog(openSync(path, "a+"), () => new Date(0), 2_000);
    for (let port = 1; port <= 500; port += 1)
      decisions.write("denied", { host: "x.example", port, isAddress: false }, { why: "unlisted" });
    expect(statSync(path).size).toBeLessThan(2_200);
    const ports = readDecisions(path).map((decision) => decision.port);
    expect(ports.at(-1)).toBe(500);
    expect(ports).toEqual(ports.map((_, index) => 501 - ports.length + index));
  });

  it("continue after the disk was full, and say that some are missing", () => {
    const path = join(folder, "read-only.jsonl");
    writeFileSync(path, "");
    const decisions = createDecisionLog(openSync(path, "r"));
    decisions.write("denied", null, { why: "malformed" });
    expect(readDecisions(path)).toEqual([]);
  });
});

describe("real programs that know the proxy only from their environment", () => {
  const environment = () => {
    const url = `http://127.0.0.1:${proxy}`;
    const { PATH, TMPDIR } = process.env;
    return { PATH, TMPDIR, HOME: folder, http_proxy: url, https_proxy: url, HTTP_PROXY: url, HTTPS_PROXY: url };
  };
  const use = (program: string, ...args: string[]) =>
    run(program, args, { env: environment(), cwd: folder, maxBuffer: 1 << 24 }).then(
      ({ stdout }) => ({ code: 0, stdout, stderr: "" }),
      ({ code, stdout, stderr }) => ({ code, stdout, stderr }),
    );

  /** Serves a folder of files under this name, from now on only through the proxy. */
  async function serveFolder(name: string, root: string): Promise<string> {
    const server = createServer((request, response) => {
      const url = request.url!.split("?")[0]!;
      const path = join(root, url.endsWith("/") ? `${url}index.html` : url);
      response.setHeader("content-type", url.endsWith("/") ? "text/html" : "application/octet-stream");
      if (statSync(path, { throwIfNoEntry: false })?.isFile()) response.end(readFileSync(path));
      else response.writeHead(404).end();
    });
    const port = await listen(server);
    addresses[name] = [["127.0.0.1"]];
    proxy = await proxyFor([`${name}:${port}`]);
    return `http://${name}:${port}`;
  }

  it("curl fetches, posts and shows the reason of a refusal", async () => {
    expect(await use("curl", "-sS", `http://up.example:${up}/x`)).toMatchObject({ stdout: "GET /x " });
    const large = join(folder, "large");
    writeFileSync(large, Buffer.alloc(2_000_000, "y"));
    const posted = await use("curl", "-sS", "--data-binary", `@${large}`, `http://up.example:${up}/post`);
    expect(posted.stdout.length).toBe("POST /post ".length + 2_000_000);
    expect((await use("curl", "-sS", `http://up.example:${up}/large`)).stdout.length).toBe(3_000_000);
    expect((await use("curl", "-sS", "http://denied.example/")).stdout).toBe(
      'denied.example is not among the hosts this plan may reach; allow it in the plan: network: { allow: ["denied.example"] }\n',
    );
    expect(await use("curl", "-sS", "https://denied.example/")).toMatchObject({ code: 56 });
  });

  it("curl speaks TLS with the server itself through the tunnel", async () => {
    const [key, cert] = [join(folder, "key.pem"), join(folder, "cert.pem")];
    const names = ["-subj", "/CN=up.example", "-addext", "subjectAltName=DNS:tls.wild.example"];
    execFileSync("openssl", ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, ...names], {
      stdio: "ignore",
    });
    const secure = createSecureServer({ key: readFileSync(key), cert: readFileSync(cert) }, (socket) => {
      socket.once("data", () => socket.end("HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nsecret"));
    });
    const port = await listen(secure);
    addresses["tls.wild.example"] = [["127.0.0.1"]];
    proxy = await proxyFor([`tls.wild.example:${port}`]);
    const { stdout } = await use("curl", "-sS", "--cacert", cert, `https://tls.wild.example:${port}/`);
    expect(stdout).toBe("secret");
  });

  it("git clones over HTTP, but not from a host that is not allowed", async () => {
    const origin = join(folder, "origin");
    const git = (...args: string[]) =>
      execFileSync("git", ["-C", origin, "-c", "user.name=t", "-c", "user.email=t@example.org", ...args]);
    mkdirSync(origin);
    git("init", "-q", "-b", "main");
    git("commit", "-q", "--allow-empty", "-m", "first");
    git("update-server-info");
    const url = await serveFolder("git.example", folder);
    expect(await use("git", "clone", "-q", `${url}/origin/.git`, "clone")).toMatchObject({ code: 0 });
    expect((await use("git", "-C", "clone", "log", "--format=%s")).stdout).toBe("first\n");
    expect((await use("git", "clone", "-q", "http://denied.example/x.git")).stderr).toMatch(/403/);
  });

  const hasPip = spawnSync("python3", ["-m", "pip", "--version"], { stdio: "ignore" }).status === 0;
  if (!hasPip) console.warn("SKIPPED: this machine lacks pip");
  it.runIf(hasPip)("pip downloads from an index, and shows which host was denied", async () => {
    const wheel = "tiny-1.0-py3-none-any.whl";
    const make = `
import zipfile
with zipfile.ZipFile("${wheel}", "w") as z:
    z.writestr("tiny.py", "")
    z.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: tiny\\nVersion: 1.0\\n")
    z.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    z.writestr("tiny-1.0.dist-info/RECORD", "")
`;
    mkdirSync(join(folder, "simple/tiny"), { recursive: true });
    execFileSync("python3", ["-c", make], { cwd: join(folder, "simple") });
    writeFileSync(join(folder, "simple/tiny/index.html"), `<a href="../${wheel}">${wheel}</a>`);
    const url = await serveFolder("index.example", folder);
    const usual = ["--no-cache-dir", "--disable-pip-version-check", "--retries", "1", "--no-deps", "-d", "got"];
    const pip = (index: string) =>
      use(
        "python3",
        "-m",
        "pip",
        "download",
        ...usual,
        "--index-url",
        index,
        "--trusted-host",
        "index.example",
        "tiny",
      );
    expect(await pip(`${url}/simple/`)).toMatchObject({ code: 0 });
    expect(statSync(join(folder, "got", wheel)).size).toBeGreaterThan(0);
    expect((await pip("https://denied.example/simple/")).stderr).toMatch(/denied\.example is not among the hosts/);
  });
});
