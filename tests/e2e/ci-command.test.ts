import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { countJunit } from "../../src/gates/counts/junit.ts";
import { type CommandPlace, createCommandPlace } from "../support/command.ts";
import { builtDashboard } from "../support/dashboard.ts";

// `ci` as a CI system runs it.

describe("ci", { timeout: 240_000 }, () => {
  let place: CommandPlace;
  beforeAll(() => {
    place = createCommandPlace();
  });
  afterAll(() => place.close());

  it("ends with the build's exit code and leaves JUnit and a summary of its gates", async () => {
    const [report, summary] = [join(place.folder, "reports/junit.xml"), join(place.folder, "summary.md")];
    const failing = "echo 'a <b> & \"c\"'; exit 3";
    const plan = place.plan("shop", [{ id: "a", run: "echo a > a" }], { gates: { testing: { command: failing } } });
    const run = await place.with({ GITHUB_STEP_SUMMARY: summary }).run("ci", plan, "--junit", report);
    expect(run.code).toBe(1);
    const xml = readFileSync(report, "utf8");
    expect(countJunit([{ xml }])).toMatchObject({ failed: 1 });
    expect(xml).toContain("a &lt;b&gt; &amp; &quot;c&quot;");
    expect(readFileSync(summary, "utf8")).toMatch(
      /^### shop: build failed\n[\s\S]*\| 1 \| blocked \| 1 \| testing failed/,
    );
  });

  it("reports why a task failed, with the end of its output", async () => {
    const [report, summary] = [join(place.folder, "failed.xml"), join(place.folder, "failed.md")];
    const script = "printf '\\033[31mno <door>\\033[0m\\n'; exit 3";
    const plan = place.plan("breaks", [
      { id: "a", run: script, retries: 0 },
      { id: "b", run: "exit 4", retries: 0 },
    ]);
    const run = await place.with({ GITHUB_STEP_SUMMARY: summary }).run("ci", plan, "--junit", report);
    expect(run.code).toBe(1);
    expect(readFileSync(report, "utf8")).toContain('<failure message="run exited with 3">no &lt;door&gt;</failure>');
    const text = readFileSync(summary, "utf8");
    expect(text).toContain("**wave 1, task a**: run exited with 3\n\n```\nno <door>\n```\n");
    expect(text).toMatch(/\*\*wave 1, task b\*\*: run exited with 4\n+$/);
  });

  it("does the same for a build on a server, with a key that may only build", async () => {
    await builtDashboard(); // Otherwise the server creates it first.
    const serve = place.start("serve", "--port", "0", "--json");
    await serve.said("serve.started");
    const url = /"url":"([^"]+)"/.exec(serve.text())![1]!;
    const { text } = await place.run("keys", "create", "ci", "--scope", "build", "--json");
    const key = /wsk_[\w-]+/.exec(text)![0];
    const [report, summary] = [join(place.folder, "served.xml"), join(place.folder, "served.md")];
    const onServer = createCommandPlace({
      ...{ WAVESMITH_SERVER: url, WAVESMITH_KEY: key, GITHUB_STEP_SUMMARY: summary },
    });
    for (const [name, exitCode] of Object.entries({ passes: 0, fails: 3 })) {
      const gates = { testing: { command: `echo 1..1; echo ok 1 - a; exit ${exitCode}` } };
      const plan = place.plan(name, [{ id: "a", run: "echo a > a" }], { gates });
      const run = await onServer.runIn(onServer.folder, "ci", plan, "--junit", report);
      expect(run.code).toBe(exitCode === 0 ? 0 : 1);
      expect(countJunit([{ xml: readFileSync(report, "utf8") }])).toMatchObject({ failed: exitCode === 0 ? 0 : 1 });
    }
    expect(readFileSync(summary, "utf8")).toMatch(/^### passes: build completed\n[\s\S]*### fails: build failed\n/);
    onServer.close();
    serve.child.kill("SIGTERM");
    expect(await serve.ended).toBe(0);
  });

  it("writes nothing for a plan with faults, and ends with exit 2", async () => {
    const report = join(place.folder, "none.xml");
    const run = await place.run("ci", place.plan("bad", [{ id: "A!", run: "x" }]), "--junit", report);
    expect([run.code, existsSync(report)]).toEqual([2, false]);
  });
});
