import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createGates } from "../../src/gates/gates.ts";
import type { CommitReader } from "../../src/gates/port.ts";
import { isTestFile } from "../../src/gates/test-files.ts";
import type { StageState } from "../../src/sandbox/port.ts";
import type { ChangedFile } from "../../src/workspace/port.ts";

const gates = createGates();

function reader(files: Record<string, string>): CommitReader {
  return {
    list: async () => Object.keys(files).map((path) => ({ path, mode: "100644", sizeBytes: files[path]!.length })),
    read: async (path) => (Object.hasOwn(files, path) ? Buffer.from(files[path]!) : null),
  };
}
const pkg = (test: string, more = {}) => JSON.stringify({ scripts: { test }, ...more });
const placeholder = pkg('echo "Error: no test specified" && exit 1');

describe("detecting tests", () => {
  it.each([
    ["npm", { "package.json": pkg("vitest run"), "a.test.ts": "" }, "npm test", "npm"],
    ["pnpm by its lock", { "package.json": pkg("vitest"), "pnpm-lock.yaml": "", "a.test.ts": "" }, "pnpm test", "pnpm"],
    [
      "yarn by packageManager",
      { "package.json": pkg("jest", { packageManager: "yarn@4.1.0" }), "pnpm-lock.yaml": "", "test/a.js": "" },
      "yarn test",
      "yarn",
    ],
    [
      "a script that names its file",
      { "package.json": pkg("node ./check.mjs --all"), "check.mjs": "" },
      "npm test",
      "npm",
    ],
    [
      "a script that names its folder",
      { "package.json": pkg("tap 'spec/unit'"), "spec/unit/a.txt": "" },
      "npm test",
      "npm",
    ],
    [
      "a script behind a script",
      { "package.json": JSON.stringify({ scripts: { test: "npm run unit", unit: "node unit.js" } }), "unit.js": "" },
      "npm test",
      "npm",
    ],
    ["pytest by its files", { "tests/test_a.py": "" }, "python3 -m pytest -q", "pytest"],
    ["pytest by the other name", { "pkg/a_test.py": "" }, "python3 -m pytest -q", "pytest"],
    [
      "pytest by configured names",
      { "pytest.ini": "[pytest]\npython_files = check_*.py\n", "check_a.py": "" },
      "python3 -m pytest -q",
      "pytest",
    ],
    ["go", { "go.mod": "", "a/a_test.go": "" }, "go test -v ./...", "go"],
    [
      "cargo with tests beside the code",
      { "Cargo.toml": "", "src/lib.rs": "#[cfg(test)]\nmod t {}" },
      "cargo test",
      "cargo",
    ],
    ["cargo with a tests folder", { "Cargo.toml": "", "tests/a.rs": "" }, "cargo test", "cargo"],
    ["make", { Makefile: ".PHONY: test\nbuild:\n\tx\ntest: build\n\ty\n" }, "make test", "make"],
    [
      "what a placeholder in package.json does not hide",
      { "package.json": placeholder, "go.mod": "", "a_test.go": "" },
      "go test -v ./...",
      "go",
    ],
    [
      "package.json before make",
      { "package.json": pkg("vitest"), "a.spec.ts": "", Makefile: "test:\n" },
      "npm test",
      "npm",
    ],
  ])("finds %s", async (_name, files, command, runner) => {
    expect(await gates.detectTests(reader(files as Record<string, string>))).toEqual({ command, runner });
  });

  it.each([
    ["nothing", {}],
    ["npm's placeholder", { "package.json": placeholder, "a.test.js": "" }],
    ["a script without a test", { "package.json": pkg("vitest run"), "src/a.ts": "" }],
    ["tests without a script", { "package.json": "{}", "a.test.js": "" }],
    ["a package.json that is no object", { "package.json": "[1", "a.test.js": "" }],
    ["a script that calls itself", { "package.json": pkg("npm run test") }],
    ["python without tests", { "pyproject.toml": "[tool.pytest.ini_options]\n", "app.py": "" }],
    ["tests of installed packages", { "node_modules/a/test_x.py": "", ".venv/lib/test_y.py": "" }],
    ["go without tests", { "go.mod": "", "a.go": "" }],
    ["cargo without tests", { "Cargo.toml": "", "src/main.rs": "fn main() {}" }],
    ["a variable called test", { Makefile: "test := 1\nall:\n" }],
  ])("finds nothing to run in %s", async (_name, files) => {
    expect(await gates.detectTests(reader(files as Record<string, string>))).toBeNull();
  });
});

describe("test files", () => {
  it.each([
    "a.test.ts",
    "src/a.spec.jsx",
    "a_test.ts",
    "__tests__/a.js",
    "test/a.mjs",
    "test.js",
    "tests/unit/a.ts",
    "tests/test_a.py",
    "a_test.py",
    "a_test.go",
    "tests/it.rs",
    "spec/a_spec.rb",
    "src/test/java/UserTest.java",
    "UserTests.cs",
    "UserTest.php",
    "a.bats",
    "e2e/login.ts",
  ])("%s is one", (path) => expect(isTestFile(path)).toBe(true));
  it.each([
    "src/a.ts",
    "src/contest.ts",
    "src/latest.js",
    "tests/support/http.ts",
    "tests/fixtures/a.js",
    "node_modules/a/a.test.js",
    "src/testing/index.ts",
    "test/README.md",
    "docs/test.md",
    "vitest.config.ts",
    "attest.py",
    "tests/__init__.py",
    "conftest.py",
  ])("%s is none", (path) => expect(isTestFile(path)).toBe(false));
});

describe("syntax stages", () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "wavesmith-syntax-"));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  const changed = (path: string, over: Partial<ChangedFile> = {}): ChangedFile => ({
    path,
    status: "added",
    from: null,
    addedLines: 1,
    deletedLines: 0,
    binary: false,
    ...over,
  });
  const state = (exitCode: number | null) => ({ exitCode, error: null, signal: null }) as StageState;
  function run(files: Record<string, string>) {
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(dirname(join(folder, path)), { recursive: true });
      writeFileSync(join(folder, path), text);
    }
    return gates.syntaxChecks(Object.keys(files).map((path) => changed(path))).flatMap((check) => {
      const done = spawnSync(check.argv[0]!, check.argv.slice(1), { cwd: folder, encoding: "utf8" });
      return gates.syntaxFindings(check, state(done.status), done.stdout + done.stderr);
    });
  }

  it("find what python and shells cannot parse, whatever the files are called", () => {
    const findings = run({
      "src/good.py": "async def f(): return [x async for x in y]\n",
      "src/bad.py": "def f():\n    return (\n\nx = 1\n",
      "sys.py": "raise SystemExit(0)\n",
      "-c; touch owned; $(touch owned).py": "def (\n",
      "ok.sh": "#!/usr/bin/env bash\na=(1 2)\nif true; then echo; fi\n",
      "bad it.sh": "#!/bin/sh\nif true; then\n  echo\n",
      "worse.sh": "for x in 1 2; do\n  echo\nfi\n",
      "other.sh": "#!/usr/bin/env fish\nif true\nend\n",
      "-n.sh": "#!/bin/sh\necho fine\n",
    });
    expect(findings.map((one) => `${one.rule} ${one.severity} ${one.file}`).sort()).toEqual([
      "syntax-error high -c; touch owned; $(touch owned).py",
      "syntax-error high bad it.sh",
      "syntax-error high src/bad.py",
      "syntax-error high worse.sh",
    ]);
    expect(findings.find((one) => one.file === "src/bad.py")!.line).toBe(2);
    expect(findings.find((one) => one.file === "worse.sh")!.line).toBe(3);
    expect(spawnSync("ls", ["owned"], { cwd: folder }).status).not.toBe(0);
  });

  it("find nothing where the tool is missing, and report only on the files they got", () => {
    const [check] = gates.syntaxChecks([changed("a.py")]);
    const line = JSON.stringify({ file: "./a.py", line: 2, message: "bad" });
    expect(gates.syntaxFindings(check!, state(127), "sh: python3: not found")).toEqual([]);
    expect(gates.syntaxFindings(check!, state(null), "")).toEqual([]);
    expect(
      gates.syntaxFindings(check!, state(1), `noise\n${line}\n{"file":"./b.py","line":1,"message":"x"}\n{}\n`),
    ).toHaveLength(1);
  });

  it("leave out deleted and binary files and keep argument lists short", () => {
    expect(
      gates.syntaxChecks([changed("a.py", { status: "deleted" }), changed("b.py", { binary: true }), changed("c.txt")]),
    ).toEqual([]);
    const many = gates.syntaxChecks(Array.from({ length: 1_100 }, (_, index) => changed(`a${index}.py`)));
    expect(many.map((check) => [check.name, check.files.length])).toEqual([
      ["syntax-python", 500],
      ["syntax-python-2", 500],
      ["syntax-python-3", 100],
    ]);
  });
});
