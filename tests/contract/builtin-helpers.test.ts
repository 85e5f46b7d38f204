import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { endOf } from "../support/agent-host.ts";
import { builtinFixture } from "../support/builtin-agent.ts";
import type { FakeRequest } from "../support/fake-providers.ts";

// The built-in agent's helpers: separate conversations for parts of its task.

const agent = builtinFixture();
const { tree, build } = agent;

const delegate = (title: string, instructions = `do ${title}`) => ({
  name: "delegate",
  input: { title, instructions },
});
const textOf = ({ body }: FakeRequest): string => JSON.stringify(body.messages ?? body.contents ?? body.input);
const isHelper = (request: FakeRequest): boolean => textOf(request).includes("You are a helper");
const toolNames = ({ body }: FakeRequest): string[] => body.tools.map(({ name }: { name: string }) => name);
const results = (request: FakeRequest): number => textOf(request).match(/"tool_result"/g)?.length ?? 0;

it("gives a part of its task to a helper, and reads only the helper's report", async () => {
  agent.answers = (request) => {
    if (!isHelper(request)) {
      return results(request) === 0 ? { tools: [delegate("the search", "find the door")] } : { text: "all done" };
    }
    if (results(request) > 0) return { text: "the door is in a.txt" };
    return { text: "I look", tools: [{ name: "write_file", input: { path: "a.txt", content: "door" } }] };
  };
  const ended = await build("make the house");
  expect(endOf(ended)).toMatchObject({ end: "finished" });
  expect(readFileSync(join(tree(), "a.txt"), "utf8")).toBe("door");
  const [helpers, own] = [
    agent.providers.requests.filter(isHelper),
    agent.providers.requests.filter((one) => !isHelper(one)),
  ];
  expect([helpers.length, own.length]).toEqual([2, 2]);
  expect(textOf(helpers[0]!)).toContain("find the door");
  expect(textOf(helpers[0]!)).not.toContain("make the house");
  expect(textOf(own[1]!)).toContain("the door is in a.txt");
  expect(textOf(own[1]!)).not.toContain("I look");
  const titles = ended.events.flatMap((event) => (event.kind === "tool" ? [`${event.title} ${event.status}`] : []));
  expect(titles).toContain("Delegate the search completed");
  expect(titles).toContain("helper 1: Write a.txt completed");
  expect(ended.events).toContainEqual(
    expect.objectContaining({ kind: "thought", text: "helper 1: the door is in a.txt" }),
  );
});

it("gives a helper no helpers, no todo list and no way to submit the task's result", async () => {
  const result = { schema: { type: "object" }, file: join(agent.folder(), "result.json") };
  agent.answers = (request) => {
    if (isHelper(request)) return { text: "nothing" };
    const next = [delegate("it"), { name: "submit_result", input: {} }][results(request)];
    return next === undefined ? { text: "done" } : { tools: [next] };
  };
  expect(endOf(await build("give", { result }))).toMatchObject({ end: "finished" });
  const [own, helper] = [agent.providers.requests[0]!, agent.providers.requests.find(isHelper)!].map(toolNames);
  expect(own!.filter((name) => !helper!.includes(name)).sort()).toEqual(["delegate", "submit_result", "todo"]);
});

it("lets helpers of one step work at the same time, at most four of them", async () => {
  let working = 0;
  let most = 0;
  let letAllGo: () => void = () => undefined;
  const allBegun = new Promise<void>((resolve) => {
    letAllGo = resolve;
  });
  agent.answers = async (request) => {
    if (!isHelper(request)) {
      return results(request) > 0 ? { text: "done" } : { tools: [1, 2, 3, 4, 5].map((one) => delegate(`part ${one}`)) };
    }
    working += 1;
    most = Math.max(most, working);
    if (working === 4) letAllGo();
    await allBegun;
    working -= 1;
    return { text: "report" };
  };
  expect(endOf(await build("share it"))).toMatchObject({ end: "finished" });
  expect(most).toBe(4);
  expect(agent.toldModel().match(/"report"/g)).toHaveLength(4);
  expect(agent.toldModel()).toContain("not done: 4 helpers are working: wait for their reports");
});

it("continues a helper's answer that was cut, and says when a helper failed", async () => {
  let cuts = 0;
  agent.answers = (request) => {
    if (!isHelper(request)) {
      const next = [delegate("one"), delegate("two")][results(request)];
      return next === undefined ? { text: "done" } : { tools: [next] };
    }
    if (textOf(request).includes("do two")) return { status: 400, message: "no such thing" };
    cuts += 1;
    return cuts === 1 ? { text: "half a rep", atLimit: true } : { text: "whole report" };
  };
  expect(endOf(await build("share it"))).toMatchObject({ end: "finished" });
  expect(agent.toldModel()).toContain("whole report");
  expect(agent.toldModel()).toContain("not done: the helper failed: the model failed (400): no such thing");
});

it("interrupts its helpers when it is interrupted itself", async () => {
  let tell: () => void = () => undefined;
  let helperCalls = 0;
  agent.answers = (request) => {
    if (textOf(request).includes("Stop that.")) return { text: "stopped" };
    if (!isHelper(request)) return { tools: [delegate("for ever")] };
    helperCalls += 1;
    if (helperCalls === 3) tell();
    return { tools: [{ name: "exec", input: { command: `echo ${helperCalls}; sleep 0.05` } }] };
  };
  const run = agent.start(agent.requestOf("work", { model: "anthropic:claude-test" }), agent.env());
  tell = () => run.tell({ message: 1, by: "ada", text: "Stop that.", urgent: true });
  expect(endOf(await run.ended)).toMatchObject({ end: "finished" });
  expect(agent.toldModel()).toContain("Stop that.");
});
