import { describe, expect, it } from "vitest";
import { unsupportedFeatures } from "../../src/plan/checks/unsupported.ts";
import { parsePlanValue } from "../../src/plan/parse-plan.ts";

const run = { id: "a", run: "x" };
const refused = (fields: Record<string, unknown>): string[] => {
  const { plan, faults } = parsePlanValue({ name: "p", tasks: [run], ...fields }, { baseDir: null, env: {} });
  expect(faults).toEqual([]);
  return unsupportedFeatures(plan!).map((fault) => fault.path);
};
const command = { runtime: "command", command: "agent" };

describe("what build refuses in this version", () => {
  it("refuses to merge where there is no repository at a forge", () => {
    expect(refused({ deliver: { merge: "when-green" } })).toEqual(["deliver.merge"]);
    expect(refused({ deliver: { forge: "github", repo: "o/n", merge: "when-green" } })).toEqual([]);
  });

  it("builds a plan of scripts that asks for nothing else", () => {
    expect(refused({})).toEqual([]);
    expect(refused({ agents: { default: { runtime: "acp", command: "agent" } } })).toEqual([]);
    for (const network of ["none", "allowlist", "open", { allow: ["example.com"] }]) {
      expect(refused({ network, agents: { default: command } })).toEqual([]);
    }
  });
});
