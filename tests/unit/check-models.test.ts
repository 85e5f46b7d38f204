import { describe, expect, it } from "vitest";
import { refuseWithoutModels } from "../../src/coordinator/plan/plan-models.ts";
import { parsePlanValue } from "../../src/plan/parse-plan.ts";

const task = { id: "a", agent: "backend", instructions: "go" };
const models = {
  lacks: (model: string | null) => (/^(openai|google):/.test(model ?? "") ? "there is no key for it" : null),
  isPriced: (model: string) => model === "anthropic:known",
};
const check = (fields: Record<string, unknown>) => () => {
  const { plan, faults } = parsePlanValue({ name: "p", tasks: [task], ...fields }, { baseDir: null, env: {} });
  expect(faults).toEqual([]);
  refuseWithoutModels(models, plan!);
};
const builtin = (model = "somebody") => ({ runtime: "builtin", model });
const command = { runtime: "command", command: "agent" };
const usd = { limits: { budget: { usd: 1 } } };

describe("the models of a plan", () => {
  it("are named by provider and model, with the built-in agent", () => {
    expect(check({ agents: { backend: builtin() } })).toThrow(/agents.backend.model: somebody is not a model/);
    // Reported once, although the agent does the task, its fixes and more.
    expect(check({ agents: { default: builtin("claude") } })).toThrow(
      /^agents.default.model: claude is not a model.*$/,
    );
    expect(check({ agents: { default: builtin("anthropic:known") } })).not.toThrow();
  });

  it("need a key, said in one line with the variable that holds it", () => {
    const lacking = check({ agents: { default: builtin("openai:gpt") } });
    expect(lacking).toThrow(expect.objectContaining({ code: "environment", remedy: "set OPENAI_API_KEY" }));
    const gemini = check({ agents: { default: builtin("google:gemini") } });
    expect(gemini).toThrow(expect.objectContaining({ code: "environment", remedy: "set GEMINI_API_KEY" }));
  });

  it("have a known price when the plan has a limit in USD", () => {
    expect(check({ agents: { default: builtin("anthropic:new") }, ...usd })).toThrow(/costs is unknown/);
    expect(check({ agents: { default: builtin("anthropic:known") }, ...usd })).not.toThrow();
    const tokens = { limits: { budget: { tokens: 1_000 } } };
    expect(check({ agents: { default: builtin("anthropic:new") }, ...tokens })).not.toThrow();
  });

  it("count only when somebody would use them", () => {
    const gates = { critic: false, maxFixRounds: 0 };
    expect(check({ agents: { default: builtin(), backend: command }, gates })).not.toThrow();
    expect(check({ agents: { default: builtin(), backend: command } })).toThrow(/agents.default.model/);
    expect(check({ agents: { backend: command, critic: builtin() } })).toThrow(/agents.critic.model/);
    expect(check({ agents: { default: builtin() }, tasks: [{ id: "a", run: "x" }], gates })).not.toThrow();
  });
});
