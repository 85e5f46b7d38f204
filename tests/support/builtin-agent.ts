import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { afterEach, beforeEach } from "vitest";
import type { AgentHostRequest } from "../../src/agent-host/protocol.ts";
import { commandOf, hostFixture } from "./agent-host.ts";
import { type FakeAnswer, type FakeProviders, type FakeRequest, startFakeProviders } from "./fake-providers.ts";

type Answer = (request: FakeRequest) => FakeAnswer | Promise<FakeAnswer>;

/** Runs the built-in agent in a git tree of its own, with fake providers. */
export function builtinFixture() {
  const host = hostFixture(commandOf("builtin-agent"));
  const tree = () => join(host.folder(), "tree");
  let providers: FakeProviders;
  let answer: Answer;
  beforeEach(async () => {
    answer = () => ({ text: "done" });
    providers = await startFakeProviders((request) => answer(request));
    execFileSync("git", ["init", "-q", tree()]);
  });
  afterEach(() => providers.close());
  const env = () => ({ WAVESMITH_MODEL_URL: providers.url, WAVESMITH_MODEL_TOKEN: "wst_test" });
  return {
    ...host,
    tree,
    env,
    get providers() {
      return providers;
    },
    get answers(): Answer {
      return answer;
    },
    set answers(next: Answer) {
      answer = next;
    },
    /** Answers with these tool calls one after another, then in words. */
    calling: (...calls: { name: string; input: unknown }[]) => {
      answer = ({ number }) => {
        const tool = calls[number - 1];
        return tool === undefined ? { text: "all done" } : { tools: [tool] };
      };
    },
    build: (prompt: string, more: Partial<AgentHostRequest> = {}, ownEnv: Record<string, string> = {}) =>
      host.start(host.requestOf(prompt, { model: "anthropic:claude-test", ...more }), { ...env(), ...ownEnv }).ended,
    /**
     * The last request that the model received, as text: it contains the result of every tool call.
     */
    toldModel: () => JSON.stringify(providers.requests.at(-1)?.body),
  };
}
