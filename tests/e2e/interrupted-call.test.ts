import { afterAll, beforeAll, expect, it } from "vitest";
import { type AgentPlace, openAgentPlace } from "../support/agent-place.ts";
import { requires } from "../support/require.ts";

// Ctrl-C while an agent waits for its model's answer.

let place: AgentPlace;
beforeAll(async () => {
  if (requires("bubblewrap")) place = await openAgentPlace("builtin", "local");
});
afterAll(() => place?.close());

it.runIf(requires("bubblewrap"))(
  "a cancelled build counts the call that Ctrl-C broke off before it says what was spent",
  { timeout: 120_000 },
  async () => {
    let asked: () => void = () => undefined;
    const isAsked = new Promise<void>((resolve) => {
      asked = resolve;
    });
    let answer: () => void = () => undefined;
    const isOver = new Promise<void>((resolve) => {
      answer = resolve;
    });
    place.model = async () => {
      asked();
      await isOver;
      return { text: "nobody hears this" };
    };
    const build = place.command.start("build", place.plan([{ id: "api" }]));
    await isAsked;
    build.child.kill("SIGINT");
    expect(await build.ended).toBe(3);
    answer();
    const [call] = await place.store.modelCalls.list({});
    expect(call).toMatchObject({ status: "cut", estimated: true });
    const spent = `${(call!.inputTokens! / 1_000).toFixed(1)}k tokens, 0.0`;
    expect(build.text()).toMatch(new RegExp(`^spent on models: ${spent}\\d+ USD \\(1 call estimated\\)$`, "m"));
    expect(build.text()).toMatch(/^ {2}api: cancelled after .*(?:estimated\)|, 1 call not counted yet): cancelled/m);
  },
);
