import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type CommandPlace, createCommandPlace } from "../support/command.ts";
import { type FakeAnswer, type FakeProviders, startFakeProviders } from "../support/fake-providers.ts";

// `build --brief` as a person types it, with the real command, its own database and a model on
// loopback.

const plan = {
  name: "note",
  description: "One note.",
  tasks: [
    {
      id: "note",
      title: "The note",
      agent: "backend",
      instructions: "Write note.txt.",
      acceptance: [{ check: "test -e note.txt" }],
    },
  ],
  gates: { testing: { command: "echo 1..1; echo ok 1 - fine" } },
};

describe("the command, with a brief", { timeout: 600_000 }, () => {
  let providers: FakeProviders;
  let thoughts = 0;
  /**
   * One of many calls, each for another file. It costs 0.039 USD, or less if fewer tokens are
   * granted.
   */
  const thought = (granted: number): FakeAnswer => {
    thoughts += 1;
    const input = { path: `file-${thoughts}.txt` };
    return { tools: [{ name: "read_file", input }], inputTokens: 3_000, outputTokens: Math.min(2_000, granted) };
  };
  let place: CommandPlace;
  beforeAll(async () => {
    providers = await startFakeProviders(({ body }) => {
      const said = JSON.stringify(body.messages);
      if (said.includes("think for ever")) return thought(body.max_tokens);
      if (said.includes('"role":"assistant"')) return { text: "done" };
      if (said.includes("Make the plan for") || said.includes("In my own words:"))
        return { tools: [{ name: "submit_result", input: plan }] };
      if (said.includes("# Review of wave")) return { tools: [{ name: "submit_result", input: { findings: [] } }] };
      return { tools: [{ name: "write_file", input: { path: "note.txt", content: "written" } }] };
    });
    place = createCommandPlace({
      WAVESMITH_MODEL: "anthropic:claude-sonnet-4-5",
      ANTHROPIC_API_KEY: "a-key-of-the-test",
      ANTHROPIC_BASE_URL: providers.url,
    });
  });
  afterAll(async () => {
    place.close();
    await providers.close();
  });

  it("shows its plan, exits with 5, and continues with the plan after an edit", async () => {
    const shown = await place.run("build", "--brief", "a note that says so");
    expect([shown.code, shown.text]).toEqual([5, expect.stringContaining("note: 1 task of 1 role in 1 wave")]);
    const [, file] = /to read and edit: (\S+)/.exec(shown.text)!;
    const id = /bld_\w+/.exec(shown.text)![0];
    expect(shown.text).toContain(`resume ${id} --data`);
    writeFileSync(file!, readFileSync(file!, "utf8").replace("title: The note", "title: The edited note"));
    const ended = await place.run("resume", id, "--plan", file!);
    expect([ended.code, ended.text]).toEqual([0, expect.stringContaining("2 of 2 tasks completed")]);
    expect((await place.run("builds")).text).toContain("a note that says so");
  });

  it("does not ask with --yes, and reports everything as JSON lines", async () => {
    const { code, text } = await place.run("build", "--brief", "another note", "--yes", "--json", "--project", "other");
    const lines = text
      .split("\n")
      .filter((line) => line.startsWith("{"))
      .map((line) => JSON.parse(line));
    expect([code, lines[0].type, lines.at(-1).status], text).toEqual([0, "build.started", "completed"]);
    expect(lines.map(({ type }) => type)).toContain("agent/execution.planner");
    expect(lines.map(({ type }) => type)).not.toContain("project/approval.requested");
  });

  it("ends when its planner has used up the budget, says so, and makes no further call", async () => {
    const said = ["build", "--brief", "think for ever", "--budget", "usd=0.2,tokens=1000000", "--project", "dear"];
    const { code, text } = await place.run(...said);
    expect(code, text).toBe(1);
    expect(text).toContain("wavesmith: over budget:");
    expect(text).toContain("of 0.20 USD");
    const id = /bld_\w+/.exec(text)![0];
    const { spent, tasks } = JSON.parse((await place.run("status", id, "--json")).text);
    expect(tasks).toMatchObject([{ id: "plan", status: "failed", reason: expect.stringContaining("over budget") }]);
    expect(spent).toMatchObject({ usd: expect.any(Number), calls: thoughts, openCalls: 0 });
    expect(spent.usd).toBeLessThanOrEqual(0.2);
    // Only the calls for which there was room, and none of a second attempt.
    expect(thoughts).toBeGreaterThan(1);
    expect(thoughts).toBeLessThan(10);
    expect(tasks[0].attempts).toBe(1);
  });

  it("asks its planner in the words of a file that was named, and refuses words that lack the brief", async () => {
    const file = join(place.folder, "planner.md");
    writeFileSync(file, "In my own words: {{brief}}\n\n{{handIn}}\n");
    const words = ["build", "--brief", "a note", "--planner-prompt", file, "--project", "worded"];
    const { code, text } = await place.run(...words);
    expect([code, text]).toEqual([5, expect.stringContaining("note: 1 task of 1 role in 1 wave")]);
    const asked = JSON.stringify(providers.requests.map(({ body }) => body.messages));
    expect(asked).toContain("In my own words: ````data brief\\na note".replace("````", "```"));
    // The plan file is complete, so it can be used as an edited plan.
    const [, made] = /to read and edit: (\S+)/.exec(text)!;
    expect((await place.run("plan", made!)).code).toBe(0);
    writeFileSync(file, "In my own words: {{brief}}\n");
    const refused = await place.run(...words);
    expect([refused.code, refused.text]).toEqual([2, expect.stringContaining("lacks {{handIn}}")]);
    const absent = await place.run("build", "--brief", "a note", "--planner-prompt", join(place.folder, "no.md"));
    expect([absent.code, absent.text]).toEqual([2, expect.stringContaining("the planner's prompt cannot be read")]);
  });

  it("says which model or key is missing, and starts nothing", async () => {
    const poor = createCommandPlace();
    try {
      const none = await poor.run("build", "--brief", "a note");
      expect([none.code, none.text]).toEqual([
        4,
        expect.stringContaining("neither WAVESMITH_MODEL nor WAVESMITH_AGENT"),
      ]);
      expect(none.text).not.toContain("creating the database");
    } finally {
      poor.close();
    }
    const keyless = createCommandPlace({ WAVESMITH_MODEL: "openai:gpt-5" });
    try {
      const none = await keyless.run("build", "--brief", "a note");
      expect([none.code, none.text]).toEqual([4, expect.stringContaining("set OPENAI_API_KEY")]);
      expect((await keyless.run("builds", "--json")).text).toContain('"builds":[]');
    } finally {
      keyless.close();
    }
  });
});
