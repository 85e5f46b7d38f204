import { type ChildProcess, execFile, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { installAgent } from "../../src/sandbox/tools/install.ts";
import { containerPlatform, hostPlatform, listInstalled, toolsFolder } from "../../src/sandbox/tools/place.ts";
import { findPinned, pinnedAgents } from "../../src/sandbox/tools/table.ts";
import { npmRegistry } from "../support/npm-registry.ts";
import { requires } from "../support/require.ts";

const wavesmith = fileURLToPath(new URL("../../bin/wavesmith.js", import.meta.url));
/** The agent with the fewest packages. */
const opencode = findPinned("opencode")!;
const canInstall = npmRegistry() !== null && opencode.platforms!.includes("linux-x64") && process.arch === "x64";

let dataDir = "";
beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), "wavesmith-install-"));
});
afterEach(() => rmSync(dataDir, { recursive: true, force: true }));

const install = (environment: Readonly<Record<string, string | undefined>> = process.env, agent = opencode) =>
  installAgent(agent, {
    ...{ dataDir, environment, platform: hostPlatform(), onProgress: () => undefined },
    signal: new AbortController().signal,
  });
const folder = () => toolsFolder(dataDir, hostPlatform());
const versions = () => readdirSync(join(folder(), "agents", "opencode"));

describe("agents are pinned", () => {
  it.each(pinnedAgents)("$name, every package of it by its hash", ({ name, package: id, version }) => {
    const file = new URL(`../../src/sandbox/tools/pins/${name}/package-lock.json`, import.meta.url);
    const { packages } = JSON.parse(readFileSync(file, "utf8")) as {
      packages: Record<string, { version: string; integrity?: string }>;
    };
    expect(packages[`node_modules/${id}`]?.version).toBe(version);
    const loose = Object.entries(packages).filter(
      ([path, { integrity }]) => path !== "" && !/^sha512-/.test(integrity ?? ""),
    );
    expect(loose.map(([path]) => path)).toEqual([]);
  });
});

describe("an install that is impossible", () => {
  it("says that npm is missing, and where to get it", async () => {
    await expect(install({ PATH: "/nowhere" })).rejects.toMatchObject({
      code: "environment",
      message: expect.stringContaining("npm is not on PATH"),
      remedy: expect.stringContaining("install npm"),
    });
    expect([listInstalled(folder()), versions()]).toEqual([[], []]);
  });

  it("says that no registry answers, and leaves nothing", async () => {
    const offline = {
      npm_config_registry: "http://127.0.0.1:9/",
      npm_config_cache: join(dataDir, "npm"),
      npm_config_fetch_retries: "0",
    };
    await expect(install({ ...process.env, ...offline })).rejects.toMatchObject({
      code: "environment",
      message: expect.stringContaining("cannot reach its registry"),
      retryable: true,
    });
    expect([listInstalled(folder()), versions()]).toEqual([[], []]);
  });

  it("installs only the pinned packages", async () => {
    const server = createServer(({ url, headers }, response) => {
      if (url?.endsWith(".tgz") === true) return void response.end("something else");
      const [name, version] = ["opencode-linux-x64-baseline", opencode.version];
      const dist = { tarball: `http://${headers.host}/${name}.tgz` };
      response.end(JSON.stringify({ name, versions: { [version]: { name, version, dist } } }));
    });
    await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
    const registry = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    const other = {
      npm_config_registry: registry,
      npm_config_cache: join(dataDir, "npm"),
      npm_config_fetch_retries: "0",
    };
    try {
      await expect(install({ ...process.env, ...other })).rejects.toMatchObject({
        message: expect.stringContaining("sent something other than the pinned package"),
      });
      expect([listInstalled(folder()), versions()]).toEqual([[], []]);
    } finally {
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
    }
  });

  it("names the platforms that have a pin", async () => {
    const platform = containerPlatform("riscv64");
    const request = { dataDir, platform, environment: process.env, onProgress: () => undefined };
    await expect(installAgent(opencode, { ...request, signal: AbortSignal.abort() })).rejects.toMatchObject({
      code: "unsupported",
      message: expect.stringContaining("linux-x64"),
    });
  });
});

describe.runIf(canInstall)("agents install", { timeout: 300_000 }, () => {
  const command = (): ChildProcess =>
    spawn(process.execPath, [wavesmith, "agents", "install", "opencode", "--data", dataDir, "--sandbox", "local"], {
      stdio: "ignore",
      detached: true,
    });

  it("keeps the old installation if it is killed in the middle, then installs, and then changes nothing", async () => {
    const child = command();
    const half = () =>
      existsSync(join(folder(), "agents", "opencode")) && versions().some((name) => name.endsWith(".draft"));
    while (!half()) await new Promise((resolve) => setTimeout(resolve, 5));
    process.kill(-child.pid!, "SIGKILL");
    await new Promise((resolve) => child.once("close", resolve));
    expect(listInstalled(folder())).toEqual([]);

    const made = await install();
    expect(made).toMatchObject({ name: "opencode", version: opencode.version, unchanged: false });
    expect(versions()).toHaveLength(1);
    const { stdout } = await promisify(execFile)(join(folder(), "bin", "opencode"), ["--version"], {
      env: { PATH: process.env.PATH, HOME: dataDir },
    });
    expect(stdout.trim()).toBe(opencode.version);
    expect(await install({ PATH: "/nowhere" })).toMatchObject({ unchanged: true, installedAt: made.installedAt });
  });
});

describe("agents", { timeout: 240_000 }, () => {
  it("tries the installed agents, and shows only the names of keys", async () => {
    const driver = requires("bubblewrap") ? "local" : "local-unsafe";
    const args = [wavesmith, "agents", "--json", "--data", dataDir, "--sandbox", driver];
    const env = { PATH: process.env.PATH, HOME: dataDir, TMPDIR: tmpdir(), ANTHROPIC_API_KEY: "a-secret-value" };
    const { stdout, stderr } = await promisify(execFile)(process.execPath, args, { env });
    expect(stdout + stderr).not.toContain("a-secret-value");
    const said = JSON.parse(stdout) as { agents: { name: string }[]; roles: { role: string }[] };
    expect(said).toMatchObject({ ok: true, sandbox: driver, untried: null });
    expect(said.agents.map(({ name }) => name)).toEqual(["builtin", "claude", "codex", "gemini", "opencode"]);
    expect(said.agents[0]).toMatchObject({
      greeting: { answers: true },
      signedInWith: ["ANTHROPIC_API_KEY"],
      lacks: [],
    });
    expect(said.roles.map(({ role }) => role)).toEqual(expect.arrayContaining(["planner", "critic", "fixer"]));
    // It left nothing: no sandbox, and no database.
    expect(readdirSync(dataDir)).toEqual([]);
  });
});
