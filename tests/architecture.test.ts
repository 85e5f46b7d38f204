import { existsSync, readdirSync, readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

// "Arrows point down", as data. Paths are relative to the repository; `node:` modules may be used
// everywhere.

/**
 * The folders or files that a folder may import besides its own files.
 */
const arrows: Readonly<Record<string, readonly string[]>> = {
  "src/domain": [],
  "src/plan": ["src/domain"],
  "src/store": ["src/domain", "src/store/embedded/launcher.ts", "src/store/embedded/session.ts"],
  "src/store/embedded": ["src/domain/errors.ts", "src/domain/disk-full.ts"],
  "src/tracing": ["src/domain", "port.ts"],
  "src/engine": ["src/domain/errors.ts", "src/domain/ids.ts"],
  "src/guest": [],
  "src/agent-host": [],
  "src/builtin-agent": ["src/domain/overflow.ts"],
  "src/sandbox": ["src/domain", "src/guest/protocol.ts", "src/guest/channel/mux.ts", "src/guest/files/remove-tree.ts"],
  "src/workspace": ["src/domain", "port.ts"],
  "src/agents": ["src/domain", "src/agent-host/protocol.ts", "port.ts"],
  "src/models": ["src/domain", "port.ts"],
  "src/gates": ["src/domain", "port.ts"],
  "src/notifications": ["src/domain", "src/sandbox/egress/addresses.ts", "src/sandbox/egress/public-lookup.ts"],
  "src/delivery": ["src/domain", "port.ts"],
  "src/forge": ["src/domain", "port.ts"],
  "src/webhooks": ["src/domain"],
  "src/sandbox-lifecycle": ["src/domain", "src/store/queries", "port.ts"],
  "src/coordinator": [
    "src/domain",
    "src/plan",
    "src/sandbox-lifecycle",
    "src/store/queries",
    ...["src/webhooks/bounded-log.ts", "src/webhooks/read-github.ts"],
    "port.ts",
  ],
  functions: ["src/coordinator", "src/sandbox-lifecycle", "src/domain"],
  "src/api": [
    ...["src/coordinator", "src/sandbox-lifecycle", "src/domain", "src/plan", "port.ts"],
    ...["src/config/settings-file.ts", "src/config/shown-settings.ts"],
  ],
  "src/mcp": ["src/client"],
  "src/server": [
    ...["src/config/engine.ts", "src/coordinator", "src/domain", "src/api", "src/client", "src/mcp", "src/webhooks"],
    ...["src/sandbox/egress/addresses.ts", "src/sandbox/egress/public-lookup.ts"],
  ],
  "src/client": [],
  "src/app": [],
  "src/config": ["src/domain", "src/sandbox/drivers/registry.ts"],
  "src/cli": [
    "src/coordinator",
    "src/sandbox-lifecycle",
    "src/domain",
    "src/store/queries",
    "src/store/serving.ts",
    "src/api",
    "src/client",
    "src/mcp",
  ],
};

/** May import everything: they wire parts together or are started by people. */
const entryPoints = ["src/app.ts", "src/app/", "src/cli/parts.ts", "src/cli/parts/", "bin/wavesmith.js", "scripts/"];

/** The first word of the name of every file with an operation; other files are named by nouns. */
const verbs =
  /^(?:admit|answer|cancel|check|claim|close|decide|deliver|edit|ensure|expire|fail|finish|join|judge|keep|lose|merge|prepare|reach|reconcile|request|restore|resume|retry|rollback|settle|sleep|start|stop|store|sweep|take|wake|watch)-/;

/**
 * Only app.ts and entry points read `config.ts`. It takes the names of drivers from their registry.
 */
const lonely: Readonly<Record<string, readonly string[]>> = {
  "src/config.ts": ["src/domain", "src/config", "src/sandbox/drivers/registry.ts"],
};

/**
 * Where a package may be imported: the beginning of a path. One that is not here may be imported
 * nowhere.
 */
const packages: Readonly<Record<string, readonly string[]>> = {
  "drizzle-orm": ["src/store/", "src/engine/tables.ts"],
  pg: ["src/store/", "src/app/backup/"],
  inngest: ["functions/", "src/engine/", "src/server/inngest.ts", "src/app/runner.ts"],
  dockerode: ["src/sandbox/drivers/docker.ts", "src/sandbox/drivers/docker/"],
  "tar-stream": ["src/sandbox/drivers/docker/", "src/app/backup/"],
  esbuild: ["src/sandbox/guest/guest-program.ts", "src/gates/static/", "scripts/"],
  "@octokit/auth-app": ["src/forge/github/"],
  "@octokit/core": ["src/forge/github/"],
  "@octokit/plugin-retry": ["src/forge/github/"],
  "@octokit/plugin-throttling": ["src/forge/github/"],
  "@octokit/request-error": ["src/forge/github/"],
  commander: ["src/cli/"],
  hono: ["src/server/"],
  ws: ["src/server/server.ts", "src/cli/server/server-socket.ts"],
  "@hono/node-server": ["src/server/"],
  "@hono/zod-openapi": ["src/server/api/"],
  "openapi-fetch": ["src/client/"],
  "eventsource-parser": ["src/client/"],
  croner: ["src/engine/", "src/plan/standing/"],
  yaml: ["src/plan/", "src/gates/static/", "src/cli/", "src/config/", "src/api/"],
  graphlib: ["src/domain/"],
  nanoid: ["src/domain/"],
  nodemailer: ["src/notifications/"],
  "openid-client": ["src/server/access/"],
  "@agentclientprotocol/sdk": ["src/agent-host/", "src/builtin-agent/"],
  "@modelcontextprotocol/sdk": [
    "src/agent-host/submit-result.ts",
    "src/builtin-agent/mcp-tools.ts",
    "src/mcp/",
    "src/server/mcp.ts",
    "src/cli/commands/mcp.ts",
  ],
  ai: ["src/builtin-agent/"],
  "@ai-sdk/anthropic": ["src/builtin-agent/models.ts"],
  "@ai-sdk/google": ["src/builtin-agent/models.ts"],
  "@ai-sdk/openai": ["src/builtin-agent/models.ts"],
  "@ai-sdk/openai-compatible": ["src/builtin-agent/models.ts"],
  zod: [
    "src/agent-host/",
    "src/builtin-agent/",
    "src/models/",
    "src/domain/",
    "src/plan/",
    "src/sandbox/",
    "src/gates/",
    "src/agents/",
    "src/engine/",
    "src/coordinator/",
    "src/server/",
    "src/mcp/",
    "src/webhooks/",
    "src/config/",
    "src/forge/",
    "src/app/backup/",
    // The types of events' data come from their schemas.
    "functions/events.ts",
    "scripts/events-page.ts",
  ],
  tsx: ["bin/"],
  vite: ["scripts/bundle-dashboard.mjs"],
  "@xterm/headless": ["scripts/"],
};

/**
 * The only readers of the environment are programs that are started. The command line's entry
 * passes it on.
 */
const environmentReaders = [
  "src/config.ts",
  "src/cli/main.ts",
  "src/guest/main.ts",
  "src/builtin-agent/main.ts",
  "src/agent-host/main.ts",
  "bin/",
  "scripts/",
];

const root = fileURLToPath(new URL("..", import.meta.url));
const files = ["src", "functions", "bin", "scripts"].flatMap((folder) => sourcesIn(folder));
const imports = files.flatMap(importsOf);

interface Import {
  readonly from: string;
  /** A path in the repository, `node:…`, or a package's name. */
  readonly to: string;
  readonly line: number;
}

interface Manifest {
  readonly dependencies: Readonly<Record<string, string>>;
  readonly devDependencies: Readonly<Record<string, string>>;
}

describe("the source", () => {
  it("is read whole: every import leads to a file, a package or a module of Node", () => {
    expect(files.length).toBeGreaterThan(150);
    expect(imports.length).toBeGreaterThan(500);
    const lost = imports.filter(({ to }) => isOurs(to) && !existsSync(join(root, to)));
    expect(lost.map(say)).toEqual([]);
  });

  it("is read in every way there is to import", () => {
    const code = [
      'import a, { type B } from "static";',
      'import type {\n  C,\n  D,\n} from "type-only";',
      'import "bare";',
      'export { e } from "re-exported";',
      'export * from "everything";',
      'const f = await import("dynamic");',
      'let g: import("in-a-type").G;',
      "await import(computed);",
    ].join("\n");
    expect(importsIn(code).map(({ target, computed }) => target ?? computed)).toEqual([
      "static",
      "type-only",
      "bare",
      "re-exported",
      "everything",
      "dynamic",
      "in-a-type",
      "computed",
    ]);
  });

  it("has a row in the table of arrows for every folder of src", () => {
    const folders = readdirSync(join(root, "src"), { withFileTypes: true }).filter((entry) => entry.isDirectory());
    expect(folders.map(({ name }) => `src/${name}`).filter((name) => arrows[name] === undefined)).toEqual([]);
  });

  it("lets arrows point down only", () => {
    expect(imports.filter(({ from, to }) => isOurs(to) && !mayImport(from, to)).map(say)).toEqual([]);
  });

  it("keeps programs and the engine ignorant of builds, and free of all but a few packages", () => {
    const allowed: Readonly<Record<string, readonly string[]>> = {
      "src/guest/": [],
      "src/agent-host/": ["zod", "@agentclientprotocol/sdk", "@modelcontextprotocol/sdk"],
      "src/engine/": ["zod", "inngest", "croner", "drizzle-orm"],
      "src/store/embedded/": ["pg"],
      "src/client/": ["openapi-fetch", "eventsource-parser"],
    };
    const strays = imports.filter(({ from, to }) => {
      const program = Object.keys(allowed).find((folder) => from.startsWith(folder));
      if (program === undefined || to.startsWith("node:") || to.startsWith(program)) return false;
      return !/^src\/domain\/(?:errors|ids|disk-full)\.ts$/.test(to) && !allowed[program]!.includes(to);
    });
    expect(strays.map(say)).toEqual([]);
  });

  it("keeps the API's client free of Node, because browsers run it", () => {
    const strays = imports.filter(({ from, to }) => from.startsWith("src/client/") && to.startsWith("node:"));
    expect(strays.map(say)).toEqual([]);
  });

  it("keeps every vendor's package in its place", () => {
    const strays = imports.filter(({ from, to }) => {
      if (isOurs(to) || to.startsWith("node:")) return false;
      return !(packages[to] ?? []).some((place) => from.startsWith(place));
    });
    expect(strays.map(say)).toEqual([]);
  });

  it("lets the dashboard see the API's client only", () => {
    const known = /^(?:react(?:-dom)?$|@tanstack\/|@xyflow\/react$|@pierre\/diffs$|@xterm\/xterm$|vite$|node:\w+$)/;
    const strays = sourcesIn("dashboard")
      .flatMap(importsOf)
      .filter(({ to }) => !/^(?:dashboard|src\/client)\//.test(to) && !known.test(to));
    expect(strays.map(say)).toEqual([]);
  });

  it("names every package it imports in package.json", () => {
    const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as Manifest;
    const named = { ...manifest.devDependencies, ...manifest.dependencies };
    const used = new Set(imports.map(({ to }) => to).filter((to) => !isOurs(to) && !to.startsWith("node:")));
    expect([...used].filter((name) => named[name] === undefined)).toEqual([]);
  });

  it("has no circle of imports, type-only ones included", () => {
    expect(circles()).toEqual([]);
  });

  it("lets an operation import nothing from the file of another but that operation", () => {
    const isOperation = (path: string): boolean =>
      /^src\/(?:coordinator|sandbox-lifecycle)\//.test(path) && verbs.test(basename(path));
    const named = /^import (?:type )?\{([^}]*)\} from "(\.[^"]+)"/gm;
    const helpers = files.filter(isOperation).flatMap((file) =>
      [...codeOf(file).matchAll(named)]
        .map((match) => ({
          names: match[1]!.split(",").map((name) => name.trim()),
          to: resolveTarget(file, match[2]!),
        }))
        .filter(({ to }) => isOperation(to))
        .flatMap(({ names, to }) => names.filter((name) => name !== "" && name !== operationOf(to)))
        .map((name) => `${file} takes ${name} from another operation: move it to its own file`),
    );
    expect(helpers).toEqual([]);
  });

  it("reads the environment only where it is started", () => {
    const readers = files.filter((file) => /\bprocess\s*\.\s*env\b/.test(codeOf(file)));
    const strays = readers.filter((file) => !environmentReaders.some((place) => file.startsWith(place)));
    expect(strays).toEqual([]);
  });

  it("exports no function or value that only its own file uses", () => {
    const readers = [...files, ...["tests", "bench"].flatMap((folder) => sourcesIn(folder))];
    const usersOf = new Map<string, Set<string>>();
    for (const file of readers)
      for (const word of codeOf(file).match(/\w+/g) ?? [])
        usersOf.set(word, (usersOf.get(word) ?? new Set()).add(file));
    const declared = /^export (?:async )?(?:function|const|class) (\w+)/gm;
    // drizzle-kit reads every table of the engine.
    const unused = files
      .filter((file) => file !== "src/engine/tables.ts")
      .flatMap((file) =>
        [...codeOf(file).matchAll(declared)]
          .filter(([, name]) => usersOf.get(name!)?.size === 1)
          .map(([, name]) => `${file}: ${name}`),
      );
    expect(unused).toEqual([]);
  });

  it("exports no two functions or values under one name", () => {
    const declared = /^export (?:async )?(?:function\*?|const|class) (\w+)/gm;
    const homes = new Map<string, string[]>();
    for (const file of files)
      for (const [, name] of codeOf(file).matchAll(declared)) homes.set(name!, [...(homes.get(name!) ?? []), file]);
    // The guest imports nothing from the domain, and means the same by it.
    homes.delete("messageOf");
    expect([...homes].filter(([, places]) => places.length > 1)).toEqual([]);
  });

  it("exports no two types under one name", () => {
    const declared = /^export (?:declare )?(?:interface|type|class) (\w+)/gm;
    const homes = new Map<string, string[]>();
    for (const file of files)
      for (const [, name] of codeOf(file).matchAll(declared)) homes.set(name!, [...(homes.get(name!) ?? []), file]);
    expect([...homes].filter(([, places]) => places.length > 1)).toEqual([]);
  });

  it("has no default exports", () => {
    expect(files.filter((file) => /^\s*export\s+default\b|\bas\s+default\b/m.test(codeOf(file)))).toEqual([]);
  });

  it("gives no two invariants one label, and cites none that does not exist", () => {
    const inModules = files.flatMap((file) => labelsIn(file, /^\s*\/\/ ([A-Z]+\d+)\. \S/gm));
    const ofTheHouse = labelsIn("ARCHITECTURE.md", /^- \*\*([A-Z]+\d+)\.\*\*/gm).map(({ label }) => label);
    // A module may repeat a rule that ARCHITECTURE.md states for it.
    const own = inModules.filter(({ label }) => !ofTheHouse.includes(label));
    expect(own.length).toBeGreaterThan(100);
    const isKnown = (label: string): boolean => ofTheHouse.includes(label) || own.some((one) => one.label === label);
    expect(own.filter((one) => own.some((other) => other.label === one.label && other !== one))).toEqual([]);
    const citation = /(?<=\(|\([A-Z]{1,2}\d+, )([A-Z]{1,2}\d+)(?=\)|, [A-Z]{1,2}\d+\))/g;
    const cited = files.flatMap((file) => labelsIn(file, citation));
    expect(cited.length).toBeGreaterThan(50);
    expect(cited.filter(({ label }) => !isKnown(label))).toEqual([]);
  });

  it("numbers every decision once, and lists all of them in ARCHITECTURE.md", () => {
    const pages = readdirSync(join(root, "docs/adr"));
    expect(new Set(pages.map((page) => page.slice(0, 4))).size).toBe(pages.length);
    const architecture = readFileSync(join(root, "ARCHITECTURE.md"), "utf8").replace(/\n +/g, " ");
    expect(pages.filter((page) => !architecture.includes(`- [${titleOf(page)}](docs/adr/${page})`))).toEqual([]);
  });

  it("cleans up after tests in hooks of their own file, or of setup.ts", () => {
    const names = readdirSync(join(root, "tests"), { recursive: true, encoding: "utf8" });
    const shared = names.filter((name) => /(?<!\.test)\.ts$/.test(name) && name !== "support/setup.ts");
    const hook = /^(?:before|after)(?:All|Each)\(/m;
    expect(shared.filter((name) => hook.test(readFileSync(join(root, "tests", name), "utf8")))).toEqual([]);
  });

  it("names no file after nothing in particular", () => {
    expect(files.filter((file) => /^(?:utils?|helpers?|manager|common|misc)\b/.test(basename(file)))).toEqual([]);
  });
});

/** The title of a decision: its first line, which repeats its number. */
function titleOf(page: string): string {
  const [, number, title = ""] = /^# (\d+)\. (.+)$/m.exec(readFileSync(join(root, "docs/adr", page), "utf8")) ?? [];
  return Number(number) === Number(page.slice(0, 4)) ? title : `number ${number} in the page`;
}

function mayImport(from: string, to: string): boolean {
  if (entryPoints.some((place) => from.startsWith(place))) return true;
  const home = homeOf(from);
  if (homeOf(to) === home) return true;
  const allowed = arrows[home] ?? lonely[home] ?? [];
  return allowed.some((target) => {
    if (target === "port.ts") return /^src\/[^/]+\/port\.ts$/.test(to);
    return target.endsWith(".ts") ? to === target : to.startsWith(`${target}/`);
  });
}

/**
 * Returns the folder that a file belongs to: the innermost with a row of its own. A file that lies
 * in src itself is its own.
 */
function homeOf(path: string): string {
  const [first, second] = path.split("/");
  const inner = Object.keys(arrows).filter((folder) => path.startsWith(`${folder}/`));
  if (inner.length > 0) return inner.reduce((one, other) => (one.length > other.length ? one : other));
  return first === "src" ? `src/${second}` : first!;
}

/** The operation of a file: `settleGate` of `settle-gate.ts`. */
function operationOf(path: string): string {
  return basename(path, ".ts").replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase());
}

function isOurs(to: string): boolean {
  return /^(?:src|functions|bin|scripts|tests|dist|dashboard)\//.test(to);
}

function say({ from, to, line }: Import): string {
  return `${from}:${line} imports ${to}`;
}

function sourcesIn(folder: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => /\.[cm]?[jt]sx?$/.test(name))
    .map((name) => `${folder}/${name}`)
    .sort();
}

function labelsIn(file: string, pattern: RegExp): { label: string; file: string }[] {
  const text = readFileSync(join(root, file), "utf8");
  return [...text.matchAll(pattern)].map((match) => ({ label: match[1]!, file }));
}

/**
 * A file's text with its comments blanked, so that what they say of imports is not taken for one.
 */
function codeOf(file: string): string {
  const text = readFileSync(join(root, file), "utf8");
  return text.replace(/^\s*\/\/.*$|^\s*\/\*[\s\S]*?\*\//gm, (comment) => comment.replace(/[^\n]/g, " "));
}

/**
 * Every import of a file. A computed target, which nobody can check, is let pass to entry points
 * alone.
 */
function importsOf(from: string): Import[] {
  return importsIn(codeOf(from)).flatMap(({ target, computed, line }) => {
    if (target !== undefined) return [{ from, to: resolveTarget(from, target), line }];
    if (entryPoints.some((place) => from.startsWith(place))) return [];
    return [{ from, to: `something computed (${computed})`, line }];
  });
}

interface Written {
  readonly target: string | undefined;
  readonly computed: string | undefined;
  readonly line: number;
}

/** Static, type-only, re-exported and dynamic imports, and `import("…")` in types. */
function importsIn(code: string): Written[] {
  const pattern =
    /^[ \t]*(?:import|export)\b[^"'`;()]*?\bfrom\s*["']([^"']+)["']|^[ \t]*import\s*["']([^"']+)["']|\b(?:import|require)\s*\(\s*(?:["'`]([^"'`$]+)["'`]|([^"'`)\s][^)]*))/gm;
  return [...code.matchAll(pattern)].map((match) => ({
    target: match[1] ?? match[2] ?? match[3],
    computed: match[4],
    line: code.slice(0, match.index).split("\n").length,
  }));
}

function resolveTarget(from: string, target: string): string {
  if (target.startsWith(".")) return join(dirname(from), target);
  if (target.startsWith("node:")) return target;
  const [first, second] = target.split("/");
  return first!.startsWith("@") ? `${first}/${second}` : first!;
}

/** Every set of files that import each other, each once, as the way round. */
function circles(): string[] {
  const targets = new Map<string, string[]>();
  for (const { from, to } of imports) if (isOurs(to)) targets.set(from, [...(targets.get(from) ?? []), to]);
  const found: string[] = [];
  const done = new Set<string>();
  const way: string[] = [];
  const visit = (file: string): void => {
    if (done.has(file)) return;
    const place = way.indexOf(file);
    if (place >= 0) {
      found.push([...way.slice(place), file].join(" -> "));
      return;
    }
    way.push(file);
    for (const target of targets.get(file) ?? []) visit(target);
    way.pop();
    done.add(file);
  };
  for (const file of files) visit(file);
  return found;
}
