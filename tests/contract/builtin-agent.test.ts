import { existsSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { endOf } from "../support/agent-host.ts";
import { builtinFixture } from "../support/builtin-agent.ts";

const agent = builtinFixture();
const { folder, requestOf, start, tree, env, build, calling, toldModel } = agent;

const file = (name: string) => readFileSync(join(tree(), name), "utf8");

describe("the built-in agent", () => {
  it.each(["anthropic:claude-test", "openai:gpt-test", "google:gemini-test", "compatible:llama-test"])(
    "works with %s: writes, reads, edits, lists, searches and runs in its tree",
    async (model) => {
      calling(
        { name: "write_file", input: { path: "src/a.txt", content: "one\ntwo\n" } },
        { name: "edit_file", input: { path: "src/a.txt", old: "two", new: "three" } },
        { name: "read_file", input: { path: "src/a.txt" } },
        { name: "list_files", input: {} },
        { name: "search", input: { pattern: "thr.e" } },
        { name: "exec", input: { command: "echo ran; exit 3" } },
      );
      const ended = await build("make it", { model });
      expect(endOf(ended)).toMatchObject({ end: "finished" });
      expect(file("src/a.txt")).toBe("one\nthree\n");
      expect(ended.said).toContain("all done");
      for (const part of ["one\\\\nthree", "src/a.txt:2:three", "ran\\\\n\\\\n[exit code 3]"]) {
        expect(toldModel()).toContain(part.replaceAll("\\\\", "\\"));
      }
      const shown = [
        { kind: "diff", path: "src/a.txt", added: 1, removed: 1 },
        { kind: "tool", title: "echo ran; exit 3", status: "failed" },
      ];
      for (const event of shown) expect(ended.events).toContainEqual(expect.objectContaining(event));
      const { authorization, "x-goog-api-key": googleKey } = agent.providers.requests[0]!.headers;
      expect(googleKey ?? authorization).toMatch(/^(Bearer )?wst_test$/);
    },
  );

  it("is shown the images of its instructions, where its model sees images", async () => {
    writeFileSync(join(tree(), "page.png"), "not really a page");
    const data = Buffer.from("not really a page").toString("base64");
    await build("make the page", { images: ["page.png"] });
    expect(toldModel()).toContain(data);
    await build("make the page", { images: ["page.png"], model: "compatible:llama-test" });
    expect(toldModel()).not.toContain(data);
  });

  it("is not started without the images of its instructions", async () => {
    symlinkSync("/etc/hostname", join(tree(), "out.png"));
    for (const [image, why] of [
      ["none.png", "is not in its tree"],
      ["out.png", "is a link to a file outside its tree"],
    ] as const) {
      const detail = expect.stringContaining(`the image ${image} of its instructions ${why}`);
      expect(endOf(await build("make the page", { images: [image] }))).toMatchObject({ end: "not-started", detail });
    }
    expect(agent.providers.requests).toEqual([]);
  });

  it("lets the model read a person's message between two tool calls, and before its work ends", async () => {
    let tell: (message: number, text: string) => void = () => undefined;
    agent.answers = ({ number, body }) => {
      const read = JSON.stringify(body);
      if (number === 1) tell(7, "Call it b.txt.");
      // Without the message the model would work for ever.
      if (!read.includes("Call it b.txt.")) return { tools: [{ name: "exec", input: { command: `echo ${number}` } }] };
      if (!read.includes("Say goodbye.")) tell(8, "Say goodbye.");
      return { text: `answer ${number}` };
    };
    const run = start(requestOf("make it", { model: "anthropic:claude-test" }), env());
    tell = (message, text) => run.tell({ message, by: "ada", text, urgent: false });
    const ended = await run.ended;
    expect(endOf(ended)).toMatchObject({ end: "finished" });
    expect(ended.events.filter(({ kind }) => kind === "told")).toMatchObject([{ message: 7 }, { message: 8 }]);
    expect(toldModel()).toContain("Say goodbye.");
    const prompts = agent.providers.requests
      .at(-1)
      ?.body.messages.filter(({ role }: { role: string }) => role === "user");
    expect(JSON.stringify(prompts).match(/Call it b\.txt\./g)).toHaveLength(1);
  });

  it("repeats a step whose answer broke off, with the results before it, and gives up in the end", async () => {
    agent.answers = ({ number }) => {
      if (number === 1) return { tools: [{ name: "write_file", input: { path: "a.txt", content: "one" } }] };
      return number <= 3 ? { text: "half of it", cut: true } : { text: "all done" };
    };
    const ended = await build("make it");
    expect(endOf(ended)).toMatchObject({ end: "finished" });
    expect(ended.said).toContain("all done");
    expect(agent.providers.requests).toHaveLength(4);
    const [, ...later] = agent.providers.requests.map(({ body }) => body.messages.length);
    expect(new Set(later).size).toBe(1);
    agent.answers = () => ({ text: "half of it", cut: true });
    expect(endOf(await build("make it"))).toMatchObject({ end: "model-error" });
    expect(agent.providers.requests).toHaveLength(10);
  });

  it("repeats a step whose tool call Gemini itself could not read, and gives up in the end", async () => {
    const malformed = { finishReason: "MALFORMED_FUNCTION_CALL" };
    agent.answers = ({ number }) => {
      if (number === 1) return { tools: [{ name: "write_file", input: { path: "a.txt", content: "one" } }] };
      return number === 2 ? malformed : { text: "all done" };
    };
    const model = "google:gemini-test";
    const ended = await build("make it", { model });
    expect(endOf(ended)).toMatchObject({ end: "finished" });
    expect(ended.said).toContain("all done");
    const [, second, third] = agent.providers.requests.map(({ body }) => JSON.stringify(body.contents));
    expect(third).toBe(second);
    agent.answers = () => malformed;
    const given = endOf(await build("make it", { model }));
    expect(given).toMatchObject({ end: "model-error", detail: expect.stringContaining("cannot be read") });
    expect(agent.providers.requests).toHaveLength(9);
  });

  it("never overwrites a file that somebody else has changed since it read it", async () => {
    writeFileSync(join(tree(), "shared.txt"), "one\n");
    agent.answers = ({ number }) => {
      if (number === 1) return { tools: [{ name: "read_file", input: { path: "shared.txt" } }] };
      if (number === 2) {
        writeFileSync(join(tree(), "shared.txt"), "one\nof somebody else\n");
        return { tools: [{ name: "edit_file", input: { path: "shared.txt", old: "one", new: "mine" } }] };
      }
      return { text: "well" };
    };
    await build("change it");
    expect(file("shared.txt")).toBe("one\nof somebody else\n");
    expect(toldModel()).toContain("has changed since you read it");
  });

  it.each([
    ["a file it has not read", { path: "known.txt", content: "x" }, "before you change it"],
    ["a file outside of its tree", { path: "../out.txt", content: "x" }, "outside your tree"],
    ["a hook of git", { path: ".git/hooks/pre-commit", content: "x" }, "do not touch files in .git"],
  ])("does not write %s, and tells the model why", async (_what, input, why) => {
    writeFileSync(join(tree(), "known.txt"), "known");
    calling({ name: "write_file", input });
    expect((await build("write")).code).toBe(0);
    expect(toldModel()).toContain(why);
    expect(file("known.txt")).toBe("known");
    expect(existsSync(join(folder(), "out.txt"))).toBe(false);
  });

  it("changes nothing in a role that only reads", async () => {
    calling({ name: "write_file", input: { path: "a.txt", content: "x" } });
    await build("write", { readOnly: true });
    expect(existsSync(join(tree(), "a.txt"))).toBe(false);
    expect(toldModel()).toContain("it was not allowed");
  });

  it("ends a command that takes too long, with every process it started", async () => {
    calling({ name: "exec", input: { command: "echo begun; sleep 999 & sleep 999", timeoutSeconds: 1 } });
    await build("run");
    expect(toldModel()).toContain("begun\\n\\n[ended after 1 s]");
  });

  it.each([
    [400, "model-error"],
    [401, "not-signed-in"],
    [429, "model-error"],
    [500, "model-error"],
  ])("says so when the model answers %i", async (status, end) => {
    for (const model of ["anthropic:claude-test", "google:gemini-test"]) {
      agent.answers = () => ({ status, message: "as the provider says" });
      const ended = endOf(await build("work", { model }));
      expect(ended).toMatchObject({ end, detail: expect.stringContaining(String(status)) });
      expect(ended).toMatchObject({ detail: expect.stringContaining("as the provider says") });
    }
  });

  it.each(["anthropic:claude-test", "google:gemini-test"])("says so when the budget is used up (%s)", async (model) => {
    agent.answers = () => ({ status: 402, message: "wavesmith: over budget: 10 of 10 tokens are spent" });
    expect(endOf(await build("work", { model }))).toMatchObject({ end: "over-budget" });
  });

  it("tells the model about invalid tool calls, and continues", async () => {
    calling({ name: "no_such_tool", input: {} }, { name: "read_file", input: { wrong: 1 } });
    expect(endOf(await build("work"))).toMatchObject({ end: "finished" });
  });

  it("says that a model is missing, or that a name is invalid", async () => {
    expect(endOf(await build("work", { model: null }))).toMatchObject({ detail: expect.stringContaining("no model") });
    expect(endOf(await build("work", { model: "claude" }))).toMatchObject({
      detail: expect.stringContaining("provider:model"),
    });
  });

  it("continues an earlier session, with its messages", async () => {
    agent.answers = () => ({ text: "remember the blue house" });
    await build("first");
    await build("second");
    expect(toldModel()).toContain("remember the blue house");
  });

  it.each(["anthropic:claude-test", "google:gemini-test"])(
    "submits a result with the tool it is given (%s)",
    async (model) => {
      const result = {
        schema: { type: "object", properties: { n: { type: "integer" } }, required: ["n"] },
        file: join(folder(), "result.json"),
      };
      calling({ name: "submit_result", input: { n: "x" } }, { name: "submit_result", input: { n: 1 } });
      expect((await build("give", { result, model })).code).toBe(0);
      expect(JSON.parse(readFileSync(result.file, "utf8"))).toEqual({ n: 1 });
    },
  );

  it("keeps a long conversation within the model's window", async () => {
    writeFileSync(join(tree(), "long.txt"), `${"word ".repeat(20)}\n`.repeat(2_000));
    agent.answers = ({ number }) =>
      number <= 12 ? { tools: [{ name: "read_file", input: { path: "long.txt", from: number } }] } : { text: "done" };
    await build("read a lot");
    expect(toldModel().length).toBeLessThan(200_000 * 3.5);
    expect(toldModel()).toContain("removed to save space");
  });
});
