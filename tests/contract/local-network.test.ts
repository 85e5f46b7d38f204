import { spawnSync } from "node:child_process";
import { chmodSync, chownSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { networkInterfaces, tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { ProjectId } from "../../src/domain/ids.ts";
import { networkOf } from "../../src/domain/sandbox/network.ts";
import { markOf } from "../../src/sandbox/drivers/local/launch.ts";
import { createLocalDriver, type LocalDriverOptions } from "../../src/sandbox/drivers/local.ts";
import { readDecisions } from "../../src/sandbox/egress/decision-log.ts";
import { decisionsOf, startEgress } from "../../src/sandbox/egress/egress.ts";
import { findProcesses, killProcess } from "../../src/sandbox/host/processes.ts";
import type { GuestClient, SandboxDriver, SandboxSpec } from "../../src/sandbox/port.ts";
import { npmRegistry } from "../support/npm-registry.ts";
import { requires } from "../support/require.ts";
import { anotherProcess, processesWith, scriptJob, shell, specOf, until } from "./sandbox-driver.ts";

const env = { PATH: process.env.PATH ?? "", HOME: process.env.HOME ?? "/" };
const projectId = "proj_a" as ProjectId;

/** A spec whose plan allows these hosts; without any, the plan does not mention the network. */
const specFor = (...allow: string[]): SandboxSpec => ({
  ...specOf(projectId),
  network: networkOf({ network: allow.length === 0 ? "allowlist" : { allow } }),
});

describe.runIf(requires("bubblewrap"))("the network of a local sandbox", () => {
  let dataDir = "";
  let options: LocalDriverOptions;
  let driver: SandboxDriver;
  let port = 0;
  const own = Object.values(networkInterfaces())
    .flat()
    .find((one) => one?.family === "IPv4" && !one.internal)?.address;
  const server = createServer((request, response) => response.end(`reached ${request.headers.host}`));

  beforeAll(async () => {
    dataDir = mkdtempSync(join(tmpdir(), "wavesmith-network-"));
    options = { unsafe: false, dataDir, installationId: "inst_test", readOnly: [], env };
    driver = createLocalDriver(options);
    await new Promise<void>((resolve) => server.listen(0, "0.0.0.0", resolve));
    port = (server.address() as AddressInfo).port;
  });
  afterEach(async () => {
    await driver.remove(projectId, { volume: true });
    expect(processesWith(dataDir)).toEqual([]);
  });
  afterAll(() => {
    server.close();
    rmSync(dataDir, { recursive: true, force: true });
  });

  const curl = async (guest: GuestClient, url: string) => (await shell(guest, `curl -sS --max-time 20 ${url}`)).stdout;

  it("is an allowlist by default: no route, no name server, and a proxy that says what to write", async () => {
    const { guest } = await driver.ensure(specFor());
    const routes = await shell(
      guest,
      "wc -l </proc/net/route; ls /sys/class/net 2>/dev/null; getent hosts example.org",
    );
    expect(routes.stdout.trim().split("\n")[0]).toBe("1");
    expect(await curl(guest, "http://example.org/")).toMatch(
      /^example\.org is not among the hosts .*allow: \["example\.org"\]/,
    );
    expect((await shell(guest, "curl -sS https://example.org/")).stderr).toMatch(/403/);
    expect((await shell(guest, "curl -sS --noproxy '*' --max-time 5 http://1.1.1.1/")).exitCode).not.toBe(0);
    expect(await driver.capabilities()).toMatchObject({
      network: ["none", "allowlist", "open"],
      isolation: "bubblewrap",
    });
  });

  it("does not lead to this machine, by any name", async () => {
    const { guest } = await driver.ensure(specFor("localhost", `localhost:${port}`, "*.nip.io"));
    for (const url of [`http://localhost:${port}/`, `http://127.0.0.1:${port}/`, `http://[::1]:${port}/`]) {
      expect(await curl(guest, url)).not.toMatch(/reached/);
      const answer = (await shell(guest, `curl -sS --noproxy '' -x "$http_proxy" '${url}'`)).stdout;
      expect(answer).toMatch(/address that no sandbox may reach/);
    }
    if (own !== undefined) expect(await curl(guest, `http://${own}:${port}/`)).toMatch(/not among the hosts/);
    const escapes = "ls /run/wavesmith-egress; touch /run/wavesmith-egress/x; rm /run/wavesmith-egress/proxy.sock";
    expect((await shell(guest, escapes)).stderr.match(/Read-only file system/g)).toHaveLength(2);
  });

  it.runIf(own !== undefined)("follows the plan's hosts without restarting the sandbox or its jobs", async () => {
    const { guest, bootId } = await driver.ensure(specFor());
    await guest.startJob("job-1", scriptJob("sleep 100"));
    const url = `http://${own}:${port}/`;
    expect(await curl(guest, url)).toMatch(/not among the hosts/);
    const again = await driver.ensure(specFor(`${own}:${port}`));
    expect(again.bootId).toBe(bootId);
    expect(await curl(guest, url)).toBe(`reached ${own}:${port}`);
    await driver.ensure(specFor());
    expect(await curl(guest, url)).toMatch(/not among the hosts/);
    expect(readDecisions(decisionsOf({ dataDir, projectId }))).toMatchObject([
      { decision: "denied", host: own, port },
      { decision: "allowed", host: own, port },
      { decision: "denied", host: own, port },
    ]);
  });

  it("is started by the next use when the proxy was killed", async () => {
    const { guest, bootId } = await driver.ensure(specFor());
    const [pid] = processesWith(join(dataDir, "egress"));
    process.kill(pid!, "SIGKILL");
    // At once: the dying process still has its sockets and counts as running.
    expect((await driver.ensure(specFor())).bootId).toBe(bootId);
    expect(await curl(guest, "http://example.org/")).toMatch(/not among the hosts/);
  });

  it("ends by itself if the sandbox was killed and nobody stops the proxy", async () => {
    const { dataDir: place, ...request } = { dataDir, installationId: "inst_test", projectId };
    const policy = specFor().network;
    await startEgress({ ...request, dataDir: place, policy, lostMs: 500, firstMs: 60_000 });
    const { guest } = await driver.ensure(specFor());
    const proxies = () => processesWith(join(dataDir, "egress"));
    const [pid] = proxies();
    expect(await curl(guest, "http://example.org/")).toMatch(/not among the hosts/);
    for (const one of findProcesses(markOf(options, projectId))) killProcess(one);
    await until("the proxy has ended", () => !proxies().includes(pid!));
  });

  it("reaches only models with `none`, reaches models without a proxy with `open`, and has nothing running beside it", async () => {
    const { guest } = await driver.ensure({ ...specFor(), network: { mode: "none", hosts: [] } });
    const { stdout } = await shell(guest, "env | grep MODEL; ls /run/wavesmith-egress; curl -sS http://any.example/");
    expect(stdout).toMatch(/^WAVESMITH_MODEL_URL=/m);
    // No proxy of the host answers here: the guest itself says that there is none.
    expect(stdout).not.toMatch(/proxy/i);
    expect(stdout).toMatch(/^this sandbox has no network/m);
    expect(processesWith(join(dataDir, "egress"))).toEqual([]);
    const open = await driver.ensure({ ...specFor(), network: { mode: "open", hosts: [] } });
    const environment = (await shell(open.guest, "env")).stdout;
    expect(environment).toMatch(/^WAVESMITH_MODEL_URL=/m);
    expect(environment).not.toMatch(/proxy/i);
    expect(processesWith(join(dataDir, "egress"))).toEqual([]);
  });

  const registry = npmRegistry();
  if (registry === null) console.warn("SKIPPED: this machine reaches no npm registry");
  it.runIf(registry !== null)(
    "lets npm install a package with no setting of the user's, and say why it cannot",
    async () => {
      const { host } = new URL(registry!);
      const { guest } = await driver.ensure(specFor(host));
      const install = (name: string, from: string) =>
        shell(
          guest,
          `mkdir -p ${name} && cd ${name} && npm install --no-audit --no-fund --registry ${from} is-number 2>&1`,
        );
      const fine = await install("fine", registry!);
      expect([fine.exitCode, fine.exitCode === 0 ? "" : fine.stdout]).toEqual([0, ""]);
      expect(await guest.stat("work/fine/node_modules/is-number/package.json")).not.toBeNull();
      const denied = await install("denied", "https://denied.example/");
      expect(denied.stdout).toMatch(/403 .*denied\.example is not among the hosts this plan may reach/);
    },
  );

  it("lets git and pip find the proxy by themselves", async () => {
    const { guest } = await driver.ensure(specFor());
    expect((await shell(guest, "git ls-remote https://denied.example/x.git")).stderr).toMatch(/403/);
    if (spawnSync("python3", ["-m", "pip", "--version"]).status !== 0) return;
    const pip = "python3 -m pip download --disable-pip-version-check --retries 1 --index-url https://denied.example/ x";
    expect((await shell(guest, pip)).stderr).toMatch(/denied\.example is not among the hosts/);
  });

  it("is open and reported as open without isolation", async () => {
    const unsafe = createLocalDriver({ unsafe: true, dataDir, installationId: "inst_test", readOnly: [], env });
    const { guest } = await unsafe.ensure(specFor());
    expect((await shell(guest, "env")).stdout).not.toMatch(/proxy/i);
    expect(await unsafe.capabilities()).toMatchObject({ isolation: "none", network: ["open"] });
    expect(processesWith(join(dataDir, "egress"))).toEqual([]);
    await unsafe.remove(projectId, { volume: true });
  });
});

describe.runIf(requires("bubblewrap") && process.geteuid?.() === 0)("the network of an ordinary user's sandbox", () => {
  it("has its proxy even in a home that only its owner may enter", async () => {
    const home = mkdtempSync(join(tmpdir(), "wavesmith-user-"));
    chmodSync(home, 0o700);
    chownSync(home, 1234, 1234);
    const settings = { PATH: "/usr/local/bin:/usr/bin:/bin", HOME: home };
    const dataDir = join(home, "x", ".wavesmith");
    const chosen = {
      name: "local",
      settings: { dataDir, installationId: "inst_u", readOnly: [], environment: settings },
    };
    const request = { driver: chosen, projectId: "proj_a", network: "allowlist", remove: true } as const;
    const prefix = ["setpriv", "--reuid", "1234", "--regid", "1234", "--clear-groups"];
    try {
      const exec = ["curl", "-sS", "http://example.org/"];
      const answer = await anotherProcess({ ...request, exec }, prefix, settings).answer;
      expect(answer.exec?.stdout).toMatch(/^example\.org is not among the hosts/);
      await until("nothing is left", () => processesWith(home).length === 0);
    } finally {
      rmSync(home, { recursive: true, force: true });
    }
  });
});
