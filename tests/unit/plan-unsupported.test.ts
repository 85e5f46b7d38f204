import { describe, expect, it } from "vitest";
import { parsePlanValue } from "../../src/plan/parse-plan.ts";
import { unsupportedFeatures } from "../../src/plan/unsupported.ts";

const run = { id: "a", run: "x" };
const refused = (fields: Record<string, unknown>): string[] => {
  const { plan, faults } = parsePlanValue({ name: "p", tasks: [run], ...fields }, { baseDir: null, env: {} });
  expect(faults).toEqual([]);
  return unsupportedFeatures(plan!).map((fault) => fault.path);
};
const acp = { runtime: "acp", command: "agent" };
const command = { runtime: "command", command: "agent" };

describe("what build refuses by name in this version", () => {
  it.each([
    ["GitHub", { deliver: { forge: "github", repo: "o/n" } }, ["deliver.forge"]],
    ["webhooks", { notify: ["https://example.com"] }, ["notify"]],
    [
      "budgets",
      { limits: { budget: { usd: 1, tokens: 5, wallClock: "1h" } } },
      ["limits.budget.usd", "limits.budget.tokens"],
    ],
  ])("refuses %s", (_, fields, paths) => {
    expect(refused(fields)).toEqual(paths);
  });

  it("builds a plan of scripts that asks for nothing else", () => {
    expect(refused({})).toEqual([]);
    for (const network of ["none", "allowlist", "open", { allow: ["example.com"] }]) {
      expect(refused({ network, agents: { default: command } })).toEqual([]);
    }
  });

  it("counts a runtime only when something would start it", () => {
    const task = { id: "b", agent: "backend", instructions: "go" };
    expect(refused({ agents: { backend: acp } })).toEqual([]);
    expect(refused({ agents: { backend: acp }, tasks: [task] })).toEqual(["agents.backend.runtime"]);
    expect(refused({ agents: { backend: command, fixer: acp }, tasks: [task] })).toEqual(["agents.fixer.runtime"]);
    const gates = { critic: false, maxFixRounds: 0 };
    expect(refused({ agents: { default: acp, backend: command }, tasks: [task], gates })).toEqual([]);
    expect(refused({ agents: { default: { runtime: "builtin", model: "m" } }, tasks: [task], gates })).toEqual([
      "agents.default.runtime",
    ]);
  });
});
