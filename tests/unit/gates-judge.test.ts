import { type SpawnSyncReturns, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Finding } from "../../src/domain/gate/finding.ts";
import { findFailures } from "../../src/gates/failures/find-failures.ts";
import { createGates } from "../../src/gates/gates.ts";
import type { StageState } from "../../src/sandbox/port.ts";

const gates = createGates();

function stage(over: Partial<StageState> = {}): StageState {
  return {
    name: "gate",
    status: "passed",
    startedAt: "2026-01-01T00:00:00Z",
    endedAt: "2026-01-01T00:00:01Z",
    durationMs: 1_000,
    exitCode: 0,
    signal: null,
    timedOut: false,
    outOfMemory: false,
    truncated: false,
    outputStart: 0,
    outputEnd: 0,
    error: null,
    ...over,
  };
}

function judge(output: string, over: Partial<StageState> = {}, minTests: number | null = 1) {
  return gates.judgeCommand({ sha: "abc", command: "npm test", stage: stage(over), output, junit: [], minTests });
}

const places = (findings: readonly Finding[]) => findings.map((one) => `${one.file}:${one.line} ${one.message}`);

describe("judging a command", () => {
  it("passes exit 0 with enough tests, and keeps the evidence", () => {
    const result = judge("hello\n=== 2 passed in 0.1s ===\n");
    expect(result).toMatchObject({ verdict: "passed", findings: [], reason: null });
    expect(result.evidence).toMatchObject({
      sha: "abc",
      command: "npm test",
      exitCode: 0,
      durationMs: 1_000,
      tests: { total: 2, source: "runner" },
    });
    expect(result.evidence.notes.join()).toContain("estimated");
  });

  it.each([
    ["fewer tests than required", "=== 2 passed in 0.1s ===", {}, 3],
    ["no test at all", "TAP version 13\n1..0\n# tests 0\n# pass 0\n# fail 0\n", {}, 1],
    ["only skipped tests", "=== 3 skipped in 0.1s ===", {}, 1],
    ["no test at all where no number was asked for", "Tests:       0 total\n=== no tests ran in 0.1s ===", {}, null],
    ["nothing that can be counted", "done\n", {}, 1],
    ["pytest that found none", "no tests ran in 0.54s\n", { exitCode: 5 }, 1],
    ["vitest that found none", "\u001b[31mNo test files found, exiting with code 1\n", { exitCode: 1 }, 1],
    ["jest that found none", "No tests found, exiting with code 1\n", { exitCode: 1 }, 1],
  ])("is inconclusive about %s", (_name, output, over, minTests) => {
    const result = judge(output, over, minTests);
    expect(result).toMatchObject({ verdict: "inconclusive", reason: "too-few-tests" });
    expect(result.findings).toHaveLength(1);
    expect(result.evidence.notes.join("\n")).not.toBe("");
  });

  it("says how to give a count when it found none", () => {
    expect(judge("done\n").evidence.notes.join()).toMatch(/TAP.*JUnit.*gates\.testing\.minTests: 0/);
  });

  it.each([
    ["a runner's summary", "=== 1 failed, 2 passed in 0.1s ===", /the runner's summary has 1 failed test\b/],
    ["TAP", "TAP version 13\nok 1\nnot ok 2\n1..2", /the TAP output has 1 failed test\b/],
    ["errors outside the tests", "Tests  2 passed (2)\n     Errors  1 error", /errors outside its tests/],
  ])("fails a command that ended with 0 though %s says that something failed", (_name, output, message) => {
    const result = judge(output);
    expect(result.verdict).toBe("failed");
    expect(result.findings[0]).toMatchObject({ rule: "reported-failure", message: expect.stringMatching(message) });
  });

  it.each([
    "1..1\n",
    "not ok 1 - a\n",
    `${"a".repeat(2_000)} not found\n`,
    `${": a".repeat(600)}\n`,
    `${"1".repeat(2_000)} passed\n`,
    "\u001b]0;",
    "Ran 5 tests in 0.001s\n",
    '{"Action":"pass","Test":"',
  ])("reads a mebibyte of %j in little time", (part) => {
    const output = part.repeat(Math.ceil((1024 * 1024) / part.length));
    const begun = process.cpuUsage();
    for (const exitCode of [0, 1]) judge(output, { exitCode });
    expect(process.cpuUsage(begun).user / 1_000).toBeLessThan(10_000);
  });

  it("asks for no count where none is needed", () => {
    expect(judge("built\n", {}, null).verdict).toBe("passed");
  });

  it.each([
    ["the shell", "sh: 1: pytest: not found\n", { exitCode: 127 }],
    ["a file that may not be run", "sh: 1: ./test.sh: Permission denied\n", { exitCode: 126 }],
    ["npm", "> vitest run\n\nsh: 1: vitest: not found\n", { exitCode: 127 }],
    ["yarn", "/bin/sh: 1: vitest: not found\nerror Command failed with exit code 127.\n", { exitCode: 1 }],
    ["pnpm", "sh: line 1: vitest: command not found\n ELIFECYCLE  Test failed.\n", { exitCode: 1 }],
    ["make", "make: vitest: No such file or directory\nmake: *** [Makefile:2: test] Error 127\n", { exitCode: 2 }],
    ["python", "/usr/bin/python3: No module named pytest\n", { exitCode: 1 }],
    ["the guest", "", { exitCode: null, error: "pytest: not found" }],
  ])("blocks on a command that %s did not find", (_name, output, over) => {
    const result = judge(output, over);
    expect(result).toMatchObject({ verdict: "inconclusive", reason: "command-not-found" });
    expect(result.findings[0]).toMatchObject({ rule: "command-not-found", severity: "high" });
  });

  it("counts a test that lacks a program as a failing test", () => {
    const result = judge("sh: 1: convert: not found\nnot ok 1 - converts\n1..1\n", { exitCode: 1 });
    expect(result.verdict).toBe("failed");
  });

  it("is inconclusive about a time-out, and lists what had failed by then", () => {
    const result = judge("TAP version 13\nnot ok 1 - hangs\n", { exitCode: null, signal: "SIGKILL", timedOut: true });
    expect(result).toMatchObject({ verdict: "inconclusive", reason: "timed-out" });
    expect(result.findings.map((one) => one.rule)).toEqual(["timed-out", "test-failure"]);
  });

  it("fails with the signal of a killed command", () => {
    const result = judge("", { exitCode: null, signal: "SIGSEGV" });
    expect(result.verdict).toBe("failed");
    expect(result.findings[0]!.message).toContain("SIGSEGV");
  });

  it("always has a finding, if only the last meaningful line", () => {
    expect(judge("", { exitCode: 3 }).findings).toHaveLength(1);
    const result = judge("working\nthe index is stale\n\nnpm error code 3\nnpm error path /x\n", { exitCode: 3 });
    expect(result.findings).toMatchObject([{ rule: "command-failed", message: "the index is stale" }]);
  });

  it("reports make's own error beside the last line, which may be the echo of a command", () => {
    const made = "make: *** [Makefile:2: test] Error 1";
    const message = (output: string) => judge(output, { exitCode: 2 }).findings[0]!.message;
    expect(message(`./check.sh\n${made}\n`)).toBe(`./check.sh (${made})`);
    expect(message(`./check.sh\nthe index is stale\n${made}\n`)).toBe(`the index is stale (${made})`);
    expect(message(`${made}\n`)).toBe(made);
  });

  it("keeps the last 20 lines, at most 4 KiB, without colours and cut between characters", () => {
    const long = Array.from({ length: 60 }, (_, index) => `\u001b[31mline ${index}\u001b[0m`).join("\n");
    expect(judge(`${long}\n\n`).evidence.outputTail.split("\n")).toEqual(
      Array.from({ length: 20 }, (_, index) => `line ${index + 40}`),
    );
    const wide = judge("é".repeat(1_900).concat("\n").repeat(9)).evidence.outputTail;
    expect(Buffer.byteLength(wide)).toBeLessThanOrEqual(4_096);
    expect(wide).not.toContain("\ufffd");
  });
});

describe("findings of real runners", () => {
  let folder: string;
  const write = (path: string, text: string) => {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  };
  const run = (program: string, argv: string[]) => {
    const env = { PATH: process.env.PATH ?? "", HOME: process.env.HOME ?? folder };
    const done: SpawnSyncReturns<string> = spawnSync(program, argv, { cwd: folder, encoding: "utf8", env });
    return done.stdout + done.stderr;
  };
  beforeEach(() => {
    // As in a sandbox, where the tree's own path must be removed.
    const root = mkdtempSync(join(tmpdir(), "wavesmith-judge-"));
    folder = join(root, "trees", "bld_1", "gate-2");
    mkdirSync(folder, { recursive: true });
  });
  afterEach(() => rmSync(join(folder, "..", "..", ".."), { recursive: true, force: true }));

  const nodeProgram = `import { test, describe, it } from "node:test";
import assert from "node:assert/strict";
test("adds", () => {});
describe("group", () => {
  it("subtracts", () => { assert.equal(2, 1); });
});
`;

  it("names node:test's failures from TAP, without the groups around them", () => {
    write("t/a.test.mjs", nodeProgram);
    const output = run(process.execPath, ["--test", "--test-reporter=tap", "t/a.test.mjs"]);
    expect(places(findFailures(output, []))).toEqual([
      "t/a.test.mjs:5 subtracts: Expected values to be strictly equal: 2 !== 1",
    ]);
  });

  it("names node:test's failures from its spec reporter", () => {
    write("t/a.test.mjs", nodeProgram);
    const output = run(process.execPath, ["--test", "--test-reporter=spec", "t/a.test.mjs"]);
    const found = places(findFailures(output, []));
    expect(found).toHaveLength(1);
    expect(found[0]).toMatch(/^t\/a\.test\.mjs:5 subtracts: AssertionError.*strictly equal: 2 !== 1/);
  });

  it("finds the place of a script's uncaught error and of a syntax error", () => {
    write(
      "src/a.mjs",
      `import assert from "node:assert";\nfunction go() {\n  throw new TypeError("no good");\n}\ngo();\n`,
    );
    expect(places(findFailures(run(process.execPath, ["src/a.mjs"]), []))).toEqual(["src/a.mjs:3 TypeError: no good"]);
    write("src/b.mjs", "const a = 1;\nlet x = ;\n");
    expect(places(findFailures(run(process.execPath, ["src/b.mjs"]), []))).toEqual([
      "src/b.mjs:2 SyntaxError: Unexpected token ';'",
    ]);
  });

  const has = (program: string, ...argv: string[]) => spawnSync(program, argv, { stdio: "ignore" }).status === 0;

  it.runIf(has("python3", "-m", "pytest", "--version"))("names pytest's failures and the lines they are in", () => {
    write(
      "tests/test_a.py",
      `import unittest\ndef test_bad():\n    x = 3\n    assert x == 4, "three"\nclass T(unittest.TestCase):\n    def test_u(self): self.assertEqual(1, 2)\n`,
    );
    write("tests/test_b.py", "import nonexistent_module\n");
    const all = places(findFailures(run("python3", ["-m", "pytest", "-q", "-p", "no:cacheprovider"]), []));
    expect(all).toEqual([
      "tests/test_b.py:1 could not be collected: ModuleNotFoundError: No module named 'nonexistent_module'",
    ]);
    const some = places(
      findFailures(run("python3", ["-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_a.py"]), []),
    );
    expect(some[0]).toMatch(/^tests\/test_a\.py:4 test_bad: AssertionError: three/);
    expect(some[1]).toBe("tests/test_a.py:6 T::test_u: AssertionError: 1 != 2");
  });

  it.runIf(has("python3", "--version"))("names unittest's failures and a program's exception", () => {
    write(
      "test_u.py",
      "import unittest\nclass T(unittest.TestCase):\n    def test_u(self):\n        self.assertEqual(1, 2)\n",
    );
    expect(places(findFailures(run("python3", ["-m", "unittest"]), []))).toEqual([
      "test_u.py:4 test_u: AssertionError: 1 != 2",
    ]);
    write("main.py", "def f():\n    return {}['x']\nf()\n");
    expect(places(findFailures(run("python3", ["main.py"]), []))[0]).toMatch(/main\.py:2 KeyError: 'x'$/);
  });

  it.runIf(has("cargo", "--version"))(
    "names cargo's failures and compile errors",
    () => {
      write("Cargo.toml", '[package]\nname = "tiny"\nversion = "0.1.0"\nedition = "2021"\n');
      write(
        "src/lib.rs",
        `#[cfg(test)]\nmod tests {\n    #[test]\n    fn ok() {}\n    #[test]\n    fn bad() {\n        assert_eq!(2, 3, "sum");\n    }\n}\n`,
      );
      const output = run("cargo", ["test", "--offline"]);
      expect(places(findFailures(output, []))[0]).toMatch(
        /^src\/lib\.rs:7 tests::bad: assertion .*sum left: 2 right: 3/,
      );
      expect(judge(output, { exitCode: 101 }).evidence.tests).toMatchObject({ total: 2, passed: 1, failed: 1 });
      write("src/lib.rs", "pub fn f() -> u8 {\n    missing\n}\n");
      expect(places(findFailures(run("cargo", ["test", "--offline"]), []))[0]).toMatch(
        /^src\/lib\.rs:2 error\[E0425\]/,
      );
    },
    120_000,
  );
});

const recorded: [string, string, string[]][] = [
  [
    "vitest",
    `\u001b[41m FAIL \u001b[49m a.test.ts\u001b[2m > \u001b[22ms\u001b[2m > \u001b[22mbad one
\u001b[31mAssertionError\u001b[39m: expected 1 to be 2 // Object.is equality

\u001b[32m- Expected\u001b[39m

 \u001b[36m❯\u001b[39m a.test.ts:\u001b[2m2:75\u001b[22m
     1| import { expect } from "vitest";

⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯⎯[1/2]⎯

 FAIL  b.test.ts [ b.test.ts ]
Error: Cannot find module './missing.ts' imported from /workspace/trees/bld_1/gate-1/b.test.ts
 ❯ b.test.ts:1:1
`,
    [
      "a.test.ts:2 s > bad one: AssertionError: expected 1 to be 2 // Object.is equality - Expected",
      "b.test.ts:1 Error: Cannot find module './missing.ts' imported from b.test.ts",
    ],
  ],
  [
    "jest",
    `FAIL src/sum.test.js
  ● math › adds

    expect(received).toBe(expected) // Object.is equality

    Expected: 3

      at Object.toBe (node_modules/x/index.js:1:1)
      at Object.<anonymous> (src/sum.test.js:5:13)

Test Suites: 1 failed, 1 total
Tests:       1 failed, 1 total
`,
    ["src/sum.test.js:5 math › adds: expect(received).toBe(expected) // Object.is equality"],
  ],
  [
    "mocha",
    `  0 passing (4ms)
  1 failing

  1) math
       adds two numbers:

      AssertionError [ERR_ASSERTION]: 1 == 2
      + expected - actual

      at Context.<anonymous> (test/a.js:4:12)
      at process.processImmediate (node:internal/timers:476:21)
`,
    ["test/a.js:4 math adds two numbers: AssertionError [ERR_ASSERTION]: 1 == 2"],
  ],
  [
    "playwright",
    "  1) [chromium] › tests/home.spec.ts:12:5 › shows the title ───────\n\n    Error: expect(locator).toBeVisible() failed\n",
    ["tests/home.spec.ts:12 shows the title: Error: expect(locator).toBeVisible() failed"],
  ],
  [
    "go test",
    "--- FAIL: TestSum (0.00s)\n    --- FAIL: TestSum/big (0.00s)\n        sum_test.go:12: got 3, want 4\nFAIL\nFAIL\texample.com/sum\t0.002s\n",
    ["sum_test.go:12 TestSum/big: got 3, want 4"],
  ],
  [
    "go test -v",
    "=== RUN   TestSum\n    sum_test.go:9: got 3, want 4\n--- FAIL: TestSum (0.00s)\nFAIL\n",
    ["sum_test.go:9 TestSum: got 3, want 4"],
  ],
  [
    "go test -json",
    [
      '{"Time":"2026-11-23T14:48:53.1Z","Action":"run","Package":"example.com/calc","Test":"TestSub"}',
      '{"Time":"2026-11-23T14:48:53.1Z","Action":"output","Package":"example.com/calc","Test":"TestSub","Output":"=== RUN   TestSub\\n"}',
      '{"Time":"2026-11-23T14:48:53.1Z","Action":"output","Package":"example.com/calc","Test":"TestSub","Output":"    sub_test.go:7: Sub(3, 1) = 4, want 2\\n"}',
      '{"Time":"2026-11-23T14:48:53.1Z","Action":"output","Package":"example.com/calc","Test":"TestSub","Output":"--- FAIL: TestSub (0.00s)\\n"}',
      '{"Time":"2026-11-23T14:48:53.1Z","Action":"fail","Package":"example.com/calc","Test":"TestSub","Elapsed":0}',
      '{"Time":"2026-11-23T14:48:53.1Z","Action":"fail","Package":"example.com/calc","Elapsed":0.013}',
    ].join("\n"),
    ["sub_test.go:7 TestSub: Sub(3, 1) = 4, want 2"],
  ],
  [
    "the go compiler",
    "# example.com/sum\n./sum.go:5:2: undefined: y\nFAIL\texample.com/sum [build failed]\n",
    ["sum.go:5 undefined: y"],
  ],
  [
    "an older cargo",
    "thread 'tests::bad' panicked at 'no luck', src/lib.rs:10:5\n",
    ["src/lib.rs:10 tests::bad: no luck"],
  ],
  [
    "tsc",
    "src/a.ts(5,3): error TS2322: Type 'string' is not assignable.\n",
    ["src/a.ts:5 TS2322: Type 'string' is not assignable."],
  ],
  [
    "tsc on a terminal",
    "\u001b[96msrc/a.ts\u001b[0m:\u001b[93m5\u001b[0m:\u001b[93m3\u001b[0m - \u001b[91merror\u001b[0m\u001b[90m TS2322: \u001b[0mNo.\n",
    ["src/a.ts:5 TS2322: No."],
  ],
  [
    "gcc",
    "main.c: In function 'main':\nmain.c:3:5: error: unknown type name 'foo'\n",
    ["main.c:3 unknown type name 'foo'"],
  ],
  [
    "esbuild",
    '✘ [ERROR] Could not resolve "./x"\n\n    src/a.ts:1:17:\n      1 │ import x\n',
    ['src/a.ts:1 Could not resolve "./x"'],
  ],
  [
    "eslint",
    "/workspace/trees/bld_1/gate-1/src/a.js\n  5:3  error  'x' is not defined  no-undef\n",
    ["src/a.js:5 'x' is not defined no-undef"],
  ],
];

describe("findings from recorded output", () => {
  it.each(recorded)("reads %s", (_name, output, expected) => {
    expect(places(findFailures(output, []))).toEqual(expected);
  });

  it("reads failing cases of a JUnit report", () => {
    const xml = `<testsuite><testcase name="adds" file="t/a.py" line="4"><failure message="1 != 2"/></testcase></testsuite>`;
    expect(places(findFailures("", [{ xml }]))).toEqual(["t/a.py:4 adds: 1 != 2"]);
  });

  it("stays quick on a hostile output", () => {
    const started = process.hrtime.bigint();
    findFailures(`${" ".repeat(200_000)}x\n${"at (".repeat(50_000)}\n${"a.b:".repeat(50_000)}`, []);
    expect(Number(process.hrtime.bigint() - started) / 1e6).toBeLessThan(3_000);
  });
});

describe("fingerprints", () => {
  const finding = (over: Partial<Finding>): Finding => ({
    rule: "test-failure",
    severity: "high",
    message: "adds failed",
    file: "a.test.ts",
    line: 3,
    confidence: null,
    ...over,
  });
  const same = (one: Partial<Finding>, other: Partial<Finding>) =>
    gates.fingerprint([finding(one)]) === gates.fingerprint([finding(other)]);

  it("do not depend on order, lines, times, addresses and temporary places", () => {
    const one = finding({ message: "a" });
    const other = finding({ message: "b" });
    expect(gates.fingerprint([one, other])).toBe(gates.fingerprint([other, one]));
    expect(same({ line: 3 }, { line: 9 })).toBe(true);
    expect(same({ message: "took 12ms at 0x7ffe12" }, { message: "took 3.5s at 0x1a" })).toBe(true);
    expect(same({ message: "timed out after 30 seconds" }, { message: "timed out after 31 seconds" })).toBe(true);
    expect(same({ message: "ENOENT /tmp/x-aB3/y" }, { message: "ENOENT /tmp/x-Zz9/y" })).toBe(true);
    expect(same({ file: "/workspace/trees/bld_1/gate-1/a.ts" }, { file: "/workspace/trees/bld_1/gate-2/a.ts" })).toBe(
      true,
    );
  });

  it("tell findings apart by rule, file, words and number", () => {
    expect(same({ message: "adds" }, { message: "subtracts" })).toBe(false);
    expect(same({ message: "test_1 failed" }, { message: "test_2 failed" })).toBe(false);
    expect(same({ file: "a.ts" }, { file: "b.ts" })).toBe(false);
    expect(same({ rule: "a" }, { rule: "b" })).toBe(false);
    expect(gates.fingerprint([finding({})])).not.toBe(gates.fingerprint([finding({}), finding({})]));
  });
});

describe("reviews", () => {
  it("become findings; uncertain ones of the critic cannot block", () => {
    const findings = gates.parseReview(
      JSON.stringify({
        verdict: "request changes",
        findings: [
          {
            title: "Loses data",
            body: "When two write.",
            severity: "HIGH",
            confidence: 0.9,
            file: "./src/a.ts",
            startLine: 4,
            endLine: 9,
            category: "Data loss",
          },
          { title: "Maybe slow", severity: "critical", confidence: 0.3, line: 2 },
        ],
      }),
    );
    expect(findings).toEqual([
      {
        rule: "review-data-loss",
        severity: "high",
        message: "Loses data: When two write.",
        file: "src/a.ts",
        line: 4,
        confidence: 0.9,
      },
      { rule: "review", severity: "low", message: "Maybe slow", file: null, line: 2, confidence: 0.3 },
    ]);
    expect(gates.judgeFindings(findings, "high")).toBe("failed");
    expect(gates.judgeFindings(findings.slice(1), "high")).toBe("passed");
    expect(gates.judgeFindings(findings.slice(1), "low")).toBe("failed");
  });

  it.each([
    "",
    "nonsense",
    "[]",
    '{"findings":[{"severity":"high"}]}',
    '{"findings":[{"title":"x","severity":"grave"}]}',
  ])("of another shape are refused: %s", (text) => {
    expect(() => gates.parseReview(text)).toThrowError(
      expect.objectContaining({ code: "usage", name: "WavesmithError" }),
    );
  });
});
