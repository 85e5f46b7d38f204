import { readFileSync, writeFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type CommandPlace, createCommandPlace } from "../support/command.ts";
import { type FakeProviders, startFakeProviders } from "../support/fake-providers.ts";

// `build --brief` as a person types it, with the real command, a database of its own and a model on loopback.

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
  let place: CommandPlace;
  beforeAll(async () => {
    providers = await startFakeProviders(({ body }) => {
      const said = JSON.stringify(body.messages);
      if (said.includes('"role":"assistant"')) return { text: "done" };
      if (said.includes("Make the plan for")) return { tools: [{ name: "submit_result", input: plan }] };
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

  it("shows the plan it had made, ends with 5, and goes on with it once it was edited", async () => {
    const shown = await place.run("build", "--brief", "a note that says so");
    expect([shown.code, shown.text]).toEqual([5, expect.stringContaining("note: 1 task of 1 role in 1 wave")]);
    const [, file] = /to read and to edit: (\S+)/.exec(shown.text)!;
    const id = /bld_\w+/.exec(shown.text)![0];
    expect(shown.text).toContain(`resume ${id} --data`);
    writeFileSync(file!, readFileSync(file!, "utf8").replace("title: The note", "title: The edited note"));
    const ended = await place.run("resume", id, "--plan", file!);
    expect([ended.code, ended.text]).toEqual([0, expect.stringContaining("2 of 2 tasks completed")]);
    expect((await place.run("builds")).text).toContain("a note that says so");
  });

  it("does not ask with --yes, and tells all of it as JSON lines", async () => {
    const { code, text } = await place.run("build", "--brief", "another note", "--yes", "--json", "--project", "other");
    const lines = text
      .split("\n")
      .filter((line) => line.startsWith("{"))
      .map((line) => JSON.parse(line));
    expect([code, lines[0].type, lines.at(-1).status], text).toEqual([0, "build.started", "completed"]);
    expect(lines.map(({ type }) => type)).toContain("agent/execution.planner");
    expect(lines.map(({ type }) => type)).not.toContain("project/approval.requested");
  });

  it("lacks a model or a key, says which, and starts nothing", async () => {
    const poor = createCommandPlace();
    try {
      const none = await poor.run("build", "--brief", "a note");
      expect([none.code, none.text]).toEqual([
        4,
        expect.stringContaining("neither WAVESMITH_MODEL nor WAVESMITH_AGENT"),
      ]);
      expect(none.text).not.toContain("making the database");
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
