import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createAgents } from "../../src/agents/agents.ts";
import { loadPrompts } from "../../src/agents/prompt.ts";
import { type Plan, promptFor } from "../../src/domain/plan/plan.ts";
import { type PromptKind, placeholderFaults, promptPlaceholders } from "../../src/domain/plan/prompts.ts";
import { parsePlanValue } from "../../src/plan/parse-plan.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "wavesmith-prompts-"));
  mkdirSync(join(folder, "plans"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const parse = (agents: Record<string, object>) =>
  parsePlanValue(
    { name: "p", tasks: [{ id: "a", agent: "backend", instructions: "Serve." }], agents },
    { baseDir: join(folder, "plans"), env: {} },
  );
const planOf = (agents: Record<string, object>): Plan => {
  const { plan, faults } = parse(agents);
  expect(faults).toEqual([]);
  return plan!;
};
const command = { runtime: "command", command: "agent" };
const file = (name: string, text: string) => {
  writeFileSync(join(folder, "plans", name), text);
  return { prompt: { file: name } };
};
const packOf = (plan: Plan) =>
  createAgents().taskPack({
    plan,
    task: plan.tasks[0]!,
    attempt: 1,
    waveNumber: 1,
    dependencies: [],
    previousFailure: null,
    conflicts: [],
    messages: [],
    findings: [],
    memory: "",
  });

/** A template with every placeholder of its kind. */
const everyPart = (kind: PromptKind): string =>
  [...promptPlaceholders[kind].required, ...promptPlaceholders[kind].optional]
    .map((name) => `${name}: {{${name}}}`)
    .join("\n");

describe("prompts of a project's own", () => {
  it("come from a file beside the plan and replace ours", () => {
    const plan = planOf({ backend: { ...command, ...file("backend.md", "Ours:\n{{instructions}}\n\n{{rules}}\n") } });
    expect(packOf(plan).prompt).toMatch(/^Ours:\nServe\.\n\n## Rules/);
  });

  it("may be in the plan itself, and belong to the role default", () => {
    const plan = planOf({ default: { ...command, prompt: "Short: {{instructions}} {{rules}}" } });
    expect(packOf(plan).prompt).toMatch(/^Short: Serve\./);
    expect(promptFor(plan, "anything")).toContain("Short");
    for (const role of ["fixer", "critic"]) expect(promptFor(plan, role), `${role} is asked otherwise`).toBeNull();
  });

  it("are not read from outside the plan's folder, not even through a link", () => {
    writeFileSync(join(folder, "outside.md"), "{{instructions}}{{rules}}");
    symlinkSync(join(folder, "outside.md"), join(folder, "plans", "link.md"));
    for (const name of ["../outside.md", "link.md"]) {
      expect(parse({ backend: { ...command, prompt: { file: name } } }).faults).toMatchObject([
        { code: "escaping-file", path: "agents.backend.prompt.file" },
      ]);
    }
  });

  it("are refused with the plan when they use an unknown part or lack a required one", () => {
    const { faults } = parse({
      backend: { ...command, prompt: "{{instruction}} {{rules}}" },
      fixer: { ...command, prompt: "{{rules}} {{findings}} {{instructions}}" },
      critic: { ...command, prompt: "{{diff}}" },
    });
    expect(faults.map(({ code, path, message }) => `${code} ${path} ${message}`)).toEqual([
      "bad-prompt agents.backend.prompt The prompt of the role backend uses {{instruction}}, which does not exist, did you mean instructions?",
      "bad-prompt agents.backend.prompt The prompt of the role backend lacks {{instructions}}: add it where that section belongs.",
      expect.stringContaining(
        "The prompt of the role fixer uses {{instructions}}, which does not exist: use one of findings",
      ),
      "bad-prompt agents.critic.prompt The prompt of the role critic lacks {{handIn}}: add it where that section belongs.",
    ]);
  });

  it("may use every part, and ours use the same parts", () => {
    const prompts = loadPrompts();
    for (const kind of ["task", "fix", "review"] as const) {
      expect(placeholderFaults(kind, prompts[kind]), kind).toEqual({ unknown: [], missing: [] });
    }
    const roles = { backend: "task", fixer: "fix", critic: "review" } as const;
    const plan = planOf(
      Object.fromEntries(Object.entries(roles).map(([role, kind]) => [role, { ...command, prompt: everyPart(kind) }])),
    );
    const agents = createAgents();
    const wave = { plan, waveNumber: 1, tasks: plan.tasks, changedFiles: ["a"] };
    expect(packOf(plan).prompt).toContain("instructions: Serve.");
    const fix = { round: 1, maxRounds: 2, gate: "testing", findings: [], command: null, outputTail: "" } as const;
    expect(agents.fixPack({ ...wave, ...fix, diff: "+b", memory: "", mayChangeTests: false }).prompt).toContain(
      "gate: testing",
    );
    expect(agents.reviewPack({ ...wave, diff: "+a" }).prompt).toContain("+a");
  });
});
