import { mkdir, writeFile } from "node:fs/promises";
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { type RunningServer, startServer } from "../../src/server/server.ts";
import { ensureKeyFile } from "../../src/server/server-key.ts";
import { type BuildFixture, createBuildFixture } from "../support/build-fixture.ts";
import { requires } from "../support/require.ts";

// Attacks of an agent in a sandbox on the `serve` of its machine, tried from a task.

/**
 * Runs inside: tries every address and route it knows, and every place from which it might read the
 * key.
 */
const attack = `
const { readFileSync, writeFileSync, readdirSync } = require("node:fs");
const { request } = require("node:http");
const { addresses, port, paths } = JSON.parse(process.env.TARGET);
const gateway = () => {
  const route = readFileSync("/proc/net/route", "utf8").split("\\n").map((line) => line.split("\\t"))
    .find((fields) => fields[1] === "00000000");
  return route === undefined ? [] : [route[2].match(/../g).reverse().map((byte) => parseInt(byte, 16)).join(".")];
};
const ask = (host, method, path, body, headers = {}) => new Promise((resolve) => {
  const call = request({ host, port, method, path, headers, timeout: 3000 }, (response) => {
    let text = "";
    response.on("data", (chunk) => { text += chunk; });
    response.on("end", () => resolve({ host, method, path, status: response.statusCode, text }));
  });
  call.on("timeout", () => call.destroy(new Error("timeout")));
  call.on("error", () => resolve({ host, method, path, status: 0, text: "" }));
  call.end(body);
});
const read = (path) => { try { return readFileSync(path, "latin1"); } catch { return ""; } };
const environments = () => readdirSync("/proc").filter((pid) => /^\\d+$/.test(pid)).map((pid) => read("/proc/" + pid + "/environ"));
(async () => {
  const approve = JSON.stringify({ name: "project/wave.approved", data: { buildId: "bld_victim", waveNumber: 1 } });
  const build = JSON.stringify({ name: "project/build.requested", data: { plan: { name: "x", secrets: ["HOME"], tasks: [] } } });
  const answers = [];
  for (const host of [...addresses, ...gateway()]) {
    for (const key of ["local", "any", "dev", "", "%00", "..%2fhealthz"]) answers.push(await ask(host, "POST", "/e/" + key, approve));
    answers.push(await ask(host, "POST", "/e/local", build, { host: "localhost" }));
    for (const method of ["GET", "PUT", "POST"])
      answers.push(await ask(host, method, "/api/inngest?fnId=wavesmith-wave-approve&stepId=step", method === "GET" ? undefined : "{}"));
    for (const path of ["/healthz", "/readyz"]) answers.push(await ask(host, "GET", path));
  }
  const seen = [...paths.map(read), ...environments()].join("\\n");
  writeFileSync("attack.json", JSON.stringify({ answers, seen }));
})();
`;

interface Report {
  readonly answers: readonly { method: string; path: string; status: number; text: string }[];
  readonly seen: string;
}

describe("an attack on serve from inside a sandbox", { timeout: 300_000 }, () => {
  const open: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const close of open.splice(0).reverse()) await close();
  });

  async function attacked(sandbox: "local" | "docker", network: string, host = "127.0.0.1") {
    const fixture: BuildFixture = await createBuildFixture({ sandbox, patienceMs: 250_000 });
    open.push(() => fixture.close());
    const { dataDir } = fixture.app.config;
    const { key, path } = await ensureKeyFile(dataDir, "serve-key");
    const server: RunningServer = await startServer({
      app: fixture.app,
      engine: { kind: "embedded", serveOrigin: null },
      key,
      host,
      port: 0,
      inform: () => undefined,
      warn: () => undefined,
    });
    open.push(() => server.stop());
    const own = Object.values(networkInterfaces()).flatMap(
      (list) => list?.filter(({ family }) => family === "IPv4") ?? [],
    );
    const target = {
      addresses: ["127.0.0.1", "localhost", "host.docker.internal", ...own.map(({ address }) => address)],
      port: Number(new URL(server.origin).port),
      paths: [path, join(dataDir, "postgres", "PG_VERSION"), `/proc/${process.pid}/root${path}`, `/proc/1/root${path}`],
    };
    const folder = join(dataDir, "seed");
    await mkdir(folder);
    await writeFile(join(folder, "attack.cjs"), attack);
    const plan = {
      network,
      source: { path: folder },
      gates: { testing: false, critic: false, integration: false },
      tasks: [{ id: "attack", env: { TARGET: JSON.stringify(target) }, run: "node attack.cjs" }],
    };
    const build = await fixture.build(plan);
    expect([build.status, build.reason]).toEqual(["completed", null]);
    const report = JSON.parse(await fixture.git("show", "main:attack.json")) as Report;
    expect(await fixture.app.store.outbox.list({ name: "project/wave.approved" })).toEqual([]);
    expect(await fixture.app.store.builds.list({})).toHaveLength(1);
    expect(report.seen).not.toContain(key);
    expect(report.seen, "the database's files").not.toMatch(/^1\d$/m);
    return { report, key };
  }

  /** The allowed answers: nothing, a refusal, or that the server is alive. */
  function expectNothingGained({ answers }: Report): void {
    for (const { method, path, status, text } of answers) {
      const allowed = ["/healthz", "/readyz"].includes(path) && status === 200;
      expect([0, 401, 403, 404].includes(status) || allowed, `${method} ${path} answered ${status}: ${text}`).toBe(
        true,
      );
      if (allowed) expect(text).not.toMatch(/postgres|wavesmith-build|\//);
    }
  }

  it.runIf(requires("bubblewrap")).each(["none", "allowlist", "open"])(
    "gains nothing under local with network %s",
    async (network) => {
      const { report } = await attacked("local", network);
      expectNothingGained(report);
      if (network !== "open") expect(new Set(report.answers.map(({ status }) => status))).toEqual(new Set([0]));
    },
  );

  it.runIf(requires("docker")).each(["none", "open"])("gains nothing in Docker with network %s", async (network) => {
    const { report } = await attacked("docker", network);
    expect(new Set(report.answers.map(({ status }) => status)), "it listens on loopback alone").toEqual(new Set([0]));
  });

  it.runIf(requires("docker"))(
    "gains nothing in Docker by the bridge of a server that listens everywhere",
    async () => {
      const { report } = await attacked("docker", "open", "0.0.0.0");
      expectNothingGained(report);
      expect(
        report.answers.filter(({ status }) => status === 401).length,
        "it is reached, and asks for the key",
      ).toBeGreaterThan(0);
    },
  );
});
