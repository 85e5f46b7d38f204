import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { createOutput } from "../../src/cli/output/output.ts";
import { createProgram } from "../../src/cli/program.ts";
import { sandboxStates } from "../../src/domain/sandbox/sandbox.ts";
import { attemptStatusSchema, buildStatusSchema, taskStatusSchema, waveStatusSchema } from "../../src/domain/status.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const read = (path: string) => readFileSync(join(root, path), "utf8");
const files = committedFiles();
const pages = files.filter((path) => path.endsWith(".md") && !/\/seed\/|^src\/agents\/prompts\//.test(path));

/**
 * The files that are or may be committed; in an unpacked archive, which has no .git, the files that
 * no tool left there.
 */
function committedFiles(): string[] {
  if (existsSync(join(root, ".git"))) {
    const args = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    const listed = execFileSync("git", ["-c", "safe.directory=*", ...args], { cwd: root, encoding: "utf8" });
    return listed.split("\0").filter((path) => path !== "" && existsSync(join(root, path)));
  }
  const left = /^(?:node_modules|dist|coverage|\.wavesmith)$/;
  const walk = (folder: string): string[] =>
    readdirSync(folder, { withFileTypes: true })
      .filter((entry) => !left.test(entry.name))
      .flatMap((entry) => (entry.isDirectory() ? walk(join(folder, entry.name)) : [join(folder, entry.name)]));
  return walk(root).map((path) => relative(root, path));
}

describe("the package", () => {
  const manifest = JSON.parse(read("package.json")) as { files: string[]; bin: Record<string, string> };

  it("has every file it promises, except for dist, which is built", () => {
    const promised = [...manifest.files, ...Object.values(manifest.bin)].filter((path) => path !== "dist");
    expect(promised.filter((path) => !existsSync(join(root, path)))).toEqual([]);
  });

  it("has a lock file in which every package has a version and a checksum, and no URL", () => {
    const { packages } = JSON.parse(read("package-lock.json")) as {
      packages: Record<
        string,
        { version?: string; integrity?: string; resolved?: string; optionalDependencies?: Record<string, string> }
      >;
    };
    const locked = Object.entries(packages).filter(([path]) => path !== "");
    expect(locked.filter(([, { version, integrity }]) => version === undefined || integrity === undefined)).toEqual([]);
    expect(locked.filter(([, { resolved }]) => resolved !== undefined)).toEqual([]);
    // `npm ci` refuses a lock file that lacks a package for another platform.
    const wanted = locked.flatMap(([, one]) => Object.keys(one.optionalDependencies ?? {}));
    const known = new Set(
      locked.map(([path]) => path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length)),
    );
    expect(wanted.filter((name) => !known.has(name))).toEqual([]);
  });
});

describe("the README", () => {
  it("names exactly the existing commands", () => {
    const table = read("README.md").split("## Commands")[1]!.split("\n\n")[2]!;
    const named = [...table.matchAll(/^\| `(\w+)/gm)].map((match) => match[1]);
    const silent = { write: () => true, on: () => undefined };
    const out = createOutput({ stdout: silent, stderr: silent, environment: {} });
    const program = createProgram({ out, environment: {}, version: "0", done: () => undefined });
    expect(named).toEqual(program.commands.map((command) => command.name()));
    const sandbox = program.commands.find((command) => command.name() === "sandbox")!;
    const row = table.split("\n").find((line) => line.startsWith("| `sandbox"))!;
    expect(sandbox.commands.map((command) => command.name()).filter((name) => !row.includes(name))).toEqual([]);
  });
});

describe("ARCHITECTURE.md", () => {
  it("names every function of the flow, and every folder of the sources", () => {
    const page = read("ARCHITECTURE.md");
    const functions = files
      .filter((path) => /^functions\/[\w-]+\.ts$/.test(path))
      .flatMap((path) => [...read(path).matchAll(/\bid: ["`]([\w-]+)/g)].map((match) => match[1]!));
    expect(functions.length).toBeGreaterThan(10);
    expect(functions.filter((id) => !page.includes(`\`${id}`))).toEqual([]);
    const folders = new Set(files.flatMap((path) => /^src\/[\w-]+\//.exec(path) ?? []));
    expect([...folders].filter((folder) => !page.includes(`\`${folder}\``))).toEqual([]);
  });
});

describe("the tables of states in ARCHITECTURE.md", () => {
  const page = read("ARCHITECTURE.md");
  const rowsUnder = (heading: string) =>
    [
      ...page
        .split(`### ${heading}\n`)[1]!
        .split(/^#/m)[0]!
        .matchAll(/^\| (?:\w+: )?([a-z]+) \|/gm),
    ]
      .map((match) => match[1]!)
      .filter((name) => name !== "status");

  it("have one row for each status, in the order of the code", () => {
    expect(rowsUnder("Build")).toEqual(buildStatusSchema.options);
    expect(rowsUnder("Wave")).toEqual(waveStatusSchema.options);
    expect(rowsUnder("Task")).toEqual(taskStatusSchema.options);
    expect(rowsUnder("Attempt")).toEqual(attemptStatusSchema.options);
    expect(rowsUnder("Gate run")).toEqual(["requested", "running", "finished"]);
    expect(rowsUnder("Sandbox and job")).toEqual([...sandboxStates, "intended", "running", "ended"]);
  });

  it("name only existing files as those that set a status", () => {
    const states = page.split("## States\n")[1]!.split("## Map")[0]!;
    const setters = states.split("\n").flatMap((line) => line.split(" | ")[2]?.match(/`[\w-]+`/g) ?? []);
    expect(setters.length).toBeGreaterThan(50);
    const found = new Set(
      files.map((path) => /^src\/(?:coordinator|sandbox-lifecycle)\/.*?([\w-]+)\.ts$/.exec(path)?.[1]),
    );
    expect(setters.filter((name) => !found.has(name.slice(1, -1)))).toEqual([]);
  });
});

describe("every page", () => {
  const links = pages.flatMap((page) =>
    [...proseOf(page).matchAll(/\]\(([^)\s]+)\)/g)].map((match) => ({ page, target: match[1]! })),
  );

  it("is linked from the index", () => {
    expect(pages).toContain("README.md");
    expect(links.length).toBeGreaterThan(20);
  });

  it("has no dead link", () => {
    const dead = links.filter(({ page, target }) => {
      if (/^[a-z]+:/.test(target)) return false;
      const [path, anchor] = target.split("#");
      const file = path === "" ? page : join(dirname(page), path!);
      if (!existsSync(join(root, file))) return true;
      return anchor !== undefined && !anchorsOf(file).has(anchor);
    });
    expect(dead).toEqual([]);
  });
});

/** The text without fenced code, in which brackets mean something else. */
function proseOf(page: string): string {
  return read(page).replace(/^```[\s\S]*?^```/gm, "");
}

function anchorsOf(page: string): Set<string> {
  const headings = [...proseOf(page).matchAll(/^#+ +(.*)$/gm)].map((match) => match[1]!);
  return new Set(
    headings.map((heading) =>
      heading
        .toLowerCase()
        .replace(/[^\w\s-]/g, "")
        .replace(/ /g, "-"),
    ),
  );
}

describe("lines for people", () => {
  const widest = 100;
  /** Columns that are aligned with spaces, and rulers. */
  const isSetOut = (line: string) => /\S {3,}\S| {4}\S|-{20}/.test(line.slice(2));

  it("end at 100 columns in documents, outside of tables and code", () => {
    const wide = pages.flatMap((page) =>
      proseOf(page)
        .split("\n")
        .filter(
          (line) =>
            line.length > widest &&
            !/^\s*\||^#|^ {4}/.test(line) &&
            !isSetOut(line) &&
            /\s/.test(line.slice(4, widest)),
        )
        .map((line) => `${page}: ${line}`),
    );
    expect(wide).toEqual([]);
  });

  it("end at 100 columns in comments", () => {
    const sources = files.filter((path) => /^(?:src|functions|scripts|bin|bench)\/.*\.(?:ts|mjs|js)$/.test(path));
    const wide = sources.flatMap((path) =>
      read(path)
        .split("\n")
        .filter(
          (line) =>
            line.length > widest &&
            /^\s*(?:\/\/|\/?\*\*?) /.test(line) &&
            !isSetOut(line) &&
            !line.includes("biome-ignore"),
        )
        .map((line) => `${path}: ${line}`),
    );
    expect(wide).toEqual([]);
  });
});

describe("what is committed", () => {
  // Assembled from parts, so that this file does not contain what it looks for.
  const strange = new RegExp(
    [
      ["registry", "npmjs", "org"].join("\\."),
      ["registry", "yarnpkg", "com"].join("\\."),
      ["work", "shared"].join("\\/"),
      ["work", "main"].join("\\/"),
      `\\b${["fa", "rm"].join("")}\\b`,
    ].join("|"),
  );

  it("names no package registry and no detail of the machine it was written on", () => {
    const largest = 2 * 1024 * 1024;
    const found = files.filter((path) => {
      const size = statSync(join(root, path)).size;
      return size <= largest && strange.test(read(path));
    });
    // The hosts that an allowlist contains by default.
    expect(found).toEqual(["src/domain/sandbox/network.ts"]);
  });
});
