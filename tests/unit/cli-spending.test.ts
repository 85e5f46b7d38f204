import { describe, expect, it } from "vitest";
import { buildFinished } from "../../src/api/build-result.ts";
import { statusJson } from "../../src/api/build-status.ts";
import { createHints } from "../../src/cli/output/hints.ts";
import { renderLive } from "../../src/cli/view/live.ts";
import { narrate } from "../../src/cli/view/narrate.ts";
import { plainText } from "../../src/cli/view/segments.ts";
import { tokens, usd } from "../../src/cli/view/spending.ts";
import { statusLines } from "../../src/cli/view/status-lines.ts";
import { summary } from "../../src/cli/view/summary.ts";
import { attempt, type BuildGiven, gate, moment, plan, view, wave } from "./cli-views.ts";

const options = {
  interrupted: false,
  ...{ repository: "/r.git", authority: "/r.git" },
  hints: createHints({ environment: {} }),
  now: moment(20),
};
const priced = (calls: number, count: number, microUsd: number) => ({ calls, tokens: count, microUsd });

/**
 * `db` took two attempts; the critic of its wave has looked; `api` is at work, on a model whose
 * price nobody knows.
 */
const given: BuildGiven = {
  build: { plan: { ...plan, limits: { ...plan.limits, budget: { tokens: 100_000, usd: null, wallClockMs: null } } } },
  tasks: {
    db: { status: "completed", waveNumber: 1, attempts: 2 },
    api: { status: "running", waveNumber: 2, attempts: 1 },
  },
  waves: [
    wave({
      status: "passed",
      endedAt: moment(9),
      attempts: [attempt({ outcome: "failed" }), attempt({ number: 2 })],
      gates: [gate({ gate: "critic" })],
    }),
    wave({
      number: 2,
      createdAt: moment(10),
      taskKeys: ["api"],
      attempts: [attempt({ taskKey: "api", status: "running", outcome: null, endedAt: null })],
    }),
  ],
  spending: {
    "att-db-1": priced(1, 800, 4_000),
    "att-db-2": priced(2, 2_000, 10_000),
    "gate-critic-1": priced(1, 200, 6_000),
    "att-api-1": { calls: 3, openCalls: 1, tokens: 9_000, unpricedCalls: 2 },
  },
};

describe("the spending on models", () => {
  it("is in the status: the build's beside its budget, and each wave's and task's", () => {
    const lines = statusLines(view(given), options).map(({ text }) => text);
    expect(lines).toContain(
      "  spent on models: 12.0k of 100.0k tokens, 0.02 USD and 2 calls of unknown price, 1 call under way",
    );
    expect(lines.find((line) => line.startsWith("wave 1"))).toContain(", 3.0k tokens, 0.02 USD");
    expect(lines).toContain("  db (database): completed, 2 attempts, 2.8k tokens, 0.01 USD");
    expect(lines.find((line) => line.startsWith("wave 2"))).toContain(", 9.0k tokens, price unknown");
  });

  it("is in the status for programs, also for each attempt, and is null, not zero, without a known price", () => {
    const { spent, budget, waves, tasks } = statusJson(view(given), options) as {
      spent: object;
      budget: object;
      waves: { spent: object }[];
      tasks: { spent: object; eachAttempt: object[] }[];
    };
    expect(budget).toEqual({ tokens: 100_000, usd: null });
    expect(spent).toMatchObject({
      calls: 7,
      openCalls: 1,
      tokens: 12_000,
      usd: null,
      knownUsd: 0.02,
      unpricedCalls: 2,
    });
    expect(waves.map((one) => one.spent)).toMatchObject([
      { tokens: 3_000, usd: 0.02 },
      { tokens: 9_000, usd: null },
    ]);
    expect(tasks[0]?.spent).toMatchObject({ calls: 3, tokens: 2_800, usd: 0.014 });
    expect(tasks[0]?.eachAttempt).toMatchObject([
      { number: 1, wave: 1, outcome: "failed", spent: { tokens: 800, usd: 0.004 } },
      { number: 2, wave: 1, outcome: "succeeded", spent: { tokens: 2_000, usd: 0.01 } },
    ]);
    // No model was called for it, so the cost is known to be nothing.
    expect(tasks[3]?.spent).toMatchObject({ calls: 0, tokens: 0, usd: 0 });
  });

  it("is reported at a build's end, to people and to programs", () => {
    const done = view({ ...given, build: { ...given.build, status: "completed", endedAt: moment(30) } });
    expect(summary(done, options).map(({ text }) => text)).toContain(
      "spent on models: 12.0k of 100.0k tokens, 0.02 USD and 2 calls of unknown price, 1 call not counted yet",
    );
    expect(buildFinished(done, "/r.git")).toMatchObject({
      spent: { tokens: 12_000, usd: null },
      waves: [{ spent: { tokens: 3_000 }, tasks: [{ id: "db", spent: { tokens: 2_800 } }] }, {}],
    });
  });

  it("says where to allow more when a build ended at its limit", () => {
    const failed = { ...given.build, status: "failed" as const, endedAt: moment(30) };
    const over = wave({ status: "failed", endedAt: moment(9), attempts: [attempt({ outcome: "over-budget" })] });
    const summaryOf = (waves: NonNullable<typeof given.waves>) =>
      summary(view({ ...given, build: failed, waves }), options);
    const way = expect.stringMatching(/after raising limits\.budget in the plan: .*resume \S+ --plan EDITED/);
    expect(summaryOf([over]).map(({ text }) => text)).toContainEqual(way);
    expect(
      summaryOf([{ ...over, attempts: [attempt({ outcome: "failed" })] }]).map(({ text }) => text),
    ).not.toContainEqual(way);
  });

  it("is in the live view and in the lines of each attempt and wave", () => {
    const rows = renderLive(view(given), { rows: 40, columns: 100, now: moment(20), frame: 0 }).map((row) =>
      plainText(row).trimEnd(),
    );
    expect(rows[1]).toContain("12.0k of 100.0k tokens");
    expect(rows.find((row) => row.includes("api"))).toContain("9.0k tokens, price unknown");
    const lines = narrate(null, view(given)).map(({ text }) => text);
    expect(lines).toContain("  db: done in 2.0s (database), 1 file changed, 2.0k tokens, 0.01 USD");
    expect(lines.find((line) => line.startsWith("wave 1: passed"))).toContain("3.0k tokens, 0.02 USD");
    const spending = { "att-db-2": { ...priced(2, 2_000, 10_000), openCalls: 1 } };
    expect(narrate(null, view({ ...given, spending })).map(({ text }) => text)).toContain(
      "  db: done in 2.0s (database), 1 file changed, 2.0k tokens, 0.01 USD, 1 call not counted yet",
    );
  });

  it("is not mentioned if no model was called and there is no limit", () => {
    const quiet = view();
    const words = [...statusLines(quiet, options), ...summary(quiet, options)].map(({ text }) => text).join("\n");
    expect(words).not.toMatch(/token|USD|spent/);
    const inUsd = { ...plan.limits, budget: { tokens: null, usd: 5, wallClockMs: null } };
    const limited = view({ build: { plan: { ...plan, limits: inUsd } } });
    expect(statusLines(limited, options).map(({ text }) => text)).toContain(
      "  spent on models: 0 tokens, 0.00 of 5.00 USD",
    );
  });

  it("is written briefly, and never makes something look like nothing", () => {
    expect([0, 999, 1_000, 999_949, 999_950, 12_345_678].map(tokens)).toEqual([
      "0",
      "999",
      "1.0k",
      "999.9k",
      "1.00M",
      "12.35M",
    ]);
    expect([0, 1, 4_200, 10_000, 1_234_567].map(usd)).toEqual(["0.00", "0.000001", "0.004", "0.01", "1.23"]);
  });
});
