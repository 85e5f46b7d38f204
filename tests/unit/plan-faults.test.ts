import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { PlanFault } from "../../src/domain/plan/plan.ts";
import { loadPlanFile } from "../../src/plan/load-plan.ts";
import { parsePlan, parsePlanValue } from "../../src/plan/parse-plan.ts";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "wavesmith-plan-"));
  mkdirSync(join(folder, "plans"));
  writeFileSync(join(folder, "outside.md"), "not yours");
  writeFileSync(join(folder, "plans", "empty.md"), " \n");
  symlinkSync(join(folder, "outside.md"), join(folder, "plans", "link.md"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const parse = (text: string, format: "yaml" | "json" = "yaml") =>
  parsePlan(text, { format, baseDir: join(folder, "plans"), env: { SET: "1", EMPTY: "" } });
const faultsOf = (text: string): PlanFault[] => parse(text).faults;
const places = (faults: readonly PlanFault[]): string[] =>
  faults.map(({ line, code, path }) => `${line} ${code} ${path}`);

/** A plan of one good task, with these additions. */
const withTask = (fields: string): string => `name: p\ntasks:\n  - id: a\n    run: "true"\n${fields}`;

const manyFaults = `name: many
descripton: a typing error
limits: { tasksPerAgentPerWave: 0, budget: { wallClock: 90 } }
agents:
  default: { runtime: docker }
  backend: { runtime: command }
env: { VERSION: 1.10, NOTHING: }
secrets: [SET, NOT_SET, EMPTY]
services: { db: { comand: postgres } }
setup: { run: npm ci, cache: [/etc/passwd] }
generated: [{ path: "../x", by: make }]
source: { path: ./nowhere }
x-times: &times { timeout: 20 }
tasks:
  - id: a
    agent: backend
    dependsOn: [b, a, zz]
    instructions: go
    writes: ["src/**", "{..,lib}/**"]
    timeout: 20 minutes
  - id: b
    agent: backend
    dependsOn: [c]
    run: "true"
    instructions: both
  - id: c
    agent: backed
    dependsOn: [a]
  - id: c
    <<: *times
    agent: backend
    title: 5
    instructions: { file: nope.md }
    acceptance: [{ txt: x }]
  - Id: e
    run: "true"
  - just text
gates:
  testing: { command: npm test, from: nothere, when: always }
  critic: true
deliver: { forge: github }
name: again
`;

describe("a plan with faults", () => {
  it("reports all of them together, each with its path and line", () => {
    const { plan, faults } = parse(manyFaults);
    expect(plan).toBeNull();
    expect(places(faults).sort()).toEqual(
      [
        "2 unknown-key descripton",
        "3 invalid limits.tasksPerAgentPerWave",
        "3 bad-duration limits.budget.wallClock",
        "5 unknown-runtime agents.default.runtime",
        "6 missing agents.backend.command",
        "7 invalid env.VERSION",
        "7 wrong-type env.NOTHING",
        "8 missing-secret secrets[1]",
        "8 missing-secret secrets[2]",
        "9 unknown-key services.db.comand",
        "9 missing services.db.command",
        "10 escaping-glob setup.cache[0]",
        "11 escaping-glob generated[0].path",
        "12 missing-source source.path",
        "13 bad-duration tasks[3].timeout",
        "17 self-dependency tasks[0].dependsOn[1]",
        "17 dangling-dependency tasks[0].dependsOn[2]",
        "17 cycle tasks[0].dependsOn[0]",
        "19 escaping-glob tasks[0].writes[1]",
        "20 bad-duration tasks[0].timeout",
        "24 two-works tasks[1].run",
        "26 no-work tasks[2]",
        "27 undeclared-role tasks[2].agent",
        "29 duplicate-id tasks[3].id",
        "32 wrong-type tasks[3].title",
        "33 missing-file tasks[3].instructions.file",
        "34 unknown-key tasks[3].acceptance[0].txt",
        "35 unknown-key tasks[4].Id",
        "35 missing tasks[4].id",
        "37 wrong-type tasks[5]",
        "39 unknown-task gates.testing.from",
        "39 invalid gates.testing.when",
        "40 wrong-type gates.critic",
        "41 missing deliver.repo",
        "42 duplicate-key name",
      ].sort(),
    );
    const lines = faults.map((fault) => fault.line ?? 0);
    expect(lines).toEqual(lines.toSorted((left, right) => left - right));
  });

  it("says what to do about each", () => {
    const messages = faultsOf(manyFaults).map((fault) => fault.message);
    expect(messages).toContain("Unknown key descripton, did you mean description?");
    expect(messages).toContain("There is no role backed, did you mean backend?");
    expect(messages).toContain("Unknown key Id, did you mean id?");
    expect(messages).toContain("VERSION is written 1.10 but read as 1.1: put it in quotes.");
    expect(messages).toContain('title must be text, not 5: put it in quotes, "5".');
    expect(messages.join("\n")).toContain("a -> b -> c -> a");
    for (const message of messages) expect(message).toMatch(/^\S.*[.?]$/s);
  });

  it("says once per line that a value needs quotes, and how to write a source", () => {
    const unquoted = "name: p\ntasks:\n  - id: a\n    run: echo a: b: c\n";
    expect(faultsOf(unquoted).map(({ line, message }) => [line, message])).toEqual([
      [4, "Quote this value: it contains `: `, which YAML reads as a key."],
    ]);
    const bare = (source: string) => faultsOf(`name: p\nsource: ${source}\ntasks: [{ id: a, run: x }]\n`)[0]!.message;
    expect(bare("./seed")).toBe('source must be a mapping or empty, not "./seed": write source: { path: ./seed }.');
    expect(bare("https://example.com/a.git")).toContain("write source: { git: https://example.com/a.git }.");
  });

  it("has the same faults as JSON, with lines, and as a value, without", () => {
    const value = { name: "p", tasks: [{ id: "a", run: "x", dependsOn: ["b"] }, { id: "b" }] };
    expect(places(parse(JSON.stringify(value, null, 1), "json").faults)).toEqual(["11 no-work tasks[1]"]);
    const faults = parsePlanValue(value, { baseDir: null, env: {} }).faults;
    expect(places(faults)).toEqual(["null no-work tasks[1]"]);
  });

  it("names every cycle that shares no task with another, and no cycle for a task that depends on itself", () => {
    const task = (id: string, on: string): string => `  - { id: ${id}, run: x, dependsOn: [${on}] }\n`;
    const text = `name: p\ntasks:\n${task("a", "b")}${task("b", "a")}${task("c", "d")}${task("d", "c")}${task("e", "e")}`;
    const faults = faultsOf(text);
    expect(places(faults)).toEqual([
      "3 cycle tasks[0].dependsOn[0]",
      "5 cycle tasks[2].dependsOn[0]",
      "7 self-dependency tasks[4].dependsOn[0]",
    ]);
    expect(faults[0]?.message).toContain("a -> b -> a");
  });

  it.each([
    ["", "1 wrong-type "],
    ["[]", "1 wrong-type "],
    ["name: p", "1 no-tasks tasks"],
    ["name: p\ntasks:", "2 no-tasks tasks"],
    ["name: p\ntasks: []", "2 no-tasks tasks"],
    ["tasks: [{ id: a, run: x }]", "1 missing name"],
    [withTask("").replace("name: p", `name: ${"x".repeat(81)}`), "1 invalid name"],
    [withTask("gates: false"), "5 wrong-type gates"],
    [withTask("    timeout: 0s"), "5 bad-duration tasks[0].timeout"],
    [withTask("    timeout: 600h"), "5 bad-duration tasks[0].timeout"],
    [withTask("    timeout: 5m 3s"), "5 bad-duration tasks[0].timeout"],
    [withTask("    writes: [src, '!docs/**']"), "5 bad-glob tasks[0].writes[1]"],
    [withTask("    writes: ['src/@(a|b).ts']"), "5 bad-glob tasks[0].writes[0]"],
    [withTask("    writes: ['src/(a|b).ts']"), "5 bad-glob tasks[0].writes[0]"],
    [withTask("    writes: ['src/{1..9}.ts']"), "5 bad-glob tasks[0].writes[0]"],
    [withTask(`    writes: ['${"a".repeat(1_001)}']`), "5 bad-glob tasks[0].writes[0]"],
    [withTask("    writes: ['C:/x']"), "5 escaping-glob tasks[0].writes[0]"],
    [withTask("    writes: ['a/../../b']"), "5 escaping-glob tasks[0].writes[0]"],
    [withTask("  - { id: B, run: x }"), "5 invalid tasks[1].id"],
    [withTask("  - { id: b, instructions: go }"), "5 missing tasks[1].agent"],
    [withTask("  - { id: b, agent: backend, instructions: go }"), "5 no-runtime tasks[1].agent"],
    [withTask("context: [{ file: ../outside.md }]"), "5 escaping-file context[0].file"],
    [withTask("context: [{ file: /etc/hostname }]"), "5 escaping-file context[0].file"],
    [withTask("context: [{ file: link.md }]"), "5 escaping-file context[0].file"],
    [withTask("context: [{ file: empty.md }]"), "5 invalid context[0].file"],
    [withTask("context: [{ file: . }]"), "5 missing-file context[0].file"],
    [withTask("source: { git: 'ext::sh -c x' }"), "5 invalid source.git"],
    [withTask("source: { git: --upload-pack=x }"), "5 invalid source.git"],
    [withTask("source: { path: empty.md }"), "5 missing-source source.path"],
    [withTask("agents: { default: { runtime: builtin } }"), "5 missing agents.default.model"],
    [withTask("agents: { 'x y': { runtime: command, command: z } }"), '5 invalid agents["x y"]'],
    [withTask("env: { __proto__: x }"), "5 unknown-key env.__proto__"],
    [withTask("__proto__: { polluted: true }"), "5 unknown-key __proto__"],
    [withTask("network: { allow: ['http://x'] }"), "5 invalid network.allow[0]"],
    ["name: [", "1 syntax "],
    ["name: p\n\ttasks: x", "2 syntax "],
    ["name: p\n---\nname: q", "2 syntax "],
    ["name: &a [*a]", "1 syntax "],
    ["name: *nothing", "1 syntax "],
  ])("finds the fault of %j", (text, place) => {
    expect(places(faultsOf(text))).toContain(place);
  });

  it("refuses invalid JSON, and duplicate keys in it", () => {
    expect(places(parse('{\n "name": "p",\n}', "json").faults)).toEqual(["3 syntax "]);
    const twice = '{ "name": "p",\n "name": "q",\n\t"tasks": [{ "id": "a", "run": "x" }] }';
    expect(places(parse(twice, "json").faults)).toEqual(["2 duplicate-key name"]);
  });

  it("stops an alias bomb before it is written out, and text nested without end", () => {
    const levels = Array.from(
      { length: 12 },
      (_, index) =>
        `  l${index}: &l${index} [${Array(9)
          .fill(index ? `*l${index - 1}` : "x")
          .join(", ")}]`,
    );
    const bomb = `name: p\nx-bomb:\n${levels.join("\n")}\ntasks: []`;
    expect(faultsOf(bomb).map((fault) => fault.code)).toEqual(["too-large"]);
    expect(faultsOf(`${bomb}\nname: q`).map((fault) => fault.code)).toEqual(["too-large", "duplicate-key"]);
    expect(faultsOf(`x-one: &one 1\nx-many:\n${"  - *one\n".repeat(5_001)}`)[0]).toMatchObject({
      code: "too-large",
      message: "This plan has more than 5000 aliases: use fewer.",
    });
    expect(faultsOf(`x-deep: ${"[".repeat(50_000)}`)[0]?.code).toBe("syntax");
    expect(faultsOf(`name: ${"[".repeat(100)}${"]".repeat(100)}`).map((fault) => fault.code)).toContain("too-large");
    const deep = JSON.parse(`{"name":${"[".repeat(5_000)}${"]".repeat(5_000)}}`);
    expect(parsePlanValue(deep, { baseDir: null, env: {} }).faults.map((fault) => fault.code)).toContain("too-large");
  });

  it("lists a hundred faults of syntax, and how many more there are", () => {
    const faults = faultsOf("a: b: c\n".repeat(3_000));
    expect(faults).toHaveLength(101);
    expect(faults.at(-1)).toMatchObject({
      code: "syntax",
      message: expect.stringMatching(/^There are \d+ more faults like these: fix the first ones\.$/),
    });
  });

  it("finds the last quote opened before each place, and every repeated key", () => {
    expect(faultsOf('name: "a"\ntasks:\n  - id: "b\n')[0]).toMatchObject({
      line: 3,
      message: "The quote opened on this line is never closed.",
    });
    const twice = faultsOf("x-a: [{ b: 1, b: 2, ? { c: 1, c: 2 } : 3 }]\nx-a: 1\nx-a: 2");
    expect(twice.filter(({ code }) => code === "duplicate-key").map(({ line, path }) => [line, path])).toEqual([
      [1, "x-a[0].b"],
      [1, expect.stringMatching(/\.c$/)],
      [2, "x-a"],
      [3, "x-a"],
    ]);
  });

  it.each([
    ["brackets", "[".repeat(9_000) + "]".repeat(9_000)],
    ["objects", '{"a":'.repeat(9_000)],
    ["list marks", "- ".repeat(9_000)],
    ["indents", Array.from({ length: 400 }, (_, level) => `${" ".repeat(level)}a:\n`).join("")],
  ])("refuses text nested in %s before it can exhaust the stack", (_, text) => {
    for (const format of ["yaml", "json"] as const)
      expect(parse(text, format).faults).toEqual([
        { code: "syntax", path: "", line: null, message: "The plan is nested too deeply to be read." },
      ]);
  });

  it("does not take the brackets of a script for nesting", () => {
    const colours = Array.from({ length: 300 }, (_, at) => `      printf '\\033[${at}m - [ - {'`).join("\n");
    const text = `name: p\ntasks:\n  - id: a\n    run: |\n${colours}\n`;
    expect(parse(text, "yaml").faults).toEqual([]);
  });

  it("says why a plan file cannot be read", async () => {
    const missing = await loadPlanFile(join(folder, "nope.yaml"), { env: {} });
    expect(missing.faults[0]).toMatchObject({ code: "missing-file", message: expect.stringContaining("no such file") });
    const directory = await loadPlanFile(folder, { env: {} });
    expect(directory.faults[0]?.message).toContain("it is a folder");
  });
});

describe("common mistakes in plans", () => {
  it("names the line in which an open quote begins", () => {
    const { faults } = parse('name: p\ntasks:\n  - id: a\n    run: "echo hi\n  - id: b\n    run: ls\n');
    expect(faults).toMatchObject([{ code: "syntax", line: 4, message: expect.stringContaining("quote") }]);
  });

  it.each([
    ['{"name": "p",\n "tasks": [],\n}\n', 3],
    ['{"name": "p"\n "tasks": []}\n', 2],
    ['{"name": "p",\n "tasks": [\n', 2],
    ['{"name": "p",\n"tasks": [}\n]}', 2],
  ])("names the line of what is no JSON in %j, in one line", (text, line) => {
    const { faults } = parse(text, "json");
    expect(faults).toMatchObject([{ code: "syntax", line }]);
    expect(faults[0]!.message).not.toMatch(/\n|position/);
  });

  it("does not mistake words for an acceptance check", () => {
    expect(faultsOf(withTask("    acceptance: [npm test]\n"))).toMatchObject([
      { code: "wrong-type", path: "tasks[0].acceptance[0]", line: 5, message: expect.stringContaining("{ check: … }") },
    ]);
  });

  it("warns about an acceptance in words that nobody reads", () => {
    const words = withTask("    acceptance: [{ text: is friendly }]\n");
    expect(parse(words).warnings).toEqual([expect.stringContaining("task a is checked by nobody")]);
    expect(parse(`${words}agents: { critic: { runtime: command, command: x } }\n`).warnings).toEqual([]);
    expect(parse(withTask("    acceptance: [{ text: is friendly, check: ls }]\n")).warnings).toEqual([]);
  });
});
