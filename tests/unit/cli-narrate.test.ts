import { describe, expect, it } from "vitest";
import { createHints } from "../../src/cli/output/hints.ts";
import { narrate } from "../../src/cli/view/narrate.ts";
import { failureLines, placesIn, summary } from "../../src/cli/view/summary.ts";
import type { BuildView } from "../../src/coordinator/build/build-view.ts";
import { attempt, gate, moment, view, wave } from "./cli-views.ts";

const text = (before: BuildView | null, after: BuildView): string[] => narrate(before, after).map((line) => line.text);
const running = { db: { status: "running", waveNumber: 1, attempts: 1 } } as const;

describe("the lines about events of a build", () => {
  it("reports a wave's start with its tasks and their agents, once", () => {
    const after = view({ tasks: running, waves: [wave({})] });
    expect(text(view(), after)).toEqual(["wave 1: db (database)"]);
    expect(text(after, after)).toEqual([]);
  });

  it("says once that its sandbox accepts no more jobs, whatever its numbers do, and once that it does again", () => {
    const reason = (takes: number) => `its volume takes ${takes} MiB of at most 10 MiB`;
    const above = view({ sandboxTrouble: reason(11) });
    expect(text(view(), above)).toEqual([`its sandbox accepts no more jobs: ${reason(11)}`]);
    expect(text(above, view({ sandboxTrouble: reason(12) }))).toEqual([]);
    expect(text(above, view())).toEqual(["its sandbox accepts jobs again"]);
  });

  it("reports once what it waits for, whatever the numbers do, and again when it waits for something else", () => {
    const lines = (before: BuildView | null, why: string) => text(before, view({ waitsForSandbox: why }));
    const disk = (left: number) => `${left} MiB of disk are left, and 512 MiB are kept free`;
    const waiting = view({ waitsForSandbox: disk(80) });
    expect(lines(view(), disk(80))).toEqual([expect.stringContaining(`waiting for a free sandbox slot: ${disk(80)}`)]);
    expect(lines(waiting, disk(79))).toEqual([]);
    expect(lines(waiting, "2 of at most 2 sandboxes run")).toHaveLength(1);
    expect(text(waiting, view())).toEqual(["its sandbox can start: continuing"]);
  });

  it("reports everything in order if a whole wave went by between two looks", () => {
    const passed = wave({
      status: "passed",
      headSha: "c".repeat(40),
      endedAt: moment(8),
      attempts: [attempt({})],
      gates: [gate({ gate: "critic", id: "g2", endedAt: moment(7) }), gate({})],
    });
    const after = view({ tasks: { db: { status: "completed", waveNumber: 1, attempts: 1 } }, waves: [passed] });
    expect(text(null, after)).toEqual([
      "wave 1: db (database)",
      "  db: started (database)",
      "  db: done in 2.0s (database), 1 file changed",
      "  joined: 1 task of wave 1",
      "  testing of wave 1: passed: npm test, exit 0, 12 tests, 3.2s",
      "  critic of wave 1: passed: npm test, exit 0, 12 tests, 3.2s",
      "wave 1: passed at cccccccccccc after 8.0s",
    ]);
  });

  it("says why an attempt failed and that it is retried, and does not mention retries when none is left", () => {
    const failed = attempt({ outcome: "failed", reason: "run exited with 3" });
    const again = { db: { status: "assigned", waveNumber: 1, attempts: 1, retriesUsed: 1 } } as const;
    const before = view({
      tasks: running,
      waves: [wave({ attempts: [attempt({ status: "running", outcome: null })] })],
    });
    expect(text(before, view({ tasks: again, waves: [wave({ attempts: [failed] })] }))).toEqual([
      "  db: failed after 2.0s (database): run exited with 3; trying again (retry 1 of 1)",
    ]);
    const over = { db: { status: "failed", waveNumber: 1, attempts: 1 } } as const;
    expect(text(before, view({ tasks: over, waves: [wave({ attempts: [failed] })] }))).toEqual([
      "  db: failed after 2.0s (database): run exited with 3",
    ]);
  });

  it("reports a conflict with its paths, and that the task is done again", () => {
    const conflicts = [{ waveNumber: 1, paths: ["same.txt"], detail: "" }];
    const before = view({ tasks: running, waves: [wave({})] });
    const after = view({ tasks: { db: { status: "pending", waveNumber: 1, conflicts } }, waves: [wave({})] });
    expect(text(before, after)).toEqual([
      "  db: conflicts with another task of wave 1 in same.txt; it runs again on the joined work",
    ]);
  });

  it("shows the findings of a gate that failed, the worst first, with file and line", () => {
    const findings = [
      { rule: "style", severity: "low" as const, message: "meh", file: null, line: null },
      { rule: "test-failure", severity: "high" as const, message: "broken", file: "src/a.js", line: 12 },
    ];
    const failed = gate({ verdict: "failed", reason: "testing exited with 1", findings });
    const lines = text(view({ waves: [wave({})] }), view({ waves: [wave({ gates: [failed] })] }));
    expect(lines).toEqual([
      "  testing of wave 1: failed (testing exited with 1): npm test, exit 0, 12 tests, 3.2s",
      "    high src/a.js:12: broken",
      "    low meh",
    ]);
  });

  it("lets no text of an agent control the terminal", () => {
    const nasty = attempt({ outcome: "failed", reason: "\x1b]0;title\x07\x1b[2Jgone\r\nnext" });
    const over = { db: { status: "failed", waveNumber: 1, attempts: 1 } } as const;
    const lines = text(view({ waves: [wave({})] }), view({ tasks: over, waves: [wave({ attempts: [nasty] })] }));
    expect(lines.join("\n")).not.toMatch(/[\x00-\x09\x0b-\x1f]/);
    expect(lines.at(-1)).toContain("gone next");
  });
});

describe("the last lines of a build", () => {
  const hints = createHints({ environment: {}, data: "/d" });
  const options = { authority: "/d/my repo.git", hints, now: moment(60) };
  const words = (given: BuildView) => summary(given, options).map((line) => line.text);

  it("give status, head and how to fetch it", () => {
    const done = view({ build: { status: "completed", endedAt: moment(30) } });
    expect(words(done).slice(-3)).toEqual([
      "build bld_1 completed: 0 waves passed, 0 of 4 tasks completed, 30s",
      `head: ${"b".repeat(40)}`,
      "fetch it: git fetch '/d/my repo.git' main:wavesmith/shop",
    ]);
  });

  it("of a failed task give its command, its last 20 lines, file and line, its branch and what to type next", () => {
    const outputTail = Array.from({ length: 30 }, (_, line) => `line ${line}`).join("\n");
    const failed = attempt({
      taskKey: "api",
      role: "backend",
      outcome: "failed",
      reason: "check 1 exited with 1 (test -f api)",
      outputTail: `${outputTail}\n  at foo (src/x.js:12:3)`,
      commitSha: "d".repeat(40),
    });
    const lines = words(
      view({
        build: { status: "failed", reason: "task api failed", endedAt: moment(9) },
        tasks: { api: { status: "failed", waveNumber: 1, attempts: 1 } },
        waves: [wave({ status: "failed", taskKeys: ["api"], attempts: [failed] })],
      }),
    );
    expect(lines).toContain("task api failed: check 1 exited with 1 (test -f api)");
    expect(lines).toContain("  command: test -f api");
    expect(lines.filter((line) => line.startsWith("  │ "))).toHaveLength(20);
    expect(lines).toContain("  at src/x.js:12");
    expect(lines).toContain("  wavesmith/bld_1/task/api/1");
    expect(lines.at(-1)).toBe("next: wavesmith retry bld_1 --data /d");
  });

  it("count only the active time of a reopened wave, and say what a build's time is", () => {
    const gates = [
      gate({ verdict: "failed", endedAt: moment(6) }),
      gate({ round: 2, createdAt: moment(50), endedAt: moment(52) }),
    ];
    const again = wave({ status: "passed", epoch: 1, endedAt: moment(52), attempts: [attempt({})], gates });
    expect(text(null, view({ waves: [again] })).at(-1)).toBe("wave 1: passed after 7.0s");
    const done = view({ build: { status: "completed", epoch: 1, endedAt: moment(52) }, waves: [again] });
    expect(words(done).join("\n")).toContain("52s since its first start");
  });

  it.each([
    ["too-few-tests", null, /minTests: 0.*resume bld_1 --plan EDITED/],
    ["too-few-tests", 1, /lower gates.testing.minTests.*resume bld_1 --plan EDITED/],
    ["command-not-found", null, /resume bld_1 --plan EDITED/],
  ])("of a gate that could not judge (%s, counted: %s) name the way by an edited plan, too", (rule, counted, way) => {
    const findings = [{ rule, severity: "high" as const, message: "x", file: null, line: null }];
    const tests =
      counted === null ? null : { total: counted, passed: counted, failed: 0, skipped: 0, source: "tap" as const };
    const evidence = { ...gate({}).evidence!, tests };
    const blocked = wave({ status: "blocked", gates: [gate({ verdict: "inconclusive", findings, evidence })] });
    const lines = words(view({ build: { status: "failed", endedAt: moment(9) }, waves: [blocked] }));
    expect(lines.slice(-2)).toEqual(["next: wavesmith retry bld_1 --data /d", expect.stringMatching(way)]);
  });

  it("give the reason for a wave that a person rejected", () => {
    const rejected = wave({ status: "blocked", reason: "rejected: too dull", gates: [gate({})] });
    const lines = failureLines(view({ build: { status: "failed" }, waves: [rejected] }));
    expect(lines.map((line) => line.text)).toEqual(["wave 1 is blocked: rejected: too dull"]);
  });

  it("of a blocked wave name the gate, its command and its findings", () => {
    const findings = [{ rule: "test-failure", severity: "high" as const, message: "broken", file: "a.js", line: 3 }];
    const blocked = wave({ status: "blocked", gates: [gate({ verdict: "failed", reason: "exit 1", findings })] });
    const lines = failureLines(view({ build: { status: "failed" }, waves: [blocked] })).map((line) => line.text);
    expect(lines).toEqual([
      "gate testing of wave 1 failed: exit 1",
      "  command: npm test",
      "  exit 0, 12 tests, 3.2s",
      "  │ ok",
      "  high a.js:3: broken",
    ]);
  });

  it.each([
    ["setup exited with 1", "npm ci"],
    ["setup (from cache) exceeded its timeout after 900s", "npm ci"],
    ["service db could not run: x", "postgres"],
    ["check 1 exited with 2 (test -f api)", "test -f api"],
    ["agent exited with 1", "make api"],
  ])("of a failed attempt name the command of the stage that failed: %s", (reason, command) => {
    const failed = attempt({ taskKey: "api", outcome: "failed", reason });
    const base = view({ build: { status: "failed" }, tasks: { api: { status: "failed" } } });
    const plan = {
      ...base.build.plan,
      setup: { run: "npm ci", cache: [] },
      services: { db: { command: "postgres", ready: null } },
    };
    const given = { ...base, build: { ...base.build, plan }, waves: [wave({ attempts: [failed] })] };
    expect(failureLines(given).map((line) => line.text)).toContain(`  command: ${command}`);
  });

  it("of a failed setup point at the plan, which a retry alone would not change", () => {
    const failed = attempt({ taskKey: "api", outcome: "failed", reason: "setup exited with 1" });
    const given = view({ build: { status: "failed", endedAt: moment(9) }, waves: [wave({ attempts: [failed] })] });
    expect(words(given).at(-1)).toBe(
      "  or, after changing setup in the plan: wavesmith resume bld_1 --plan EDITED --data /d",
    );
  });

  it("find the project's own files and lines in what several tools print", () => {
    const output = [
      "    at Object.<anonymous> (file:///workspace/trees/bld_1/api.1/src/x.js:12:3)",
      "    at node:internal/modules/cjs/loader:1554:14",
      '  File "app/main.py", line 7, in <module>',
      "src/lib.rs:40:9: error",
    ].join("\n");
    expect(placesIn(output).sort()).toEqual(["app/main.py:7", "src/lib.rs:40", "src/x.js:12"]);
  });
});
