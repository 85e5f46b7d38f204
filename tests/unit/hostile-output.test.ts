import { describe, expect, it } from "vitest";
import { agentEndOf, agentText, questionsIn } from "../../src/agents/agent-output.ts";
import { harmless, oneLine } from "../../src/cli/output/format.ts";
import { countJunit } from "../../src/gates/counts/junit.ts";
import { countRunnerSummary } from "../../src/gates/counts/runner-summary.ts";
import { findFailures } from "../../src/gates/failures/find-failures.ts";
import { parseReview } from "../../src/gates/review.ts";
import { staticChecks } from "../../src/gates/static/static-checks.ts";
import { evidenceTail, outputLines } from "../../src/gates/text.ts";

// Everything that reads agents' output takes time in proportion to its length, so that one job does
// not hold up the others.

const mebibyte = 1 << 20;
const filled = (text: string) => (size: number) => text.repeat(Math.ceil(size / text.length)).slice(0, size);
const after = (begin: string, text: string) => (size: number) => begin + filled(text)(size);
const numbered = (line: (n: number) => string) => (size: number) => {
  const lines: string[] = [];
  for (let n = 0, length = 0; length < size; n += 1) length += lines[lines.push(line(n)) - 1]!.length;
  return lines.join("");
};

type Input = (size: number) => string;
const failures = (output: string) => findFailures(output, []);
const readers: readonly (readonly [string, (text: string) => unknown, Readonly<Record<string, Input>>])[] = [
  [
    "what failed",
    failures,
    {
      pytest: filled("FAILED a.py::b\n"),
      "pytest by name": numbered((n) => `FAILED a.py::t${n}\n`),
      "pytest's sections": numbered((n) => `___ t${n} ___\na.py:3: x\nFAILED a.py::t${n}\n`),
      go: numbered((n) => `--- FAIL: T${n}\n`),
      "one test of go": filled("--- FAIL: T\n"),
      "go, verbose": numbered((n) => `=== RUN   T${n}\n--- FAIL: T${n}\n`),
      "go's subtests": numbered((n) => `--- FAIL: T${n}\n    --- FAIL: T${n}/x\n`),
      cargo: filled("thread 'a' panicked at src/a.rs:1:1:\n"),
      tap: after("TAP version 13\n", "not ok 1 - x\n  ---\n"),
      jest: after("FAIL a.test.js\n", "  ● a\n"),
      mocha: after("  1 failing\n", "  1) a\n"),
      unittest: filled("FAIL: a (b)\n--------------------\n"),
      "names of trees": filled("error: a/trees/b/c/trees/\n"),
      "long lines": filled(`    at ${"(a:1:".repeat(390)}\n`),
      "empty lines": filled("\n"),
    },
  ],
  [
    "reports",
    (xml) => [countJunit([{ xml }]), findFailures("", [{ xml }])],
    {
      "tags that never end": after("<testsuite>", '<a b="'),
      "open cases": after("<testsuite>", "<testcase>"),
      "long attributes": after("<testsuite>", `<testcase ${"a".repeat(15_000)}>`),
      "empty attributes": after("<testsuite>", `<testcase ${"a= ".repeat(5_000)}>`),
      failures: numbered((n) => `<testcase name="t${n}"><failure message="m"/></testcase>`),
      entities: after("<testsuite><testcase><failure>", "&amp;"),
    },
  ],
  ["summaries", (text) => countRunnerSummary(outputLines(text)), { digits: filled(`${"1 ".repeat(990)}\n`) }],
  ["the last lines", evidenceTail, { escapes: filled("\u001b[1;"), titles: filled("\u001b]"), returns: filled("\r") }],
  [
    "what agents say",
    (text) => [questionsIn(text), agentEndOf(text), agentText(text)],
    { "broken events": filled('{"wavesmith":1,"kind":"question"\n') },
  ],
  ["what is shown", (text) => [harmless(text), oneLine(text)], { spaces: filled(" "), lines: filled(" \n") }],
  ["reviews", (text) => caught(() => parseReview(text)), { brackets: filled("["), quotes: filled('"') }],
  [
    "files of an attempt",
    (text) => Promise.all(["a.test.js", "a_test.go", "test_a.py", "tests/a.rs", "a_spec.rb"].map(checkFile(text))),
    { lines: filled("\n"), returns: filled("\r"), calls: filled("it("), comments: filled("/*\n"), spaces: filled(" ") },
  ],
  [
    "YAML of an attempt",
    (text) => checkFile(text)("a.yaml"),
    { quotes: filled('"'), brackets: filled("["), lists: filled("- "), keys: filled("? "), anchors: filled("&a ") },
  ],
];

const cases = readers.flatMap(([what, read, inputs]) =>
  Object.entries(inputs).map(([name, input]) => ({ what, read, name, input })),
);

describe("reading agents' output", () => {
  it.each(cases)("$what: $name", { timeout: 120_000 }, async ({ read, input }) => {
    await processorMs(read, input(mebibyte / 64)); // lets it compile
    const quarter = await processorMs(read, input(mebibyte / 4));
    const whole = await processorMs(read, input(mebibyte));
    // Four times as much text takes four times as long, but sixteen times if each line is compared
    // with each.
    expect(whole).toBeLessThan(9 * quarter + 400);
  });

  it("names 200 failures and says how many more there were", () => {
    const found = failures(numbered((n) => `--- FAIL: T${n}\n`)(300_000));
    expect(found).toHaveLength(200);
    expect(found[0]!.message).toBe("T0");
    expect(found[199]!.message).toMatch(/^T199 \(and \d{4,} more\)$/);
  });
});

async function processorMs(read: (text: string) => unknown, text: string): Promise<number> {
  const begun = process.cpuUsage();
  await read(text);
  const { user, system } = process.cpuUsage(begun);
  return (user + system) / 1_000;
}

function caught(work: () => unknown): unknown {
  try {
    return work();
  } catch (error) {
    return error;
  }
}

const checkFile = (text: string) => (path: string) => {
  const entry = { path, mode: "100644", sizeBytes: text.length };
  const reader = { list: async () => [entry], read: async () => Buffer.from(text) };
  const before = { ...reader, read: async () => Buffer.from(text.slice(0, -64)) };
  const changed = { path, status: "modified", from: null, addedLines: 1, deletedLines: 0, binary: false } as const;
  const changes = [{ taskKey: "a", writes: null, mayChangeTests: false, files: [path] }];
  return staticChecks({ changed: [changed], secrets: {}, before, after: reader, changes, agentFiles: [] });
};
