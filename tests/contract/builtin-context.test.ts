import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { endOf } from "../support/agent-host.ts";
import { builtinFixture } from "../support/builtin-agent.ts";
import type { FakeRequest } from "../support/fake-providers.ts";

// The context that the built-in agent sends to its model, and how it shortens long conversations.

const agent = builtinFixture();
const { folder, tree, build, calling, toldModel } = agent;

const bodies = () => agent.providers.requests.map(({ body }) => body);

describe("a read", () => {
  it("is bounded, however long a line is, and pages a large file", async () => {
    writeFileSync(join(tree(), "line.txt"), `${"x".repeat(1_500_000)}\nsecond\n`);
    writeFileSync(join(tree(), "large.txt"), Array.from({ length: 900_000 }, (_, at) => `line ${at + 1}`).join("\n"));
    calling(
      { name: "read_file", input: { path: "line.txt" } },
      { name: "read_file", input: { path: "large.txt", from: 800_000, lines: 2 } },
      { name: "read_file", input: { path: "large.txt" } },
    );
    await build("read");
    const told = toldModel();
    expect(told.length).toBeLessThan(100_000);
    expect(told).toContain("more characters in this line]\\nsecond");
    expect(told).toContain("line 800000\\nline 800001\\n[there is more: continue with from: 800002]");
    expect(told).toContain("[there is more: continue with from: 2001]");
  });
});

describe("a conversation that outgrows its model's window", () => {
  const overflow = { status: 400, message: "prompt is too long: 210000 tokens > 200000 maximum" };
  const isSummary = ({ body }: FakeRequest): boolean => JSON.stringify(body).includes("continue from your summary");

  it("goes on from a summary of it", async () => {
    agent.answers = (request) => {
      if (isSummary(request)) return { text: "I read a file called notes" };
      if (request.number === 1) return { tools: [{ name: "exec", input: { command: "echo hello" } }] };
      return request.number === 2 ? overflow : { text: "all done" };
    };
    const ended = await build("the task");
    expect(endOf(ended)).toMatchObject({ end: "finished" });
    expect(toldModel()).toContain("I read a file called notes");
    expect(toldModel()).toContain("the task");
    expect(toldModel()).not.toContain("tool_result");
  });

  it("is never loaded again when no summary helps", async () => {
    agent.answers = (request) => (isSummary(request) ? { text: "short" } : overflow);
    expect(endOf(await build("poisoned task"))).toMatchObject({ end: "model-error" });
    agent.answers = () => ({ text: "fresh" });
    const again = await build("again");
    expect(endOf(again)).toMatchObject({ end: "finished" });
    expect(again.events).toContainEqual(expect.objectContaining({ kind: "session", resumed: false }));
    expect(toldModel()).not.toContain("poisoned task");
  });
});

describe("an answer without an end", () => {
  it("is continued if it was cut at its limit, and half a tool call does not count", async () => {
    agent.answers = ({ number }) =>
      number === 1 ? { text: "I begin with", atLimit: true } : number === 2 ? { text: "the end" } : { text: "?" };
    const ended = await build("write");
    expect(endOf(ended)).toMatchObject({ end: "finished" });
    expect(toldModel()).toContain("Continue where you stopped");
    expect(agent.providers.requests).toHaveLength(2);
  });

  it("does not count as the end of the work if it cannot be read", async () => {
    agent.answers = () => ({ raw: "<html>Welcome</html>" });
    for (const model of ["anthropic:claude-test", "openai:gpt-test", "google:gemini-test", "compatible:llama"]) {
      expect(endOf(await build("work", { model }))).toMatchObject({ end: "model-error" });
    }
  });
});

describe("the first message", () => {
  it("has the instructions, cached, those of the repository, and an overview of the tree", async () => {
    writeFileSync(join(tree(), "AGENTS.md"), "Use tabs.");
    writeFileSync(join(tree(), "CLAUDE.md"), "Use tabs.");
    calling({ name: "exec", input: { command: "true" } });
    await build("make it");
    const [first, second] = bodies();
    expect(JSON.stringify(first.system)).toContain('"cache_control":{"type":"ephemeral"}');
    for (const body of [first, second]) {
      const marked = body.messages.map((message: object) => JSON.stringify(message).includes("cache_control"));
      expect(marked).toEqual([...Array.from({ length: marked.length - 1 }, () => false), true]);
    }
    const text = JSON.stringify(first.messages[0]);
    expect(text).toContain('<instructions file=\\"AGENTS.md\\">\\nUse tabs.');
    expect(text.match(/Use tabs/g)).toHaveLength(1);
    expect(text).toContain("Git status");
    expect(text).toContain("make it");
  });

  it.each([
    ["anthropic:claude-sonnet-4-5", { thinking: { type: "enabled", budget_tokens: 24_000 } }],
    ["anthropic:claude-sonnet-5", { thinking: { type: "adaptive" }, output_config: { effort: "high" } }],
    ["openai:gpt-6-sol", { reasoning: { effort: "high" } }],
    ["google:gemini-2.5-pro", { generationConfig: { thinkingConfig: { thinkingBudget: 16_000 } } }],
    ["compatible:llama", { reasoning_effort: "high" }],
  ])("asks %s for the effort that the plan wants", async (model, wanted) => {
    await build("think", { model }, { WAVESMITH_MODEL_EFFORT: "high" });
    expect(bodies()[0]).toMatchObject(wanted);
  });
});

describe("a tool", () => {
  it("makes several replacements in a file, or none", async () => {
    writeFileSync(join(tree(), "a.txt"), "one two three");
    const edits = [
      { old: "one", new: "1" },
      { old: "two", new: "2" },
    ];
    calling(
      { name: "read_file", input: { path: "a.txt" } },
      { name: "edit_file", input: { path: "a.txt", edits: [...edits, { old: "nowhere", new: "" }] } },
      { name: "edit_file", input: { path: "a.txt", edits } },
    );
    await build("edit");
    expect(readFileSync(join(tree(), "a.txt"), "utf8")).toBe("1 2 three");
    expect(toldModel()).toContain("edit 3 of a.txt: the file does not have that text");
  });

  it("finds files by a glob, and text with the lines around it", async () => {
    execFileSync("mkdir", ["-p", join(tree(), "src/deep")]);
    writeFileSync(join(tree(), "src/deep/a.ts"), "before\nNEEDLE\nafter\n");
    writeFileSync(join(tree(), "b.md"), "needle\n");
    calling(
      { name: "glob", input: { pattern: "src/**/*.ts" } },
      { name: "search", input: { pattern: "needle", ignoreCase: true, context: 1, glob: "**/*.ts" } },
    );
    await build("find");
    expect(toldModel()).toContain('src/deep/a.ts"');
    expect(toldModel()).toContain("src/deep/a.ts-1-before\\nsrc/deep/a.ts:2:NEEDLE\\nsrc/deep/a.ts-3-after");
    expect(JSON.stringify(bodies().at(-1).messages.slice(1))).not.toContain("b.md");
  });

  it("runs a program beside the agent, returns its output, and ends it with the agent", async () => {
    calling(
      { name: "start_program", input: { command: "echo $$ > pid; echo listening; exec tail -f /dev/null" } },
      { name: "exec", input: { command: "while ! test -s pid; do sleep 0.05; done; sleep 0.2" } },
      { name: "read_program", input: { name: "program-1" } },
    );
    await build("serve");
    expect(toldModel()).toContain("listening\\n\\n[still running]");
    const pid = Number(readFileSync(join(tree(), "pid"), "utf8"));
    // The process that inherited it reaps it in its own time.
    await expect.poll(() => existsSync(`/proc/${pid}`), { timeout: 10_000 }).toBe(false);
  });

  it("shows people what to do", async () => {
    const entries = [
      { content: "read", status: "completed" },
      { content: "write", status: "pending" },
    ];
    calling({ name: "todo", input: { entries } });
    const { events } = await build("plan");
    const plan = entries.map(({ content: text, status }) => ({ text, status }));
    expect(events).toContainEqual(expect.objectContaining({ kind: "plan", entries: plan }));
  });

  it("shows the model an image", async () => {
    const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    writeFileSync(join(tree(), "dot.png"), Buffer.from(png, "base64"));
    for (const model of ["anthropic:claude-test", "openai:gpt-test", "google:gemini-test"]) {
      const before = agent.providers.requests.length;
      agent.answers = ({ number }) =>
        number === before + 1 ? { tools: [{ name: "view_image", input: { path: "dot.png" } }] } : { text: "red" };
      expect(endOf(await build("look", { model, home: join(folder(), model.slice(0, 4)) }))).toMatchObject({
        end: "finished",
      });
      expect(toldModel()).toContain(png);
    }
  });
});
