import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createAgents } from "../../src/agents/agents.ts";
import type { AgentStageRequest, FixContext, TaskContext } from "../../src/agents/port.ts";
import { fence, render } from "../../src/agents/prompt.ts";
import type { Plan, PlanTask } from "../../src/domain/plan/plan.ts";

const agents = createAgents();

function task(over: Partial<PlanTask> = {}): PlanTask {
  return {
    key: "api",
    position: 1,
    title: "The API",
    agent: "backend",
    dependsOn: ["schema"],
    instructions: "Serve GET /entries.",
    run: null,
    writes: ["src/api/**"],
    acceptance: [
      { text: "answers", check: "npm run check-api" },
      { text: "is readable", check: null },
    ],
    changes: "required",
    mayChangeTests: false,
    model: null,
    env: {},
    timeoutMs: 60_000,
    retries: 1,
    ...over,
  };
}

const plan = {
  name: "guestbook",
  description: "A guestbook for the village.",
  context: [{ label: "docs/house-rules.md", text: "Use UTC everywhere." }],
  agents: {},
  gates: { testing: false, critic: false, integration: false, maxFixRounds: 2 },
  tasks: [task()],
} as unknown as Plan;

function taskContext(over: Partial<TaskContext> = {}): TaskContext {
  return {
    plan,
    task: task(),
    attempt: 1,
    waveNumber: 2,
    dependencies: [],
    previousFailure: null,
    conflicts: [],
    messages: [],
    findings: [],
    memory: "",
    ...over,
  };
}

function fixContext(over: Partial<FixContext> = {}): FixContext {
  return {
    plan,
    waveNumber: 2,
    round: 1,
    maxRounds: 2,
    gate: "testing",
    findings: [
      {
        rule: "test-failure",
        severity: "high",
        message: "adds: 2 !== 1",
        file: "tests/a.test.ts",
        line: 5,
        confidence: null,
      },
      { rule: "review", severity: "low", message: "hm", file: null, line: null, confidence: 0.4 },
    ],
    command: "npm test",
    outputTail: "not ok 1 - adds",
    tasks: [task()],
    changedFiles: ["src/api/a.ts"],
    diff: "+a",
    mayChangeTests: false,
    memory: "",
    ...over,
  };
}

/**
 * The content of every data fence, read as Markdown reads it: a fence ends at a line of at least as
 * many backticks.
 */
function fences(prompt: string): { label: string; text: string }[] {
  const found: { label: string; lines: string[]; ticks: number }[] = [];
  let open: (typeof found)[number] | null = null;
  for (const line of prompt.split("\n")) {
    const close = /^ {0,3}(`{3,})\s*$/.exec(line);
    if (open !== null && close !== null && close[1]!.length >= open.ticks) {
      found.push(open);
      open = null;
    } else if (open !== null) open.lines.push(line);
    else {
      const start = /^(`{3,})data (.*)$/.exec(line);
      if (start !== null) open = { label: start[2]!, lines: [], ticks: start[1]!.length };
    }
  }
  expect(open).toBeNull();
  return found.map(({ label, lines }) => ({ label, text: lines.join("\n") }));
}

describe("a task's context pack", () => {
  it("contains goal, instructions, house rules, acceptance with its commands, declared writes and the contract", () => {
    const { prompt } = agents.taskPack(taskContext());
    for (const part of [
      "# Task: The API",
      "guestbook",
      "A guestbook for the village.",
      "Serve GET /entries.",
      "Use UTC everywhere.",
      "- answers\n  checked by: `npm run check-api`",
      "- is readable",
      "`src/api/**`",
      "WAVESMITH_RESULT_FILE",
      "Do not weaken tests",
    ]) {
      expect(prompt).toContain(part);
    }
    expect(prompt).not.toMatch(/\{\{|undefined|null\b|\n\n\n/);
  });

  it("does not mention absent parts", () => {
    const bare = task({ acceptance: [], writes: null });
    const { prompt } = agents.taskPack(taskContext({ task: bare, plan: { ...plan, context: [], description: null } }));
    for (const heading of [
      "House rules",
      "Accepted when",
      "Files of this task",
      "builds on",
      "last attempt",
      "Conflicts",
    ]) {
      expect(prompt).not.toContain(heading);
    }
  });

  it("allows changed tests to a task that may", () => {
    expect(agents.taskPack(taskContext({ task: task({ mayChangeTests: true }) })).prompt).not.toContain(
      "Do not weaken",
    );
  });

  it("says what dependencies did, cut to size, why the last attempt failed and what conflicted", () => {
    const { prompt } = agents.taskPack(
      taskContext({
        attempt: 2,
        dependencies: [
          {
            key: "schema",
            title: "Schema",
            summary: `made tables ${"x".repeat(5_000)}`,
            changedFiles: ["migrations/1.sql", "odd\nname"],
          },
          { key: "silent", title: "Silent", summary: null, changedFiles: [] },
        ],
        previousFailure: { reason: "check 1 failed", outputTail: `${"old\n".repeat(10_000)}the end` },
        conflicts: [{ paths: ["src/app.ts"], detail: "-old\n+new" }],
      }),
    );
    const data = new Map(fences(prompt).map((one) => [one.label, one.text]));
    expect(data.get("summary of task schema")).toHaveLength(2_000);
    expect(data.get("files changed by task schema")).toBe('migrations/1.sql\n"odd\\nname"');
    expect(data.get("reason")).toBe("check 1 failed");
    expect(data.get("end of its output")!.endsWith("the end")).toBe(true);
    expect(data.get("end of its output")!.length).toBeLessThan(8_100);
    expect(data.get("paths")).toBe("src/app.ts");
    expect(data.get("what the other side did")).toBe("-old\n+new");
    expect(prompt).toContain("### silent: Silent");
  });

  it("has the same data in its task file", () => {
    const conflicts = [{ paths: ["a"], detail: "b" }];
    const dependencies = [{ key: "schema", title: "Schema", summary: "s", changedFiles: ["m"] }];
    const file = JSON.parse(agents.taskPack(taskContext({ attempt: 3, dependencies, conflicts })).taskFile);
    expect(file).toMatchObject({
      version: 1,
      kind: "task",
      role: "backend",
      plan: { name: "guestbook" },
      task: {
        id: "api",
        title: "The API",
        agent: "backend",
        dependsOn: ["schema"],
        writes: ["src/api/**"],
        acceptance: task().acceptance,
      },
      attempt: 3,
      wave: 2,
      dependencies,
      previousFailure: null,
      conflicts,
      findings: [],
    });
    expect(file.rules.length).toBeGreaterThan(3);
  });
});

describe("a fixer's and a critic's context pack", () => {
  it("names what to fix with severity and place, the command and the wave's tasks", () => {
    const { prompt, taskFile } = agents.fixPack(fixContext());
    expect(fences(prompt).find((one) => one.label === "findings")!.text).toBe(
      "[high] tests/a.test.ts:5 test-failure: adds: 2 !== 1\n[low] review: hm",
    );
    for (const part of [
      "the testing gate",
      "round 1 of 2",
      "`npm test`",
      "Serve GET /entries.",
      "src/api/a.ts",
      "Do not weaken",
    ]) {
      expect(prompt).toContain(part);
    }
    expect(JSON.parse(taskFile)).toMatchObject({
      kind: "fix",
      role: "fixer",
      task: null,
      attempt: 1,
      wave: 2,
      gate: { name: "testing", command: "npm test" },
      findings: [{ line: 5 }, {}],
      tasks: [{ id: "api" }],
    });
  });

  it("asks the critic for findings in a shape that parses", () => {
    const { prompt, taskFile } = agents.reviewPack({
      plan,
      waveNumber: 2,
      tasks: [task()],
      changedFiles: ["a.ts"],
      diff: "+const a = 1;",
    });
    expect(fences(prompt).find((one) => one.label === "diff")!.text).toBe("+const a = 1;");
    expect(prompt).toContain('"severity": "low | medium | high | critical"');
    expect(JSON.parse(taskFile)).toMatchObject({ kind: "review", role: "critic", diff: "+const a = 1;", task: null });
  });
});

describe("fences", () => {
  it("cannot be closed by their content, whatever it is", () => {
    const nasty = fc.string({
      unit: fc.constantFrom("`", "\n", "~", "#", " ", "data x", "a", "\r", "\u001b[0m", "{{rules}}"),
    });
    fc.assert(
      fc.property(nasty, nasty, (content, label) => {
        const { prompt } = agents.taskPack(
          taskContext({
            previousFailure: { reason: content, outputTail: content },
            conflicts: [{ paths: [label], detail: content }],
          }),
        );
        const rules = prompt.indexOf("\n## Rules");
        expect(fences(prompt.slice(0, rules)).length).toBeGreaterThan(0);
        expect(fences(`${fence(label, content)}\nafter`)).toHaveLength(1);
      }),
      { numRuns: 300 },
    );
  });

  it("hold no terminal sequences or hidden direction changes", () => {
    expect(fence("x", "a\u001b[31mb\u0007\u202ec\r\nd")).toBe("```data x\nabc\nd\n```");
  });

  it("keep others' placeholders unchanged", () => {
    const { prompt } = agents.taskPack(taskContext({ task: task({ instructions: "Write {{title}} and $& and $1." }) }));
    expect(prompt).toContain("Write {{title}} and $& and $1.");
    expect(() => render("{{missing}}", {})).toThrow(/missing/);
  });
});

describe("an agent's stage", () => {
  const request = (over: Partial<AgentStageRequest> = {}): AgentStageRequest => ({
    spec: { runtime: "command", command: "sh ./agent.sh", model: null },
    run: null,
    role: "backend",
    pack: agents.taskPack(taskContext()),
    treePath: "trees/bld_1/api.1",
    taskFilePath: "trees/bld_1/.api.1/task.json",
    resultFilePath: "trees/bld_1/.api.1/result.json",
    workspaceRoot: "/workspace",
    env: { NODE_ENV: "test", WAVESMITH_ROLE: "spoofed" },
    timeoutMs: 5_000,
    homePath: "homes/bld_1/api",
    modelToken: "wst_1",
    providerTools: ["web_search"],
    resultSchema: null,
    readOnly: false,
    answersPath: null,
    images: [],
    ...over,
  });

  it("gives a command the prompt on stdin and absolute paths in its environment", () => {
    const stage = agents.agentStage(request());
    expect(stage).toMatchObject({
      name: "agent",
      argv: ["sh", "-c", "sh ./agent.sh"],
      cwd: "trees/bld_1/api.1",
      timeoutMs: 5_000,
    });
    expect(stage.stdin).toContain("# Task: The API");
    expect(stage.outputLimitBytes).toBe(8 * 1024 * 1024);
    expect(stage.env).toEqual({
      NODE_ENV: "test",
      WAVESMITH_TASK_FILE: "/workspace/trees/bld_1/.api.1/task.json",
      WAVESMITH_RESULT_FILE: "/workspace/trees/bld_1/.api.1/result.json",
      WAVESMITH_WORKSPACE: "/workspace/trees/bld_1/api.1",
      WAVESMITH_ROLE: "backend",
      WAVESMITH_TASK: "api",
      WAVESMITH_MODEL_TOKEN: "wst_1",
      WAVESMITH_MODEL_TOOLS: "web_search",
    });
  });

  it.each([
    ["acp", { runtime: "acp", command: "exec my-agent --acp", model: null }, "exec my-agent --acp"],
    [
      "builtin",
      { runtime: "builtin", command: null, model: "openai:m" },
      'exec node "$WAVESMITH_PROGRAMS/builtin-agent.mjs"',
    ],
  ] as const)(
    "drives an agent of the runtime %s by the agent host, which gets everything on stdin",
    (_name, spec, command) => {
      const stage = agents.agentStage(request({ spec, resultSchema: { type: "object" }, readOnly: true }));
      expect(stage).toMatchObject({
        name: "agent",
        argv: ["sh", "-c", 'exec node "$WAVESMITH_PROGRAMS/agent-host.mjs"'],
      });
      expect(JSON.parse(stage.stdin ?? "")).toMatchObject({
        command,
        prompt: expect.stringContaining("# Task: The API"),
        cwd: "/workspace/trees/bld_1/api.1",
        home: "/workspace/homes/bld_1/api",
        model: spec.model,
        result: { schema: { type: "object" }, file: "/workspace/trees/bld_1/.api.1/result.json" },
        readOnly: true,
      });
      expect(stage.stdin).not.toContain("wst_1");
    },
  );

  it("runs a script instead of a runtime, and names no task for a fix", () => {
    const stage = agents.agentStage(request({ spec: null, run: "echo hi", pack: agents.fixPack(fixContext()) }));
    expect(stage).toMatchObject({ name: "run", argv: ["sh", "-e", "-c", "echo hi"], stdin: null });
    expect(stage.env).not.toHaveProperty("WAVESMITH_TASK");
  });

  it.each([
    ["acp without a command", { spec: { runtime: "acp", command: null, model: null } }],
    ["none", { spec: null }],
    ["a script longer than the system takes", { run: "#".repeat(200_000) }],
  ] as const)("is refused for the runtime %s, with a remedy", (_name, over) => {
    const refused = expect.objectContaining({ code: "unsupported", remedy: expect.stringMatching(/./) });
    expect(() => agents.agentStage(request(over))).toThrowError(refused);
  });

  describe("run for real", () => {
    let root: string;
    beforeEach(() => {
      root = mkdtempSync(join(tmpdir(), "wavesmith-agents-"));
      mkdirSync(join(root, "trees/bld_1/api.1"), { recursive: true });
      mkdirSync(join(root, "trees/bld_1/.api.1"), { recursive: true });
    });
    afterEach(() => rmSync(root, { recursive: true, force: true }));

    function run(over: Partial<AgentStageRequest>) {
      const stage = agents.agentStage(request({ workspaceRoot: root, ...over }));
      writeFileSync(join(root, request().taskFilePath), request().pack.taskFile);
      const env = { PATH: process.env.PATH ?? "", ...stage.env };
      return spawnSync(stage.argv[0]!, stage.argv.slice(1), {
        cwd: join(root, stage.cwd),
        env,
        input: stage.stdin ?? "",
        encoding: "utf8",
      });
    }

    it("a script stops at its first failing line", () => {
      const done = run({ run: "echo one > made\nfalse\necho two > made" });
      expect(done.status).not.toBe(0);
      expect(readFileSync(join(root, "trees/bld_1/api.1/made"), "utf8")).toBe("one\n");
    });

    it("a program reads its task and submits a result", () => {
      const program = `const fs = require("node:fs"); const t = JSON.parse(fs.readFileSync(process.env.WAVESMITH_TASK_FILE, "utf8"));
        const prompt = fs.readFileSync(0, "utf8");
        fs.writeFileSync(process.env.WAVESMITH_RESULT_FILE, JSON.stringify({ summary: t.task.id + " " + prompt.slice(0, 15) + " " + (process.cwd() === fs.realpathSync(process.env.WAVESMITH_WORKSPACE)) }));`;
      writeFileSync(join(root, "trees/bld_1/api.1/agent.cjs"), program);
      const done = run({ spec: { runtime: "command", command: `"${process.execPath}" agent.cjs`, model: null } });
      expect(done.stderr).toBe("");
      const result = readFileSync(join(root, request().resultFilePath), "utf8");
      expect(agents.parseResult(result)).toEqual({ summary: "api # Task: The API true" });
    });
  });
});

describe("a result file", () => {
  it("gives its summary, cleaned and cut", () => {
    expect(agents.parseResult('\ufeff{"summary":" done \\u001b[31mred\\u0000 ","more":1}')).toEqual({
      summary: "done red",
    });
    const long = agents.parseResult(JSON.stringify({ summary: "😀".repeat(3_000) })).summary!;
    expect(long.length).toBeLessThanOrEqual(2_000);
    expect(Buffer.from(long).toString()).toBe(long);
  });

  it.each([null, "", "nonsense", "[]", "null", '{"summary":5}', "{}", '{"summary":"  "}'])(
    "gives none when it is %s",
    (text) => {
      expect(agents.parseResult(text)).toEqual({ summary: null });
    },
  );
});

describe("what an agent said last", () => {
  const line = (body: object) => JSON.stringify({ wavesmith: 1, at: "2026-01-01T00:00:00.000Z", ...body });
  const says = (text: string) => line({ kind: "message", text });
  const does = line({ kind: "tool", id: "1", title: "Read a", action: "read", status: "completed", paths: [] });

  it("is everything it said since its last action", () => {
    const output = [
      says("I shall read a."),
      does,
      says("I read a."),
      line({ kind: "thought", text: "hm" }),
      "| noise",
      says("It is\u001b[31m fine."),
      line({ kind: "usage", used: 1, size: 2, usd: null }),
      line({ kind: "end", end: "finished", detail: "" }),
    ];
    expect(agents.lastMessage(output.join("\n"))).toBe("I read a.\nIt is fine.");
  });

  it("is what it said before its last action, if it ended with one", () => {
    expect(agents.lastMessage([says("I write a."), does].join("\n"))).toBe("I write a.");
  });

  it("is at most 2,000 characters, and empty if it said nothing", () => {
    expect(agents.lastMessage(says("x".repeat(5_000)))).toHaveLength(2_000);
    for (const output of ["", "plain words", does, says("  ")]) expect(agents.lastMessage(output)).toBeNull();
  });
});
