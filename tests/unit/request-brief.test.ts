import { tmpdir } from "node:os";
import { describe, expect, it } from "vitest";
import { loadConfig } from "../../src/config.ts";
import { planOfBrief, readBuildRequest, refuseForEvents } from "../../src/coordinator/build/request/build-request.ts";

const ports = (settings: Record<string, string> = {}) => ({
  environment: {},
  models: { lacks: () => null, isPriced: () => true } as never,
  briefAgents: loadConfig(settings).briefAgents,
});
const model = { WAVESMITH_MODEL: "anthropic:claude-sonnet-4-5" };
const read = (data: Record<string, unknown>, settings: Record<string, string> = model) =>
  readBuildRequest(ports(settings), { id: "e", data }, "local");

describe("a request with a brief", () => {
  it("is a build of one task, which makes the plan and waits for a person with it", () => {
    const request = read({ brief: " a guestbook \n" });
    expect(request).toMatchObject({ project: "guestbook", brief: { text: "a guestbook", asks: true } });
    expect(request.plan.tasks).toMatchObject([
      { key: "plan", agent: "planner", instructions: "a guestbook", changes: "optional", retries: 2 },
    ]);
    expect(read({ brief: "x", yes: true }).brief).toEqual({ text: "x", asks: false });
    expect(read({ plan: { name: "p", tasks: [{ id: "a", run: "true" }] } }).brief).toBeNull();
  });

  it("uses the model of the settings in every role, or the agent of the settings", () => {
    const builtin = {
      runtime: "builtin",
      model: "anthropic:claude-sonnet-4-5",
      command: null,
      prompt: null,
      effort: null,
      mcp: [],
      skills: [],
    };
    expect(read({ brief: "x" }).plan.agents).toEqual({ default: builtin, critic: builtin });
    const acp = read({ brief: "x" }, { WAVESMITH_AGENT: "claude-agent-acp" }).plan.agents;
    expect(acp.default).toMatchObject({ runtime: "acp", command: "claude-agent-acp", model: null });
    const both = read({ brief: "x" }, { WAVESMITH_AGENT: "claude-agent-acp", WAVESMITH_MODEL: "anthropic:opus" });
    expect(both.plan.agents.critic).toMatchObject({ runtime: "acp", model: "anthropic:opus" });
  });

  it("uses the agents that the settings name for some roles", () => {
    const roles = {
      critic: { runtime: "builtin", model: "openai:strict", effort: "high" },
      backend: { runtime: "acp", command: "codex-acp" },
    };
    const settings = { ...model, WAVESMITH_ROLES: JSON.stringify(roles) };
    const { agents } = read({ brief: "x" }, settings).plan;
    expect(agents).toMatchObject({ ...roles, default: { runtime: "builtin", model: model.WAVESMITH_MODEL } });
    expect(Object.keys(agents)).toHaveLength(3);
    expect(() => read({ brief: "x" }, { WAVESMITH_ROLES: JSON.stringify(roles) })).toThrow(/needs an agent/);
    const alone = { WAVESMITH_ROLES: JSON.stringify({ default: roles.backend }) };
    expect(read({ brief: "x" }, alone).plan.agents.critic).toMatchObject(roles.backend);
  });

  it("may name its own agents, with a prompt for the planner", () => {
    const agent = { runtime: "command", command: "agent" };
    const planner = { ...agent, prompt: "Plan this: {{brief}} {{handIn}}" };
    expect(read({ brief: "x", agents: { default: agent, planner } }, {}).plan.agents.planner).toMatchObject(planner);
    const wrong = { ...agent, prompt: "Plan this: {{instructions}}" };
    expect(() => read({ brief: "x", agents: { planner: wrong } }, {})).toThrow(/prompt of .*\{\{instructions\}\}/);
  });

  it("may have a budget, which includes the planner's part, written as in a plan", () => {
    expect(read({ brief: "x", budget: { usd: 5, tokens: 1000, wallClock: "2h" } }).plan.limits.budget).toEqual({
      usd: 5,
      tokens: 1000,
      wallClockMs: 7_200_000,
    });
    expect(read({ brief: "x" }).plan.limits.budget).toEqual({ usd: null, tokens: null, wallClockMs: null });
    const invalid = (message: RegExp) =>
      expect.objectContaining({ code: "plan-invalid", message: expect.stringMatching(message) });
    expect(() => read({ brief: "x", budget: { usd: -5 } })).toThrow(invalid(/^limits\.budget\.usd: /));
    expect(() => read({ brief: "x", budget: { euro: 5 } })).toThrow(invalid(/euro/));
    expect(() => read({ brief: "x", budget: null })).toThrow(invalid(/limits\.budget/));
    expect(() => refuseForEvents({ brief: "x", budget: { usd: 5 } }, { eventSecrets: [] })).not.toThrow();
    const unpriced = { ...ports(model), models: { lacks: () => null, isPriced: () => false } as never };
    const asked = { id: "e", data: { brief: "x", budget: { usd: 5 } } };
    expect(() => readBuildRequest(unpriced, asked, "local")).toThrow(
      /costs is unknown, and the plan has a limit in USD/,
    );
  });

  it("fails with `environment` without an agent, and says what to set", () => {
    expect(() => read({ brief: "x" }, {})).toThrow(
      expect.objectContaining({
        code: "environment",
        message: expect.stringContaining("neither WAVESMITH_MODEL nor WAVESMITH_AGENT is set"),
        remedy: expect.stringContaining("ANTHROPIC_API_KEY"),
      }),
    );
  });

  it("is refused if it is empty, endless, or comes with a plan", () => {
    expect(() => read({ brief: " " })).toThrow(/the brief is empty/);
    expect(() => read({ brief: "x".repeat(100_001) })).toThrow(/longer than 100000/);
    expect(() => read({ brief: "x", plan: {} })).toThrow(/a plan or a brief, not both/);
  });

  it("names its source, which cannot be a folder here for requests from outside", () => {
    expect(read({ brief: "x", source: { path: tmpdir() } }).plan.source).toEqual({ kind: "path", path: tmpdir() });
    const git = { git: "https://example.com/r.git", ref: "main" };
    const agents = { default: { runtime: "command", command: "a" } };
    const plan = planOfBrief({ text: "x", project: "p", source: git, agents });
    expect(plan.source).toEqual({ kind: "git", url: git.git, ref: "main" });
    expect(() => read({ brief: "x", source: { path: "/no/where" } })).toThrow(/source.path/);
    for (const source of [{ path: "/etc" }, { git: "/etc" }, { git: "file:///etc" }]) {
      expect(() => refuseForEvents({ brief: "x", source }, { eventSecrets: [] })).toThrow(
        /a request by event may not set source\./,
      );
    }
    expect(() => refuseForEvents({ brief: "x", source: git }, { eventSecrets: [] })).not.toThrow();
  });
});
