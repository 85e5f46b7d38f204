import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { eachBuildFixture } from "../support/build-fixture.ts";
import { requires } from "../support/require.ts";

// No agent can plant files that the next one reads as instructions (W5, W12).

const waitFor = (path: string): string => `until test -e ${path}; do sleep 0.05; done`;
const ungated = { testing: false, critic: false, integration: false, maxFixRounds: 0 };

describe("files that agents take as instructions", () => {
  const fixture = eachBuildFixture();
  let folder = "";
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "wavesmith-planted-"));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  const build = async (plan: Record<string, unknown>) =>
    fixture.until(await fixture.request({ gates: ungated, ...plan }, { planFolder: folder }));
  const attempts = (buildId: string) => fixture.app.store.attempts.list({ buildId }, { by: "createdAt" });

  it.each([
    ["that is new", "echo obey > AGENTS.md", "AGENTS.md"],
    ["deep in the tree, in another case", "mkdir -p src/.Claude; echo {} > src/.Claude/settings.json", "src/.Claude"],
    ["that is a link", "mkdir lure; echo {} > lure/settings.json; ln -s lure .claude", ".claude"],
  ])("are refused from a task that did not declare them, even without gates: one %s", async (_, run, named) => {
    const built = await build({ tasks: [{ id: "a", run: `echo a > a; ${run}`, retries: 0 }] });
    expect(built.status).toBe("failed");
    const [attempt] = await attempts(built.id);
    expect(attempt).toMatchObject({ outcome: "refused", reason: expect.stringContaining(named) });
    expect(attempt!.reason).toContain("names it in its `writes`");
    // W8: its work is on its branch, which is not joined.
    expect(await fixture.git("ls-tree", "-r", "--name-only", `wavesmith/${built.id}/task/a/1`)).toContain(named);
    expect(await fixture.git("ls-tree", "-r", "--name-only", "main")).toBe("");
  });

  it("may not be changed, moved, removed or hidden behind a link", async () => {
    mkdirSync(join(folder, "seed/docs"), { recursive: true });
    writeFileSync(join(folder, "seed/AGENTS.md"), "be kind\nand careful\n");
    writeFileSync(join(folder, "seed/docs/guide.md"), "guide\n");
    symlinkSync("docs/guide.md", join(folder, "seed/CLAUDE.md"));
    const built = await build({
      source: { path: "seed" },
      limits: { maxParallelTasks: 4, tasksPerAgentPerWave: 4 },
      tasks: [
        { id: "change", run: "echo obey >> AGENTS.md", retries: 0 },
        { id: "move", run: "mv AGENTS.md notes.txt", retries: 0 },
        { id: "remove", run: "rm AGENTS.md", retries: 0 },
        { id: "behind", run: "echo obey >> docs/guide.md", writes: ["docs/*.md"], retries: 0 },
      ],
    });
    const made = await attempts(built.id);
    expect(made.map(({ outcome }) => outcome)).toEqual(["refused", "refused", "refused", "refused"]);
  });

  it("are accepted from a task whose writes name them, and shown to the critic", async () => {
    const built = await build({
      gates: { ...ungated, critic: {} },
      tasks: [
        { id: "wide", writes: ["**"], run: "echo obey > AGENTS.md; echo a > a", retries: 1 },
        {
          id: "named",
          writes: ["CLAUDE.md", ".claude/**"],
          run: "mkdir .claude; echo {} > .claude/settings.json; echo be kind > CLAUDE.md",
        },
      ],
    });
    const tasks = await fixture.tasks(built.id);
    expect(tasks.wide).toBe("failed");
    const again = await build({
      tasks: [{ id: "named", writes: ["CLAUDE.md"], run: "echo be kind > CLAUDE.md" }],
      gates: { ...ungated, critic: {} },
    });
    expect([again.status, again.reason]).toEqual(["completed", null]);
    const run = await fixture.app.store.gateRuns.get({ buildId: again.id, gate: "critic" });
    const findings = await fixture.app.store.findings.list({ gateRunId: run.id });
    expect(findings).toMatchObject([{ rule: "agent-file", severity: "low", file: "CLAUDE.md" }]);
  });

  it("are refused from a fix if no task of its wave names them", async () => {
    const built = await build({
      gates: { ...ungated, testing: { command: "test -e fixed && echo 1..1 && echo ok 1" }, maxFixRounds: 1 },
      agents: { fixer: { runtime: "command", command: "echo obey > GEMINI.md; touch fixed" } },
      tasks: [{ id: "a", run: "echo a > a" }],
    });
    expect(built.status).toBe("failed");
    const fix = (await attempts(built.id)).find(({ kind }) => kind === "fix");
    expect(fix).toMatchObject({ outcome: "refused", reason: expect.stringContaining("GEMINI.md") });
  });

  it("in a shared tree are found before the join, even where git ignores them", async () => {
    const built = await build({
      isolation: "shared",
      limits: { maxParallelTasks: 4, tasksPerAgentPerWave: 4 },
      tasks: [
        {
          id: "a",
          writes: ["a/**"],
          retries: 0,
          run: `mkdir -p a .claude; echo .claude > a/x; echo '.claude/' >> .git/info/exclude; echo {} > .claude/settings.json; touch a/done; ${waitFor("b/done")}`,
        },
        { id: "b", writes: ["b/**"], retries: 0, run: `${waitFor("a/done")}; mkdir b; touch b/done` },
      ],
    });
    expect(built.status).toBe("failed");
    for (const attempt of await attempts(built.id)) {
      expect(attempt).toMatchObject({ outcome: "refused", reason: expect.stringContaining(".claude/settings.json") });
      expect(attempt.reason).toContain("in the tree that its wave shares");
    }
    expect(await fixture.git("ls-tree", "-r", "--name-only", "main")).toBe("");
  });

  it("do not include those of installed packages, and a shared tree may have the source's own files", async () => {
    mkdirSync(join(folder, "seed"));
    writeFileSync(join(folder, "seed/AGENTS.md"), "be kind\n");
    writeFileSync(join(folder, "seed/.gitignore"), "node_modules/\n");
    const built = await build({
      source: { path: "seed" },
      isolation: "shared",
      tasks: [
        { id: "a", writes: ["a"], run: "mkdir -p node_modules/p; echo x > node_modules/p/AGENTS.md; echo a > a" },
      ],
    });
    expect([built.status, built.reason]).toEqual(["completed", null]);
  });

  it("include configuration of a shared repository that would make git run a program", async () => {
    const built = await build({
      isolation: "shared",
      tasks: [{ id: "a", writes: ["a"], retries: 0, run: "git config core.fsmonitor ./evil; echo a > a" }],
    });
    expect(built.status).toBe("failed");
    expect((await attempts(built.id))[0]).toMatchObject({
      outcome: "refused",
      reason: expect.stringContaining(".git/config"),
    });
  });
});

describe.runIf(requires("docker"))("where each job has its own user (docker)", () => {
  const fixture = eachBuildFixture({ sandbox: "docker" });

  it("lets no agent put anything above the trees, or into a future home", async () => {
    const places = "../../../CLAUDE.md ../../AGENTS.md ../GEMINI.md ../../../homes/CLAUDE.md";
    const plant = `for place in ${places}; do if echo obey > $place; then echo $place >> planted; fi; done 2> denied`;
    const build = await fixture.build({ gates: ungated, tasks: [{ id: "a", run: `${plant}; echo a > a` }] });
    expect([build.status, build.reason]).toEqual(["completed", null]);
    expect(await fixture.git("ls-tree", "--name-only", "main")).toBe("a\ndenied\n");
    expect((await fixture.git("show", "main:denied")).match(/cannot create/g)).toHaveLength(4);
  });
});

describe("without isolation between jobs (local-unsafe)", () => {
  const sandbox = "local-unsafe";
  const fixture = eachBuildFixture({ sandbox });

  it("removes anything above the trees, or in a future home, before the next agent starts", async () => {
    const build = await fixture.build({
      gates: ungated,
      agents: {
        reader: {
          runtime: "command",
          command: "ls -A ../../.. ../.. .. > seen; test ! -e ../../../homes/$(basename $(dirname $PWD))/b/.claude",
        },
      },
      tasks: [
        {
          id: "a",
          run: "echo obey | tee ../../../CLAUDE.md ../../AGENTS.md > ../GEMINI.md; home=../../../homes/$(basename $(dirname $PWD))/b; mkdir -p $home/.claude; echo {} > $home/.claude/settings.json; echo a > a",
        },
        { id: "b", dependsOn: ["a"], agent: "reader", instructions: "look", retries: 0 },
      ],
    });
    expect([build.status, build.reason]).toEqual(["completed", null]);
    expect(await fixture.git("show", "main:seen")).not.toMatch(/CLAUDE|AGENTS|GEMINI/);
    expect(fixture.warnings.join("\n")).toContain("CLAUDE.md lay above the trees of agents");
    const { guest } = (await fixture.app.ports.driver(sandbox).find(fixture.projectId as never))!;
    expect(await guest.stat(`homes/${build.id}/b/.claude`)).toBeNull();
  });
});
