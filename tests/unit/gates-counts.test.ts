import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { countJunit } from "../../src/gates/counts/junit.ts";
import { countTests } from "../../src/gates/counts/test-counts.ts";

const program = `
import { test, describe, it } from "node:test";
import assert from "node:assert/strict";
test("adds", () => assert.equal(1, 1));
test("subtracts badly", () => { assert.equal(2, 1); });
describe("group", () => {
  it("inner ok", () => {});
  it("inner bad", () => { throw new Error("boom"); });
  it.skip("left out", () => {});
  it.todo("later");
});
test("parent", async (t) => { await t.test("child", () => {}); });
`;

describe("counting with the real node:test", () => {
  let folder: string;
  const run = (...argv: string[]) => {
    const env = { PATH: process.env.PATH ?? "", HOME: folder };
    const done = spawnSync(process.execPath, ["--test", ...argv], { cwd: folder, encoding: "utf8", env });
    return done.stdout + done.stderr;
  };
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "wavesmith-counts-"));
    writeFileSync(join(folder, "a.test.mjs"), program);
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it("counts nested tests in its TAP as the runner does", () => {
    const output = run("--test-reporter=tap", "a.test.mjs");
    expect(countTests(output, [])).toEqual({ total: 8, passed: 4, failed: 2, skipped: 2, source: "tap" });
  });

  it("estimates the same from its spec reporter, colours or not", () => {
    const output = run("--test-reporter=spec", "a.test.mjs");
    const expected = { total: 8, passed: 4, failed: 2, skipped: 2, source: "runner" };
    expect(countTests(output, [])).toEqual(expected);
    expect(countTests(output.replaceAll("ℹ", "\u001b[34mℹ").replaceAll("\n", "\u001b[39m\n"), [])).toEqual(expected);
  });

  it("prefers its JUnit report, where a group is not a test", () => {
    const xml = run("--test-reporter=junit", "a.test.mjs");
    expect(countTests("# tests 99\n# pass 99\n", [{ xml }])).toMatchObject({
      total: 7,
      failed: 2,
      skipped: 2,
      source: "junit",
    });
  });

  it("finds none in a folder without tests", () => {
    expect(countTests("TAP version 13\n1..0\n# tests 0\n# pass 0\n# fail 0\n", [])).toMatchObject({ total: 0 });
  });
});

const table: [string, string, [total: number, passed: number, failed: number, skipped: number] | null][] = [
  [
    "TAP without a summary",
    "TAP version 14\n1..4\nok 1 - a\nnot ok 2 - b\nok 3 - c # SKIP no\nok 4 - d # TODO\n",
    [4, 1, 1, 2],
  ],
  [
    "TAP whose nested plan is not a test of its own",
    "    ok 1 - x\n    ok 2 - y\n    1..2\nok 1 - outer\n1..1\n",
    [1, 1, 0, 0],
  ],
  ["TAP that ended before its plan", "1..5\nok 1 - a\nok 2 - b\n", [5, 2, 3, 0]],
  ["tape", "TAP version 13\n# adds\nok 1 one\n\n1..1\n# tests 1\n# pass  1\n\n# ok\n", [1, 1, 0, 0]],
  [
    "two TAP runs in a row",
    "TAP version 13\n1..2\n# tests 2\n# pass 2\n# fail 0\nTAP version 13\n1..3\n# tests 3\n# pass 2\n# fail 1\n",
    [5, 4, 1, 0],
  ],
  [
    "TAP of a test that prints a summary-like line",
    "TAP version 13\n# tests 70\nok 1 - a\n1..1\n# tests 1\n# pass 1\n# fail 0\n",
    [1, 1, 0, 0],
  ],
  [
    "vitest",
    "\u001b[2m      Tests \u001b[22m \u001b[1m\u001b[31m1 failed\u001b[39m\u001b[22m\u001b[2m | \u001b[22m\u001b[1m\u001b[32m4 passed\u001b[39m\u001b[22m\u001b[2m | \u001b[22m\u001b[33m1 skipped\u001b[39m\u001b[90m (6)\u001b[39m\n",
    [6, 4, 1, 1],
  ],
  ["vitest without tests", " Test Files  1 failed (1)\n      Tests  no tests\n", [0, 0, 0, 0]],
  [
    "jest",
    "Test Suites: 1 failed, 2 passed, 3 total\nTests:       1 failed, 2 skipped, 5 passed, 8 total\n",
    [8, 5, 1, 2],
  ],
  ["mocha", "\n  5 passing (12ms)\n  2 pending\n  1 failing\n\n  1) a\n       b:\n", [8, 5, 1, 2]],
  ["pytest", "==== 1 failed, 5 passed, 2 skipped, 1 xfailed, 1 warning in 0.12s ====\n", [9, 5, 1, 3]],
  ["pytest -q", "..F\n1 failed, 2 passed in 0.51s\n", [3, 2, 1, 0]],
  ["pytest that took minutes", "120 passed in 75.31s (0:01:15)\n", [120, 120, 0, 0]],
  ["pytest without tests", "\nno tests ran in 0.54s\n", [0, 0, 0, 0]],
  ["pytest that could not collect", "1 error in 0.58s\n", [1, 0, 1, 0]],
  [
    "go test -v",
    "=== RUN   TestA\n--- PASS: TestA (0.00s)\n=== RUN   TestB\n=== RUN   TestB/x\n--- FAIL: TestB (0.00s)\n    --- FAIL: TestB/x (0.00s)\n--- SKIP: TestC (0.00s)\nFAIL\nFAIL\texample.com/a\t0.003s\n",
    [3, 1, 1, 1],
  ],
  [
    "go test, by package",
    "ok  \texample.com/a\t0.003s\nok  \texample.com/b\t(cached)\n?   \texample.com/c\t[no test files]\n",
    [2, 2, 0, 0],
  ],
  ["go test without tests", "?   \texample.com/c\t[no test files]\n", [0, 0, 0, 0]],
  ["go test that ran none", "ok  \texample.com/a\t0.003s [no tests to run]\n", [0, 0, 0, 0]],
  [
    "go test -json",
    '{"Action":"run","Test":"TestA"}\n{"Action":"pass","Package":"a","Test":"TestA"}\n{"Action":"pass","Package":"a","Test":"TestA/x"}\n{"Action":"fail","Package":"a","Test":"TestB"}\n{"Action":"fail","Package":"a"}\n',
    [2, 1, 1, 0],
  ],
  [
    "cargo, unit and doc tests",
    "test result: FAILED. 5 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.09s\n\ntest result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n",
    [9, 7, 1, 1],
  ],
  ["unittest", "Ran 5 tests in 0.001s\n\nFAILED (failures=1, errors=1, skipped=1)\n", [5, 2, 2, 1]],
  ["unittest, all well", "Ran 1 test in 0.000s\n\nOK\n", [1, 1, 0, 0]],
  ["phpunit", "OK (5 tests, 10 assertions)\n", [5, 5, 0, 0]],
  ["phpunit with failures", "Tests: 5, Assertions: 10, Failures: 1, Errors: 1, Skipped: 1.\n", [5, 2, 2, 1]],
  ["rspec", "5 examples, 1 failure, 1 pending\n", [5, 3, 1, 1]],
  [
    "playwright",
    "  1 failed\n    [chromium] › a.spec.ts:5:1 › title ─────\n  1 flaky\n    [chromium] › b.spec.ts:5:1 › other\n  2 skipped\n  4 passed (3.2s)\n",
    [8, 5, 1, 2],
  ],
  ["minitest", "5 runs, 10 assertions, 1 failures, 0 errors, 1 skips\n", [5, 3, 1, 1]],
  [
    "maven",
    "[INFO] Tests run: 3, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.01 s -- in a.BTest\n[INFO] Tests run: 5, Failures: 1, Errors: 0, Skipped: 1\n",
    [5, 3, 1, 1],
  ],
  ["workspaces, summed", "Tests:       5 passed, 5 total\n      Tests  3 passed (3)\n", [8, 8, 0, 0]],
  [
    "workspaces behind prefixes",
    "packages/a test: ℹ tests 2\npackages/a test: ℹ pass 2\npackages/a test: ℹ fail 0\nweb:test:       Tests  3 passed (3)\n",
    [5, 5, 0, 0],
  ],
  ["prose", "all 5 tests are fine, I promise\n5 passed\n# tests 5\n", null],
];

describe("counting from output", () => {
  it.each(table)("reads %s", (_name, output, expected) => {
    const counted = countTests(output, []);
    expect(counted && [counted.total, counted.passed, counted.failed, counted.skipped]).toEqual(expected);
  });
});

describe("JUnit reports", () => {
  it("sums reports and counts cases rather than believing attributes", () => {
    const one = `<?xml version="1.0"?><!-- <testcase name="no"/> --><testsuites tests="900"><testsuite name="a" tests="3">
      <testcase name="ok" classname="x"></testcase>
      <testcase name="bad"><failure message="a &lt; b &amp; c &#x41;">text</failure></testcase>
      <testcase name='skipped "one"'><skipped/></testcase></testsuite></testsuites>`;
    const two = `<testsuite tests="1"><testcase name="e"><error><![CDATA[<testcase name="in text"/>]]></error></testcase></testsuite>`;
    expect(countJunit([{ xml: one }, { xml: two }])).toEqual({ total: 4, passed: 1, failed: 2, skipped: 1 });
  });

  it("uses attributes where no cases are listed", () => {
    const xml = `<testsuites><testsuite tests="5" failures="1" errors="1" skipped="1"/><testsuite tests="2"/></testsuites>`;
    expect(countJunit([{ xml }])).toEqual({ total: 7, passed: 4, failed: 2, skipped: 1 });
  });

  it("reads what it can of a broken report, and nothing of other XML", () => {
    expect(countJunit([{ xml: `<testsuite><testcase name="a"/><testcase name="b"><failure` }])).toMatchObject({
      total: 2,
    });
    expect(countJunit([{ xml: "<svg><path d='M0'/></svg>" }, { xml: "not xml" }, { xml: "" }])).toBeNull();
  });

  it("stays quick on a hostile report", () => {
    const xml = `<testsuite>${"<testcase/>".repeat(50_000)}<testcase ${"a".repeat(500_000)}>${"<testcase ".repeat(50_000)}`;
    const started = process.hrtime.bigint();
    countJunit([{ xml }]);
    expect(Number(process.hrtime.bigint() - started) / 1e6).toBeLessThan(5_000);
  });
});
