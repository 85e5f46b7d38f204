import { describe, expect, it } from "vitest";
import { buildFinished } from "../../src/api/build-result.ts";
import { statusJson } from "../../src/api/build-status.ts";
import { createHints } from "../../src/cli/output/hints.ts";
import { narrate } from "../../src/cli/view/narrate.ts";
import { briefText, planLines } from "../../src/cli/view/plan-lines.ts";
import { statusLines } from "../../src/cli/view/status-lines.ts";
import { summary } from "../../src/cli/view/summary.ts";
import { withFirstTask } from "../../src/domain/plan/merge-task.ts";
import { planWaves } from "../../src/domain/plan/wave-planner.ts";
import { parsePlanValue } from "../../src/plan/parse-plan.ts";
import { attempt, plan, view, wave } from "./cli-views.ts";

const planTask = parsePlanValue(
  { name: "p", tasks: [{ id: "plan", agent: "planner", run: "true" }] },
  { baseDir: null, env: {} },
).plan!.tasks[0]!;
const made = withFirstTask({ ...plan, description: "A shop\u001b[2J." }, planTask);
const brief = { text: "a shop\nthat sells", asks: true };
const asked = view({
  build: { plan: made, brief, status: "waiting" },
  waves: [wave({ status: "waiting", headSha: "c".repeat(40), taskKeys: ["plan"] })],
});
const planning = { ...asked.tasks[0]!, key: "plan", agent: "planner", definition: planTask, waveNumber: 1 };
const waiting = { ...asked, tasks: [{ ...planning, status: "completed" as const }, ...asked.tasks] };
const file = "/data/plans/bld_1.yaml";
const options = {
  ...{ repository: "/r", authority: "/r" },
  planFile: file,
  hints: createHints({ environment: {} }),
  now: new Date(0),
  interrupted: false,
};
const texts = (lines: readonly { text: string }[]): string => lines.map(({ text }) => text).join("\n");

describe("the waves that a plan would run", () => {
  const linesOf = (value: object): string[] => {
    const read = parsePlanValue({ name: "p", ...value }, { baseDir: null, env: {} }).plan!;
    return planLines(read, { waves: planWaves(read), criticalPath: [] });
  };
  const scripts = (...ids: string[]) => ids.map((id) => ({ id, run: "true" }));
  const lineOf = (lines: string[], key: string) => lines.find((line) => line.includes(` ${key} `));

  it("say why a task without dependencies waits", () => {
    const lines = linesOf({ tasks: scripts("a", "b", "c", "d") });
    expect(lineOf(lines, "d")).toMatch(/^wave 2 .*role default is full \(3 per wave\)$/);
    const clash = linesOf({
      tasks: [
        { ...scripts("a")[0], writes: ["x"] },
        { ...scripts("b")[0], writes: ["x"] },
      ],
    });
    expect(lineOf(clash, "b")).toMatch(/^wave 2 .*writes overlap with wave 1$/);
    const shared = linesOf({ isolation: "shared", tasks: scripts("a", "b") });
    expect(lineOf(shared, "b")).toMatch(/a task without `writes` is alone in its wave$/);
  });

  it("name only a task's dependencies if they are why it waits", () => {
    const lines = linesOf({ tasks: [...scripts("a"), { ...scripts("b")[0], dependsOn: ["a"] }] });
    expect(lineOf(lines, "b")).toMatch(/needs a$/);
  });
});

describe("a drafted plan that waits for approval", () => {
  it("is shown in full at the end of the command, with its key figures", () => {
    const output = texts(summary(waiting, options));
    expect(output).toContain("shop: 4 tasks of 4 roles in 3 waves");
    expect(output).toMatch(/wave 2 {2}db\b/);
    expect(output).not.toMatch(/needs plan/);
    expect(output).toContain("critical path (3 tasks): db → api → docs");
    expect(output).toContain(`the whole plan, to read and edit: ${file}`);
    expect(output).toContain("wavesmith approve bld_1, then wavesmith resume bld_1");
    expect(output).toContain(`wavesmith resume bld_1 --plan ${file}`);
    expect(output).toContain('wavesmith reject bld_1 --reason "…", then wavesmith retry bld_1');
    expect(output).toContain("A shop.");
    expect(output).not.toContain("\u001b");
  });

  it("is what status shows, with the brief", () => {
    const output = texts(statusLines(waiting, options));
    expect(output).toContain("  brief: a shop that sells");
    expect(output).toContain("its plan is waiting for approval");
    expect(output).toContain(file);
    expect(statusJson(waiting, options)).toMatchObject({ brief: brief.text, planFile: file });
    expect(buildFinished(waiting, "/r", file)).toMatchObject({ status: "waiting", planFile: file });
  });

  it("is gone once the wave is another one, or if the plan was given", () => {
    const later = view({
      build: { plan: made, brief, status: "waiting" },
      waves: [wave({ status: "waiting", headSha: "c".repeat(40), taskKeys: ["db"] })],
    });
    const given = view({ build: { status: "waiting" }, waves: later.waves });
    for (const other of [later, given]) {
      expect(texts(summary(other, options))).not.toContain(file);
      expect(texts(statusLines(other, options))).toContain("wave 1 is waiting for approval");
    }
  });

  it("is announced when the planner has ended", () => {
    const ended = attempt({ taskKey: "plan", role: "planner", changed: [] });
    const after = view({
      build: { plan: made, brief },
      waves: [wave({ taskKeys: ["plan"], status: "joining", attempts: [ended] })],
    });
    expect(texts(narrate(null, after))).toContain("plan: done in 2.0s (planner), a plan of 4 tasks");
  });

  it("shows every fault of a refused plan on its own line", () => {
    const reason = "its plan has 2 faults:\ntasks[0].id: wrong\nsecrets: not yours";
    const failed = attempt({ taskKey: "plan", role: "planner", outcome: "failed", reason });
    const over = view({
      build: { plan: made, brief, status: "failed" },
      waves: [wave({ taskKeys: ["plan"], status: "failed", attempts: [failed] })],
    });
    const tasks = [{ ...planning, status: "failed" as const }];
    const output = texts(summary({ ...over, tasks }, { ...options, planFile: null }));
    expect(output).toContain("task plan failed: its plan has 2 faults:\n  tasks[0].id: wrong\n  secrets: not yours\n");
    expect(output).toContain("or, with your own plan: wavesmith resume bld_1 --plan FILE");
  });

  it("has a brief that is cut to a line", () => {
    expect(briefText(` a\n\tb  c\u001b[31m `)).toBe("a b c");
    expect(briefText("x".repeat(500))).toHaveLength(100);
  });
});
