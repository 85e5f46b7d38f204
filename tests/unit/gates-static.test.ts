import { describe, expect, it } from "vitest";
import type { Finding } from "../../src/domain/gate/finding.ts";
import { createGates } from "../../src/gates/gates.ts";
import type { CommitReader, StaticCheckRequest } from "../../src/gates/port.ts";
import { addedLines } from "../../src/gates/static/changes.ts";
import type { ChangedFile } from "../../src/workspace/port.ts";

const gates = createGates();
type Files = Record<string, string | Buffer>;

function reader(files: Files, modes: Record<string, string> = {}): CommitReader {
  const bytes = (path: string) => Buffer.from(files[path] as string);
  return {
    list: async () =>
      Object.keys(files).map((path) => ({ path, mode: modes[path] ?? "100644", sizeBytes: bytes(path).length })),
    read: async (path) => (Object.hasOwn(files, path) && bytes(path).length <= 1024 * 1024 ? bytes(path) : null),
  };
}

function changedBetween(before: Files, after: Files, renames: Record<string, string> = {}): ChangedFile[] {
  const gone = new Set(Object.values(renames));
  const paths = [...new Set([...Object.keys(before), ...Object.keys(after)])].filter((path) => !gone.has(path));
  return paths.flatMap((path): ChangedFile[] => {
    const from = renames[path] ?? null;
    if (from === null && String(before[path]) === String(after[path])) return [];
    const status = from !== null ? "renamed" : !(path in before) ? "added" : !(path in after) ? "deleted" : "modified";
    const binary = Buffer.from((after[path] ?? before[path]) as string).includes(0);
    return [{ path, status, from, addedLines: null, deletedLines: null, binary }];
  });
}

async function check(
  before: Files,
  after: Files,
  over: Partial<StaticCheckRequest> & { renames?: Record<string, string>; mayChangeTests?: boolean } = {},
): Promise<Finding[]> {
  const changed = changedBetween(before, after, over.renames);
  const change = {
    taskKey: "api",
    writes: null,
    mayChangeTests: over.mayChangeTests ?? false,
    files: changed.map((file) => file.path),
  };
  return await gates.staticChecks({
    changed,
    secrets: {},
    before: reader(before),
    after: reader(after),
    changes: [change],
    agentFiles: [],
    ...over,
  });
}

const short = (findings: readonly Finding[]) =>
  findings.map((one) => `${one.severity} ${one.rule} ${one.file}:${one.line}`);

describe("added lines", () => {
  it("are those that occur more often than before; a moved line is not one", () => {
    expect(addedLines("a\nb\nc", "c\na\nb\nb\nd")).toEqual([
      { line: 4, text: "b" },
      { line: 5, text: "d" },
    ]);
    expect(addedLines(null, "x")).toEqual([{ line: 1, text: "x" }]);
    expect(addedLines("a\r\nb", "a\nb")).toEqual([]);
  });
});

describe("conflict markers", () => {
  const conflict = "<<<<<<< HEAD\na\n=======\nb\n>>>>>>> other\n";

  it("are found once, with their lines, and without a syntax error", async () => {
    expect(short(await check({}, { "src/a.ts": `const x = 1;\n${conflict}` }))).toEqual([
      "critical conflict-marker src/a.ts:2",
    ]);
  });

  it("are found with the base between them and with Windows line endings", async () => {
    const text = "<<<<<<< HEAD\na\n||||||| base\nz\n=======\nb\n>>>>>>> other\n".replaceAll("\n", "\r\n");
    expect(short(await check({}, { "a.txt": text }))).toEqual(["critical conflict-marker a.txt:1"]);
  });

  it("are not seen in headings, code fences of documents and earlier text", async () => {
    const heading = "Title\n=======\n\ntext\n";
    expect(await check({}, { "README.md": heading, "docs/git.md": `\`\`\`\n${conflict}\`\`\`\n` })).toEqual([]);
    expect(await check({ "a.txt": conflict }, { "a.txt": `${conflict}more\n` })).toEqual([]);
  });
});

// Put together at run time, so that no scanner mistakes this file for a leak.
const random = "q7Zk2LmX9vBt4Rw8NcY1HsD6fGj3PaE5uTo0iVyb";
const planted: [string, string][] = [
  ["an AWS key id", `key = "AKIA${"Q3EGRIWHZ5NPLXKD"}"`],
  ["an AWS secret", `aws_secret_access_key = ${random}`],
  ["a GitHub token", `const t = "ghp_${random.slice(0, 36)}";`],
  ["a fine-grained GitHub token", `t: github_pat_${random}${random.slice(0, 20)}`],
  ["a GitLab token", `url = "https://oauth2:glpat-${random.slice(0, 20)}@gitlab.com/x"`],
  ["a Slack token", `token = "xoxb-${"123456789012-098765432109"}-${random.slice(0, 24)}"`],
  ["a Slack webhook", `https://hooks.slack.com/services/T0AB12CD3/B0AB12CD3/${random.slice(0, 24)}`],
  ["a Stripe key", `stripe("sk_live_${random.slice(0, 24)}")`],
  ["a Google key", `"AIza${random.slice(0, 35)}"`],
  ["an OpenAI key", `OPENAI_API_KEY=sk-proj-${random}`],
  ["an Anthropic key", `sk-ant-api03-${random}`],
  ["an npm token", `//packages.example.com/:_authToken=npm_${random.slice(0, 36)}`],
  ["a JWT", `"eyJhbGciOiJIUzI1NiIsInR5cCI6.eyJ1c2VyIjoiYWRhIiwicm9sZSI6.${random}"`],
  ["a password in code", `const password = "${random.slice(0, 20)}";`],
  ["an API key in an object", `  "api_key": "${random.slice(0, 32)}",`],
];
const harmless: [string, string][] = [
  ["the key of AWS's documentation", `key = "AKIAIOSFODNN7EXAMPLE"`],
  ["its secret", `aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY`],
  ["crosses", `ghp_${"x".repeat(36)}`],
  ["one letter many times", `sk_live_${"a".repeat(24)}`],
  ["a variable", "const apiKey = process.env.API_KEY;"],
  ["a template", `password: '\${DB_PASSWORD_FROM_VAULT_2}'`],
  ["a hint", `api_key = "your-api-key-goes-here-123"`],
  ["an angle", `token = "<put-your-token-here-1>"`],
  ["words", `const secretName = "my-service-database-password";`],
  ["a path", `private_key: "/etc/ssl/private/server1.key"`],
  ["a UUID", `client_secret_id = "123e4567-e89b-12d3-a456-426614174000"`],
  ["a CSS class", `.sk-fading-circle-wrapper-outer {}`],
  [
    "the token of jwt.io",
    `eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIn0.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c`,
  ],
  ["a header in code", `if (text.startsWith("-----BEGIN PRIVATE KEY-----")) load(text);`],
  ["a hash", `integrity = "sha512-${random}${random}=="`],
  ["a page's token", `"nextToken": "${random}"`],
  ["a function call", `const token = createToken("user", 1234567890123);`],
  ["a form field", `<input type="password" name="password" placeholder="at least 12 characters">`],
];

describe("secrets", () => {
  it.each(planted)("finds %s and never shows it", async (_name, line) => {
    const findings = (await check({}, { "src/settings.txt": `first\n${line}\n` })).filter(
      (one) => one.rule === "secret",
    );
    const [finding] = findings.length > 0 ? findings : await check({}, { "settings.env": `first\n${line}\n` });
    expect(finding).toMatchObject({ rule: "secret", severity: "critical", line: 2 });
    expect(finding!.message).not.toContain(random.slice(4, 20));
    expect(finding!.message).not.toContain("Q3EGRIWHZ5NPLXKD");
  });

  it.each(harmless)("leaves alone %s", async (_name, line) => {
    expect(await check({}, { "src/a.txt": `${line}\n`, "a.ini": `${line}\n` })).toEqual([]);
  });

  it("finds a private key with its body, on many lines or one", async () => {
    const header = `-----BEGIN RSA ${"PRIVATE"} KEY-----`;
    const body = "MIIEowIBAAKCAQEA7bq3n4z9Xk2vJ8w5T1mYpR6sUeWcLoHd0fGi";
    const findings = await check(
      {},
      { "key.pem": `${header}\n${body}\n`, "a.json": JSON.stringify({ key: `${header}\n${body}` }) },
    );
    expect(short(findings)).toEqual(["critical secret key.pem:1", "critical secret a.json:1"]);
  });

  it("reports only what was added, and gives made-up keys of tests a lower severity", async () => {
    const key = `const key = "AKIA${"Q3EGRIWHZ5NPLXKD"}";\n`;
    expect(await check({ "a.ts": key }, { "a.ts": `${key}export { key };\n` })).toEqual([]);
    expect(await check({ "a.ts": key }, { "b.ts": key }, { renames: { "b.ts": "a.ts" } })).toEqual([]);
    const findings = await check({}, { "tests/auth.test.ts": `const password = "${random.slice(0, 20)}";\n` });
    expect(short(findings)).toEqual(["medium secret tests/auth.test.ts:1"]);
    const documented = await check({}, { "docs/api.md": `    password: "${random.slice(0, 20)}"\n` });
    expect(short(documented)).toEqual(["medium secret docs/api.md:1"]);
  });
});

describe("syntax", () => {
  it.each([
    ["a.json", '{\n  "a": 1,\n}', 2],
    ["b.json", '{"a": 1,\n"b": }', 2],
    ["a.yaml", "a: 1\nb: [1, 2\nc: 3\n", null],
    ["b.yml", "a: 1\n---\nb:\n\t- x\n", 4],
    ["a.js", "const a = 1;\nlet x = ;\n", 2],
    ["a.mjs", "export const a = 1;\nexport const a = 2;\n", 2],
    ["a.cjs", "function f( {\n}\n", null],
    ["a.ts", "interface A { a: string }\nconst a: A = { a: };\n", 2],
    ["a.tsx", "export const A = () => (\n  <div><p></div>\n);\n", 2],
    ["a.jsx", "export const A = () => <div>;\n", null],
  ])("finds the fault of %s", async (path, text, line) => {
    const [finding, ...others] = await check({}, { [path]: text });
    expect(others).toEqual([]);
    expect(finding).toMatchObject({ rule: "syntax-error", severity: "high", file: path });
    if (line !== null) expect(finding!.line).toBe(line);
  });

  it.each([
    ["tsconfig.json", '{\n  // comment\n  "a": 1,\n}'],
    [".vscode/settings.json", '{ "a": 1, /* x */ }'],
    ["a.jsonc", "[1, 2, // x\n]"],
    ["a.json5", "{ a: 'x', b: +Infinity, }"],
    ["package.json", '\ufeff{"a":1}'],
    ["k8s.yaml", "a: 1\n---\nb: !Ref thing\n---\nc: !!binary aGk=\n"],
    ["chart/templates/a.yaml", "{{- if .Values.a }}\na: {{ .Values.a }}\n{{- end }}\n"],
    [".github/workflows/ci.yml", `on: push\njobs:\n  a:\n    steps:\n      - run: echo $\{{ github.sha }}\n`],
    ["a.js", "#!/usr/bin/env node\nexport const A = () => <div>{x}</div>;\nawait A();\n"],
    ["b.cjs", "if (true) return;\nmodule.exports = 1;\n"],
    ["c.ts", "class A { constructor(@Inject() private x: B) {} }\n@dec class B { @dec accessor x = 1 }\n"],
    ["d.mts", "export type A = Awaited<ReturnType<typeof f>>;\nlet x = y satisfies A;\n"],
    ["a.css", "a { color: red; &:hover { color: blue } }\n@media (width > 10px) { b { top: 0 } }\n"],
    ["e.d.ts", "export const a: number;\nexport declare function f(): void;\n"],
    ["flow.js", "// @flow\nfunction f(x: ?number): string { return ''; }\n"],
  ])("accepts %s", async (path, text) => {
    expect(await check({}, { [path]: text })).toEqual([]);
  });

  it("does not blame a change for a file that was broken before, and weighs fixtures and style sheets less", async () => {
    expect(await check({ "a.json": "{" }, { "a.json": "{{" })).toEqual([]);
    const findings = await check({}, { "test/fixtures/bad.json": "{", "a.css": "a { color: red;\n" });
    expect(short(findings)).toEqual(["medium syntax-error a.css:2", "low syntax-error test/fixtures/bad.json:1"]);
  });
});

describe("kinds of files", () => {
  const binary = (size: number) => Buffer.concat([Buffer.from([0, 1, 2, 3]), Buffer.alloc(size)]);

  it("finds what is too large", async () => {
    const after = {
      "data.txt": "x\n".repeat(600_000),
      "model.dat": binary(600_000),
      "photo.png": binary(600_000),
      "package-lock.json": `{"a":"${"x".repeat(1_200_000)}"}`,
    };
    expect(short(await check({}, after)).sort()).toEqual([
      "high oversized-file model.dat:null",
      "medium oversized-file data.txt:null",
      "medium oversized-file photo.png:null",
    ]);
    expect(await check({ "model.dat": binary(700_000) }, { "model.dat": binary(800_000) })).toEqual([]);
  });

  it("finds programs and archives, and lets images and fonts be", async () => {
    const after = {
      "bin/tool": Buffer.from("\x7fELF\x02\x01\x00\x00", "latin1"),
      "a.zip": Buffer.from("PK\x03\x04\x00", "latin1"),
      "logo.png": binary(1_000),
      "a.woff2": binary(1_000),
    };
    expect(short(await check({}, after))).toEqual([
      "medium binary-file bin/tool:null",
      "medium binary-file a.zip:null",
    ]);
  });

  it("names an installed folder once, without the faults of its files", async () => {
    const after = { "node_modules/a/x.json": "{", "node_modules/b/y.test.js": "", "web/node_modules/c.js": "(" };
    expect(short(await check({}, after))).toEqual([
      "high dependency-folder node_modules:null",
      "high dependency-folder web/node_modules:null",
    ]);
    expect(await check({ "node_modules/z.js": "" }, { "node_modules/z.js": "1" })).toEqual([]);
  });

  it("mentions committed caches once, and does not block because of them", async () => {
    const after = { "a/__pycache__/x.pyc": binary(10), "b/__pycache__/y.pyc": binary(10), ".pytest_cache/v": "" };
    const findings = await check({}, after);
    expect(short(findings)).toEqual(["medium cache-folder a/__pycache__:null"]);
    expect(gates.judgeFindings(findings, "high")).toBe("passed");
  });

  it("finds added paths that differ only in case", async () => {
    expect(short(await check({ "src/App.ts": "" }, { "src/App.ts": "", "src/app.ts": "" }))).toEqual([
      "medium case-collision src/app.ts:null",
    ]);
    expect(await check({ "App.ts": "" }, { "app.ts": "" }, { renames: { "app.ts": "App.ts" } })).toEqual([]);
  });
});

describe("declared writes", () => {
  it("are compared with what each task changed; an undeclared one is reported and blocks nothing", async () => {
    const after = { "src/api/a.ts": "", "src/web/b.ts": "", ".env.example": "", "pages/[id].ts": "" };
    const changes = [
      {
        taskKey: "api",
        writes: ["src/api/**", "pages/\\[id\\].ts"],
        mayChangeTests: false,
        files: ["src/api/a.ts", "src/web/b.ts", "pages/[id].ts"],
      },
      { taskKey: "free", writes: null, mayChangeTests: false, files: ["src/web/b.ts"] },
      { taskKey: "dots", writes: ["**"], mayChangeTests: false, files: [".env.example"] },
    ];
    const findings = await check({}, after, { changes });
    expect(short(findings)).toEqual(["low undeclared-write src/web/b.ts:null"]);
    expect(findings[0]!.message).toContain("api");
    expect(gates.judgeFindings(findings, "medium")).toBe("passed");
  });
});

const suite = (...cases: string[]) => `import { expect, it } from "vitest";\n${cases.join("\n")}\n`;
const two = suite('it("a", () => { expect(f()).toBe(1); });', 'it("b", () => { expect(g()).toBe(2); });');

describe("weakened tests", () => {
  const path = "tests/a.test.ts";
  const weakened: [string, Files, Files, string][] = [
    ["a deleted file", { [path]: two }, {}, "high deleted-test"],
    [
      "a case that is gone",
      { [path]: two },
      { [path]: suite('it("a", () => { expect(f()).toBe(1); });') },
      "high weakened-test",
    ],
    ["a case in a comment", { [path]: two }, { [path]: two.replace('it("b"', '// it("b"') }, "high weakened-test"],
    [
      "an assertion that is gone",
      { [path]: two },
      { [path]: two.replace("expect(g()).toBe(2);", "g();") },
      "high weakened-test",
    ],
    ["a skip", { [path]: two }, { [path]: two.replace('it("b"', 'it.skip("b"') }, "high skipped-test"],
    [
      "a whole group skipped",
      { [path]: two },
      { [path]: two.replace('it("a"', 'describe.skip("x", () => {});\nit("a"') },
      "high skipped-test",
    ],
    ["an only", { [path]: two }, { [path]: two.replace('it("b"', 'it.only("b"') }, "high focused-test"],
    ["an xit", { [path]: two }, { [path]: two.replace('it("b"', 'xit("b"') }, "high skipped-test"],
    [
      "a skip in options",
      { [path]: two },
      { [path]: two.replace('it("b", ', 'it("b", { skip: true }, ') },
      "high skipped-test",
    ],
    ["an expected failure", { [path]: two }, { [path]: two.replace('it("b"', 'it.fails("b"') }, "high skipped-test"],
    [
      "a todo",
      { [path]: two },
      { [path]: suite('it("a", () => { expect(f()).toBe(1); });', 'it.todo("b");') },
      "high weakened-test",
    ],
    [
      "a trivial assertion",
      { [path]: two },
      { [path]: two.replace("expect(g()).toBe(2)", "expect(true).toBe(true)") },
      "high trivial-assertion",
    ],
    [
      "assert.ok(true)",
      { [path]: 'test("a", () => assert.equal(f(), 1));\n' },
      { [path]: 'test("a", () => assert.ok(true));\n' },
      "high trivial-assertion",
    ],
    [
      "a pytest mark",
      { "tests/test_a.py": "def test_a():\n    assert f()\n" },
      { "tests/test_a.py": "@pytest.mark.skip\ndef test_a():\n    assert f()\n" },
      "high skipped-test",
    ],
    [
      "a Python assertion",
      { "tests/test_a.py": "def test_a():\n    assert f()\n" },
      { "tests/test_a.py": "def test_a():\n    assert True\n" },
      "high trivial-assertion",
    ],
    [
      "a Python case",
      { "tests/test_a.py": "def test_a():\n    assert f()\n" },
      { "tests/test_a.py": "def a():\n    assert f()\n" },
      "high weakened-test",
    ],
    [
      "Go's Skip",
      { "a_test.go": "func TestA(t *testing.T) {\n\tt.Error(1)\n}\n" },
      { "a_test.go": "func TestA(t *testing.T) {\n\tt.Skip()\n\tt.Error(1)\n}\n" },
      "high skipped-test",
    ],
    [
      "Rust's ignore, beside the code",
      { "src/a.rs": "#[test]\nfn a() { assert!(f()); }\n" },
      { "src/a.rs": "#[test]\n#[ignore]\nfn a() { assert!(f()); }\n" },
      "high skipped-test",
    ],
    [
      "Rust tests beside the code that are gone",
      { "src/a.rs": "#[test]\nfn a() { assert!(f()); }\n" },
      { "src/a.rs": "fn f() {}\n" },
      "high weakened-test",
    ],
    [
      "a test script that always succeeds",
      { "package.json": '{"scripts":{"test":"vitest run"}}' },
      { "package.json": '{"scripts":{"test":"vitest run || true"}}' },
      "high weakened-test",
    ],
    [
      "a test script that only echoes",
      { "package.json": '{"scripts":{"test":"vitest run"}}' },
      { "package.json": '{"scripts":{"test":"echo ok && exit 0"}}' },
      "high weakened-test",
    ],
  ];

  const emptied = two.replaceAll(/expect\(.*?\);/g, "");
  const emptiedWays: [string, Files, Files, string][] = [
    [
      "a deleted file whose cases came back empty",
      { [path]: two },
      { "tests/b.test.ts": emptied },
      "high deleted-test",
    ],
    [
      "a case that moved without its assertions",
      { [path]: two },
      {
        [path]: suite('it("a", () => { expect(f()).toBe(1); });'),
        "tests/b.test.ts": suite('it("b", () => { g(); });'),
      },
      "high weakened-test",
    ],
    [
      "one case in the place of two deleted ones of its name",
      { [path]: two, "tests/c.test.ts": two },
      { "tests/b.test.ts": two },
      "high deleted-test",
    ],
    ["a test file with a NUL in it", { [path]: two }, { [path]: `${emptied}\0` }, "high weakened-test"],
    ["an end of the process", { [path]: two }, { [path]: `process.exit(0);\n${two}` }, "high skipped-test"],
    [
      "a build constraint",
      { "a_test.go": "package a\nfunc TestA(t *testing.T) { t.Fatal(1) }\n" },
      { "a_test.go": "//go:build never\npackage a\nfunc TestA(t *testing.T) { t.Fatal(1) }\n" },
      "high skipped-test",
    ],
  ];

  it.each([...weakened, ...emptiedWays])(
    "finds %s, unless the task may change tests",
    async (_name, before, after, expected) => {
      const findings = await check(before, after);
      expect(findings.map((one) => `${one.severity} ${one.rule}`)).toContain(expected);
      expect(await check(before, after, { mayChangeTests: true })).toEqual([]);
    },
  );

  it("finds a link in the place of a test file or of their folder, even where the same files are behind it", async () => {
    const behind = { tests: "other", "other/a.test.ts": two };
    const folder = await check({ [path]: two }, behind, { after: reader(behind, { tests: "120000" }) });
    expect(short(folder)).toEqual(["high deleted-test tests:null"]);
    const file = { [path]: "../other.ts", "other.ts": two };
    const one = await check({ [path]: two }, file, { after: reader(file, { [path]: "120000" }) });
    expect(short(one)).toContain(`high weakened-test ${path}:null`);
  });

  it("finds a test file that was renamed so that the runner no longer sees it", async () => {
    const findings = await check({ [path]: two }, { "tests/a.ts.bak": two }, { renames: { "tests/a.ts.bak": path } });
    expect(short(findings)).toEqual([`high deleted-test ${path}:null`]);
  });

  const fine: [string, Files, Files, Record<string, string>?][] = [
    ["more tests", { [path]: two }, { [path]: `${two}it("c", () => { expect(1 + f()).toBe(2); });\n` }],
    ["other words", { [path]: two }, { [path]: two.replace('"b"', '"better"').replace("toBe(2)", "toEqual(2)") }],
    ["a renamed file", { [path]: two }, { "tests/b.test.ts": two }, { "tests/b.test.ts": path }],
    [
      "tests that moved to another file",
      { [path]: two },
      {
        [path]: suite('it("a", () => { expect(f()).toBe(1); });'),
        "tests/b.test.ts": suite('it("b", () => { expect(g()).toBe(2); });'),
      },
    ],
    ["a deleted file whose tests moved", { [path]: two }, { "tests/b.test.ts": `${two}\n// more\n` }],
    [
      "a skip that depends on the machine",
      { [path]: two },
      { [path]: two.replace('it("b"', 'it.skipIf(noDocker)("b"') },
    ],
    [
      "a skip that a test quotes",
      { [path]: two },
      { [path]: `${two}it("c", () => { expect(lint('it.skip("x")')).toBe(1); });\n` },
    ],
    [
      "an assertion about a pair",
      { "tests/test_a.py": "def test_a():\n    assert f()\n" },
      { "tests/test_a.py": "def test_a():\n    assert f()\n    assert (1, 2) in g()\n" },
    ],
    [
      "an xfail for one platform",
      { "tests/test_a.py": "def test_a():\n    assert f()\n" },
      { "tests/test_a.py": "@pytest.mark.xfail(sys.platform == 'win32', reason='x')\ndef test_a():\n    assert f()\n" },
    ],
    ["a regular expression's test", { [path]: two }, { [path]: two.replace("f()", "/x/.test(f())") }],
    ["a deleted helper of tests", { "tests/support/http.ts": "export const a = 1;\n" }, {}],
    ["ordinary code", { "src/a.ts": 'it("x"); it("y");\n' }, { "src/a.ts": "run();\n" }],
    [
      "a test script that changed its runner",
      { "package.json": '{"scripts":{"test":"jest"}}' },
      { "package.json": '{"scripts":{"test":"vitest run"}}' },
    ],
  ];

  it.each(fine)("accepts %s", async (_name, before, after, renames) => {
    expect(await check(before, after, renames === undefined ? {} : { renames })).toEqual([]);
  });

  it("points out a table in place of cases without blocking", async () => {
    const table = suite('it.each([["a"], ["b"]])("%s", (x) => { expect(f(x)).toBe(1); });');
    expect(short(await check({ [path]: two }, { [path]: table }))).toEqual([`medium weakened-test ${path}:null`]);
  });

  it("gives a conditional skip a lower severity", async () => {
    const go = (body: string) => `func TestA(t *testing.T) {\n${body}\tt.Error(1)\n}\n`;
    const after = { "a_test.go": go("\tif testing.Short() {\n\t\tt.Skip()\n\t}\n") };
    expect(short(await check({ "a_test.go": go("") }, after))).toEqual(["medium skipped-test a_test.go:3"]);
  });

  it("applies the rule to a change without a known task, too", async () => {
    expect(short(await check({ [path]: two }, {}, { changes: [] }))).toEqual([`high deleted-test ${path}:null`]);
  });
});

describe("findings", () => {
  it("are sorted by severity, at most fifty of a rule", async () => {
    const after = Object.fromEntries(Array.from({ length: 80 }, (_, index) => [`a${index}.json`, "{"]));
    const findings = await check({}, { ...after, "z.txt": "<<<<<<< a\n=======\n>>>>>>> b\n" });
    expect(findings).toHaveLength(51);
    expect(findings[0]!.rule).toBe("conflict-marker");
  });
});

describe("secrets that agents were given", () => {
  const given = { secrets: { DEPLOY_TOKEN: "plain-words-here" } };

  it("are found in a file, as they are and in base64, and are not shown", async () => {
    const base64 = Buffer.from(given.secrets.DEPLOY_TOKEN).toString("base64");
    const findings = await check({}, { "a.txt": "x\nkey=plain-words-here\n", "b.txt": `${base64}\n` }, given);
    expect(short(findings)).toEqual(["critical secret a.txt:2", "critical secret b.txt:1"]);
    expect(JSON.stringify(findings)).not.toContain("plain-words-here");
  });

  it("are no finding if they were there before", async () => {
    expect(await check({ "a.txt": "plain-words-here\n" }, { "a.txt": "plain-words-here\nmore\n" }, given)).toEqual([]);
  });
});

describe("files that agents take as instructions", () => {
  const after = { "AGENTS.md": "obey", "src/.claude/settings.json": "{}" };

  it("block if nobody declared them, and are shown if somebody did", async () => {
    const agentFiles = [
      { taskKey: "api", file: "AGENTS.md", declared: false },
      { taskKey: "docs", file: "src/.claude/settings.json", declared: true },
    ];
    const findings = await check({}, after, { agentFiles });
    expect(short(findings)).toEqual([
      "high agent-file AGENTS.md:null",
      "low agent-file src/.claude/settings.json:null",
    ]);
    expect(findings[0]!.message).toContain("task api changed AGENTS.md");
  });
});
