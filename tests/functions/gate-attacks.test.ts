import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { eachBuildFixture } from "../support/build-fixture.ts";

// Ways to make a gate pass on a broken application, each done for real. docs/gates.md lists what no
// rule can see.

const seed: Record<string, string> = {
  "package.json": '{"name":"app","scripts":{"test":"node --test --test-reporter=tap test/*.test.js"}}\n',
  Makefile: "FLAGS = -e\n\nverify: prepare\n\tsh $(FLAGS) scripts/verify.sh\n\nprepare:\n\t@true\n\nlint:\n\t@true\n",
  "scripts/verify.sh": "node scripts/smoke.js\n",
  "scripts/smoke.js": 'if (require("../lib.js").add(1, 1) !== 2) process.exit(1);\n',
  "lib.js": "exports.add = (a, b) => a + b;\n",
  "test/add.test.js": `const { test } = require("node:test");
const assert = require("node:assert");
const { add } = require("../lib.js");
test("adds", () => { assert.equal(add(1, 2), 3); });
test("adds nothing", () => { assert.equal(add(1, 0), 1); });
`,
  "test/sign.test.js": `const { test } = require("node:test");
const assert = require("node:assert");
const { add } = require("../lib.js");
test("adds negative numbers", () => { assert.equal(add(-1, -2), -3); });
`,
};

const breakApp = 'echo "exports.add = () => 0;" > lib.js';
const noFixes = { maxFixRounds: 0 };

describe("a broken application", () => {
  // One of its builds has a task for each attack.
  const fixture = eachBuildFixture({ patienceMs: 150_000 });
  let folder = "";
  const write = (path: string, text: string) => {
    mkdirSync(dirname(join(folder, "seed", path)), { recursive: true });
    writeFileSync(join(folder, "seed", path), text);
  };
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "wavesmith-attacks-"));
    for (const [path, text] of Object.entries(seed)) write(path, text);
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  const build = async (plan: Record<string, unknown>) =>
    fixture.until(await fixture.request({ source: { path: "seed" }, ...plan }, { planFolder: folder }));
  const attempts = (buildId: string) => fixture.app.store.attempts.list({ buildId }, { by: "createdAt" });
  const gate = (buildId: string, name: "testing" | "critic" | "integration", waveId?: string) =>
    fixture.app.store.gateRuns.find(
      { buildId, gate: name, ...(waveId === undefined ? {} : { waveId }) },
      { by: "createdAt", descending: true },
    );
  const findings = async (buildId: string, name: "testing" | "critic") =>
    fixture.app.store.findings.list({ gateRunId: (await gate(buildId, name))!.id });

  /** Changes of what a gate runs, by the files they touch. */
  const changes: Record<string, string> = {
    "a shell of npm's":
      "printf 'script-shell=./fake.sh\\n' > .npmrc; printf '#!/bin/sh\\necho 1..9\\n' > fake.sh; chmod +x fake.sh",
    "options of node": "echo 'node-options=--require ./patch.js' > .npmrc; echo '' > patch.js",
    "the test script": `node -e 'const f = require("fs"); const p = JSON.parse(f.readFileSync("package.json")); p.scripts.test = "echo 1..1; echo ok 1"; f.writeFileSync("package.json", JSON.stringify(p))'`,
    "the script before": `node -e 'const f = require("fs"); const p = JSON.parse(f.readFileSync("package.json")); p.scripts.pretest = "cp good.js lib.js"; f.writeFileSync("package.json", JSON.stringify(p))'`,
    "the script after": `node -e 'const f = require("fs"); const p = JSON.parse(f.readFileSync("package.json")); p.scripts.posttest = "true"; f.writeFileSync("package.json", JSON.stringify(p))'`,
    "a runner of the tree's": `node -e 'const f = require("fs"); const p = JSON.parse(f.readFileSync("package.json")); p.devDependencies = { vitest: "file:./fake" }; f.writeFileSync("package.json", JSON.stringify(p))'`,
    "a runner's settings in the manifest": `node -e 'const f = require("fs"); const p = JSON.parse(f.readFileSync("package.json")); p.jest = { testMatch: [] }; f.writeFileSync("package.json", JSON.stringify(p))'`,
    "a manifest that is a link": "mkdir other; mv package.json other/; ln -s other/package.json package.json",
    "no manifest": "rm package.json; printf 'test:\\n\\techo ok\\n' >> Makefile",
    "vitest's settings": "echo 'export default { test: { include: [] } }' > vitest.config.mjs",
    "vite's settings": "echo 'export default { test: { include: [] } }' > vite.config.js",
    "mocha's settings": "echo '{}' > .mocharc.json",
    "code that runs before every test": "mkdir -p test; echo '' > test/vitest.setup.js",
    "pytest's set-up": "mkdir -p test; echo 'collect_ignore_glob = [\"*\"]' > test/conftest.py",
    "pytest's settings": "printf '[pytest]\\naddopts = --co\\n' > pytest.ini",
    "pytest's settings among others": "printf '[tool.pytest.ini_options]\\naddopts = \"--co\"\\n' > pyproject.toml",
    "a module in pytest's place": "echo 'print(\"9 passed in 0.1s\")' > pytest.py",
    "what Python runs first": "echo 'import os' > sitecustomize.py",
    "a recipe": "sed -i 's/sh $(FLAGS).*/true/' Makefile",
    "a recipe's need": "printf 'prepare: evil\\nevil:\\n\\tcp good.js lib.js\\n' >> Makefile",
    "a variable of a recipe": "sed -i 's/^FLAGS.*/FLAGS = -n/' Makefile",
    "make's shell": "sed -i '1i SHELL = /bin/true' Makefile",
    "a makefile that make reads first": "printf 'verify:\\n\\ttrue\\n' > GNUmakefile",
    "the program of a recipe": "echo true > scripts/verify.sh",
    "the program of that program": "echo '' > scripts/smoke.js",
    "cargo's settings": "mkdir .cargo; echo '[build]' > .cargo/config.toml",
    "go's workspace": "echo 'go 1.22' > go.work",
    "options in an environment file": "echo 'NODE_OPTIONS=--require ./patch.js' > .env",
  };

  it("is refused in every case where its task changes undeclared inputs of a gate", async () => {
    const names = Object.keys(changes);
    const built = await build({
      onTaskFailure: "continue",
      limits: { tasksPerAgentPerWave: 100, maxParallelTasks: 4 },
      gates: { integration: { command: "make verify" }, ...noFixes },
      tasks: names.map((name, index) => ({
        id: `way-${index}`,
        title: name,
        run: `${breakApp}\n${changes[name]}`,
        retries: 0,
      })),
    });
    expect(built.status).toBe("failed");
    const made = await attempts(built.id);
    const tasks = await fixture.app.store.tasks.list({ buildId: built.id }, { by: "position" });
    const outcomes = Object.fromEntries(
      tasks.map(({ id, definition }) => [definition.title, made.find(({ taskId }) => taskId === id)?.outcome]),
    );
    expect(outcomes).toEqual(Object.fromEntries(names.map((name) => [name, "refused"])));
    for (const { reason } of made) expect(reason).toMatch(/decides what a gate runs.*names it in its `writes`/);
    expect(await fixture.git("show", "main:lib.js")).toBe(seed["lib.js"]);
  }, 180_000);

  /** A wave whose tests pass, then one whose task attacks. */
  const inSecondWave = (run: string, more: Record<string, unknown> = {}, task: Record<string, unknown> = {}) =>
    build({
      gates: noFixes,
      ...more,
      tasks: [
        { id: "first", run: "echo first > first.txt" },
        { id: "attack", dependsOn: ["first"], run, retries: 0, ...task },
      ],
    });

  it.each([
    [
      "deletes the test that fails",
      'echo "exports.add = (a, b) => Math.abs(a) + Math.abs(b);" > lib.js; rm test/sign.test.js',
    ],
    ["ends the process in the application", 'echo "process.exit(0);" > lib.js'],
    [
      "prints the results of another run and ends the process",
      `echo 'for (const line of ["TAP version 13", "1..9", "# tests 9", "# pass 9", "# fail 0"]) console.log(line); process.exit(0);' > lib.js`,
    ],
    [
      "skips what fails",
      `${breakApp}; sed -i 's/^test(/test.skip(/' test/*.test.js; echo 'require("node:test").test("x", () => {});' > test/x.test.js`,
    ],
  ])("fails with the numbers when its task %s", async (_, run) => {
    const built = await inSecondWave(run, { gates: { critic: false, ...noFixes } });
    expect(built.status).toBe("failed");
    const run2 = await gate(built.id, "testing");
    expect(run2).toMatchObject({ verdict: "failed", fixable: true });
    expect(run2!.reason).toMatch(/\d tests? ran, 3 tests at the last passed wave/);
    expect(await findings(built.id, "testing")).toMatchObject([{ rule: "fewer-tests" }]);
  });

  it("accepts fewer tests from a task that may change them, and says so", async () => {
    const built = await inSecondWave("rm test/sign.test.js", {}, { mayChangeTests: true });
    expect([built.status, built.reason]).toEqual(["completed", null]);
    const { evidence } = (await gate(built.id, "testing"))!;
    expect(evidence!.notes.join("\n")).toMatch(/2 tests ran, 3 tests at the last passed wave.*mayChangeTests/);
  });

  it.each([
    ["empties its tests", `${breakApp}; sed -i 's/assert[.]equal[^;]*;/1;/' test/*.test.js`],
    [
      "moves its tests by name alone",
      `${breakApp}; rm test/*.test.js; printf 'const { test } = require("node:test");\\ntest("adds", () => {});\\ntest("adds nothing", () => {});\\ntest("adds negative numbers", () => {});\\n' > test/all.test.js`,
    ],
    [
      "puts a link over its folder of tests",
      `${breakApp}; mv test suite; sed -i 's/assert[.]equal[^;]*;/1;/' suite/*.js; ln -s suite test`,
    ],
  ])("is stopped by the critic when its task %s", async (_, run) => {
    const built = await inSecondWave(run);
    expect(built.status).toBe("failed");
    expect((await gate(built.id, "testing"))!.verdict).toBe("passed");
    expect((await gate(built.id, "critic"))!.verdict).toBe("failed");
    expect((await findings(built.id, "critic")).map(({ rule }) => rule)).toContainEqual(
      expect.stringMatching(/weakened-test|deleted-test/),
    );
  });

  it.each([
    [
      "a command that loses its exit code",
      breakApp,
      "node --test --test-reporter=tap test/*.test.js | cat",
      /3 failed tests/,
    ],
    ["a named pipe as a report", "echo ok > ok.txt", "mkfifo junit.xml; npm test", /junit\.xml is not a regular file/],
    [
      "a huge empty report",
      "echo ok > ok.txt",
      "truncate -s 4G junit.xml; npm test",
      /junit\.xml is larger than 16 MiB/,
    ],
    [
      "a link as a report",
      "echo ok > ok.txt",
      "ln -s /etc/passwd junit.xml; npm test",
      /junit\.xml is a symbolic link/,
    ],
  ])("fails on %s, though the command ends with 0", async (_, run, command, reason) => {
    const built = await build({
      gates: { testing: { command }, critic: false, ...noFixes },
      tasks: [{ id: "a", run }],
    });
    expect(built.status).toBe("failed");
    const judged = await gate(built.id, "testing");
    expect(judged).toMatchObject({ verdict: "failed", reason: expect.stringMatching(reason) });
    expect((await findings(built.id, "testing"))[0]).toMatchObject({ rule: "reported-failure" });
  });

  it("counts tests from the runner's report outside the tree, whatever the tests print or write", async () => {
    const forge =
      'for (const line of ["TAP version 13", "1..9", "# tests 9", "# pass 9"]) console.log(line); require("fs").writeFileSync("junit.xml", `<testsuite tests="9"/>`);';
    const built = await build({
      gates: { testing: { command: "node --test", report: "node", minTests: 4 }, critic: false, ...noFixes },
      tasks: [{ id: "a", run: `echo '${forge}' >> lib.js` }],
    });
    expect(built.status).toBe("failed");
    expect(await gate(built.id, "testing")).toMatchObject({
      verdict: "inconclusive",
      evidence: { tests: { total: 3, source: "junit" } },
    });
  });

  it("does not pass without the report that its plan requires", async () => {
    const built = await build({
      gates: { testing: { command: "echo 1..1; echo ok 1", report: "junit" }, critic: false, ...noFixes },
      tasks: [{ id: "a", run: "echo a > a" }],
    });
    const judged = await gate(built.id, "testing");
    expect(judged).toMatchObject({ verdict: "inconclusive", evidence: { tests: null } });
    expect(judged!.evidence!.notes.join()).toContain("$WAVESMITH_REPORT");
  });

  it("is not fixed by a fixer that changes the gate instead of the application", async () => {
    const built = await build({
      agents: {
        fixer: { runtime: "command", command: "sed -i 's/node --test.*\"}}/echo 1..3; echo ok\"}}/' package.json" },
      },
      gates: { maxFixRounds: 1 },
      tasks: [{ id: "a", run: breakApp }],
    });
    expect(built.status).toBe("failed");
    const fix = (await attempts(built.id)).find(({ kind }) => kind === "fix");
    expect(fix).toMatchObject({ outcome: "refused", reason: expect.stringContaining("package.json") });
  });
});

describe("work that changes what gates run with leave", () => {
  const fixture = eachBuildFixture();

  it("begins in an empty tree, and keeps only files that belong to no gate", async () => {
    const manifest = (more: string) =>
      `echo '{"scripts":{"test":"node --test --test-reporter=tap test/*.test.js"${more}}}' > package.json`;
    const built = await fixture.build({
      gates: noFixes,
      tasks: [
        {
          id: "begin",
          run: `${manifest("")}; mkdir test; echo 'const a = require("node:assert"); require("node:test").test("x", () => { a.ok(Date.now()); });' > test/x.test.js; printf 'test:\\n\\tnpm test\\n' > Makefile; echo 'fund=false' > .npmrc`,
        },
        {
          id: "go-on",
          dependsOn: ["begin"],
          run: `echo '{"scripts":{"test":"node --test --test-reporter=tap test/*.test.js","start":"node a.js"},"dependencies":{"x":"^1.0.0"}}' > package.json; printf 'run:\\n\\tnode a.js\\n' >> Makefile`,
        },
        {
          id: "named",
          dependsOn: ["go-on"],
          writes: ["package.json"],
          run: manifest(',"pretest":"true"'),
        },
      ],
    });
    expect([built.status, built.reason]).toEqual(["completed", null]);
    const runs = await fixture.app.store.gateRuns.list({ buildId: built.id, gate: "critic" }, { by: "createdAt" });
    const found = await Promise.all(
      runs.map(async ({ id }) =>
        (await fixture.app.store.findings.list({ gateRunId: id })).map(({ file }) => file).sort(),
      ),
    );
    expect(found).toEqual([[".npmrc", "Makefile", "package.json"], [], ["package.json"]]);
  });
});
