import { describe, expect, it } from "vitest";
import { reportOf } from "../../src/cli/commands/agents.ts";
import type { KnownAgent } from "../../src/cli/parts/agents.ts";

const agent: KnownAgent = {
  name: "codex",
  title: "Codex",
  runtime: "acp",
  command: "codex-acp",
  providers: ["openai"],
  pinned: { package: "@agentclientprotocol/codex-acp", version: "2.6.0" },
  installed: null,
};
const answers = { answers: true, program: "/usr/bin/codex-acp", agent: "Codex 2.6.0", resumes: true } as const;

describe("what an agent needs and does not have", () => {
  it("is nothing when it answers and its models have a key", () => {
    const report = reportOf(agent, answers, new Map([["openai", "OPENAI_API_KEY"]]));
    expect(report).toMatchObject({ lacks: [], signedInWith: ["OPENAI_API_KEY"] });
  });

  it("is reported with what to do about it", () => {
    const absent = { answers: false, program: null, problem: "it is not installed" } as const;
    expect(reportOf(agent, absent, new Map([["anthropic", "ANTHROPIC_API_KEY"]])).lacks).toEqual([
      { what: "it is not installed", remedy: "wavesmith agents install codex" },
      { what: "no key for its models", remedy: "set OPENAI_API_KEY" },
    ]);
  });

  it("is what it complained about if it is installed but does not answer", () => {
    const broken = { answers: false, program: "/usr/bin/codex-acp", problem: "no such library" } as const;
    expect(reportOf(agent, broken, new Map()).lacks[0]).toMatchObject({ what: "no such library" });
  });
});
