import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { createServer as createPlainServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { requires } from "../support/require.ts";
import { type GuestFixture, type IsolationName, job, outcome, outputOf, shell, startGuest } from "./guest-fixture.ts";

const isolations: readonly IsolationName[] = requires("bubblewrap") ? ["sweep", "bubblewrap"] : ["sweep"];

describe.each(isolations)("the way out of a sandbox (%s)", (isolation) => {
  let folder: string;
  let egress: string;
  let servers: Server[];
  let guest: GuestFixture | null;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "wavesmith-guest-test-"));
    egress = join(folder, "egress");
    mkdirSync(egress);
    servers = [];
    guest = null;
  });
  afterEach(async () => {
    await guest?.stop();
    for (const server of servers) {
      server.close();
      server.closeAllConnections();
    }
    rmSync(folder, { recursive: true, force: true });
  });

  const start = async (network: string): Promise<GuestFixture> => {
    guest = await startGuest({ isolation, folder, args: ["--network", network, "--egress", egress] });
    return guest;
  };
  const serve = async (name: string, server: Server): Promise<void> => {
    servers.push(server);
    await new Promise<void>((resolve) => server.listen(join(egress, name), resolve));
  };
  /** A proxy that records its requests and lets nothing out. */
  const proxy = async (): Promise<string[]> => {
    const asked: string[] = [];
    const server = createServer((request, response) => {
      asked.push(`${request.method} ${request.url}`);
      response.end("from the proxy\n");
    });
    server.on("connect", (request, socket) => {
      asked.push(`CONNECT ${request.url}`);
      socket.on("error", () => undefined).end("HTTP/1.1 403 Forbidden\r\n\r\n");
    });
    await serve("proxy.sock", server);
    return asked;
  };
  const said = async (key: string, script: string, env: Record<string, string> = {}): Promise<string> => {
    await guest!.client.startJob(key, job(shell(script, { env })));
    await outcome(guest!.client, key);
    return outputOf(guest!.client, key);
  };

  it("is used by curl, git, npm and pip without any settings", async () => {
    const asked = await proxy();
    await start("allowlist");
    expect(await said("http", "curl -sS http://somewhere.test/path")).toBe("from the proxy\n");
    await said("https", "curl -sS https://curl.test/");
    await said("git", "git ls-remote https://git.test/repository");
    await said("npm", "npm view left-pad --registry https://npm.test --fetch-retries 0");
    await said("pip", "python3 -m pip download --no-input --retries 0 --index-url https://pip.test/simple left-pad");
    expect(asked).toContain("GET http://somewhere.test/path");
    for (const host of ["curl.test", "git.test", "npm.test", "pip.test"])
      expect(asked).toContain(`CONNECT ${host}:443`);
  });

  it("is not taken to servers of the sandbox itself", async () => {
    const asked = await proxy();
    await start("allowlist");
    const serve = "require('http').createServer((_, reply) => reply.end('from inside\\n')).listen(8123, '127.0.0.1')";
    const fetch =
      "curl -sS --retry 20 --retry-connrefused --retry-delay 1 http://127.0.0.1:8123/; curl -sS http://localhost:8123/";
    expect(await said("inside", `${process.execPath} -e "${serve}" & ${fetch}; kill $!`)).toMatch(
      /from inside\nfrom inside\n$/,
    );
    expect(asked).toEqual([]);
  });

  it("can be replaced by the plan's environment, in either spelling", async () => {
    const asked = await proxy();
    await start("allowlist");
    const text = await said("own", "env | grep -i https_proxy; env | grep -ic http_proxy", {
      https_proxy: "http://own.test:1",
    });
    expect(text).toBe("https_proxy=http://own.test:1\n2\n");
    await said("upper", "curl -sS --max-time 5 http://somewhere.test/", { HTTP_PROXY: "http://127.0.0.1:1" });
    expect(asked).toEqual([]);
  });

  it("is reported with its ports", async () => {
    await start("allowlist");
    const { egress: ports } = await guest!.client.health();
    const text = await said("environment", "env | grep -iE 'proxy|model' | sort");
    const url = `http://127.0.0.1:${ports!.proxyPort}`;
    expect(text.trim().split("\n").sort()).toEqual(
      [
        `HTTPS_PROXY=${url}`,
        `HTTP_PROXY=${url}`,
        `http_proxy=${url}`,
        `https_proxy=${url}`,
        "NODE_USE_ENV_PROXY=1",
        "NO_PROXY=localhost,127.0.0.1,::1",
        "no_proxy=localhost,127.0.0.1,::1",
        `WAVESMITH_MODEL_URL=http://127.0.0.1:${ports!.modelPort}`,
      ].sort(),
    );
    const { stdout } = await guest!.client.exec({
      argv: ["sh", "-c", "echo $HTTPS_PROXY"],
      cwd: "",
      env: {},
      writable: [],
      timeoutMs: 20_000,
      maxBytes: 1_000,
    });
    expect(stdout).toBe(`${url}\n`);
  });

  it.each(["none", "open"])("leads to the model alone when the network is %s", async (network) => {
    await serve(
      "model.sock",
      createServer((request, response) => request.pipe(response)),
    );
    await start(network);
    expect((await guest!.client.health()).egress).toMatchObject({ proxyPort: null });
    expect(await said("environment", "env | grep -ic proxy=http")).toBe(network === "none" ? "4\n" : "0\n");
    expect(await said("model", "head -c 3000000 /dev/zero | curl -sS -T - $WAVESMITH_MODEL_URL/ | wc -c")).toBe(
      "3000000\n",
    );
  });

  it("is missing where the network is none: programs fail at once, and the hosts they asked for are known", async () => {
    await start("none");
    const since = Date.now();
    const refusal =
      'this sandbox has no network (network: none in the plan); if it is needed: network: { allow: ["http.test:81"] }';
    expect(await said("http", "curl -sS http://http.test:81/path")).toBe(`${refusal}\n`);
    expect(await said("https", "curl -sSv https://curl.test/ 2>&1")).toContain("403 this sandbox has no network");
    expect(await said("npm", "npm view left-pad --registry https://npm.test; true")).toContain("403");
    // npm retries for more than a minute when nothing answers; this must not take that long.
    expect(Date.now() - since).toBeLessThan(45_000);
    const { egress } = await guest!.client.health();
    expect(egress?.refused?.map(({ host }) => host)).toEqual(["http.test:81", "curl.test", "npm.test"]);
    expect(egress?.refused?.every(({ at }) => Date.parse(at) >= since)).toBe(true);
  });

  it("is used as soon as it exists, and reports when it does not", async () => {
    await start("allowlist");
    expect(await said("without", "curl -sS http://somewhere.test/")).toMatch(
      /proxy.sock of this sandbox does not answer/,
    );
    const late = said("late", "curl -sS http://somewhere.test/");
    await proxy();
    expect(await late).toBe("from the proxy\n");
  });

  it("has another port if the usual one is taken", async () => {
    const taken = createPlainServer();
    await new Promise<void>((resolve) => {
      // Another guest may be using it already; then it is used as well.
      taken.once("error", () => resolve());
      taken.listen(28_128, "127.0.0.1", resolve);
    });
    try {
      const asked = await proxy();
      await start("allowlist");
      expect((await guest!.client.health()).egress?.proxyPort).not.toBe(28_128);
      await said("http", "curl -sS http://somewhere.test/");
      expect(asked).toEqual(["GET http://somewhere.test/"]);
    } finally {
      taken.close();
    }
  });
});

describe("a guest without a way out", () => {
  it("gives programs no proxy settings, and says so", async () => {
    const guest = await startGuest({ isolation: "sweep" });
    try {
      expect((await guest.client.health()).egress).toBeNull();
      await guest.client.startJob("environment", job(shell("env | grep -icE 'proxy|WAVESMITH_MODEL'")));
      await outcome(guest.client, "environment");
      expect(await outputOf(guest.client, "environment")).toBe("0\n");
    } finally {
      await guest.stop();
    }
  });
});
