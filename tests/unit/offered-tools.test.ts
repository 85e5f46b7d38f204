import { createRequire } from "node:module";
import { expect, it } from "vitest";
import { offersTools } from "../../src/models/requests/offered-tools.ts";
import type { Fields } from "../../src/models/requests/parts.ts";

interface Captured {
  readonly agent: string;
  readonly path: string;
  readonly body: Fields;
}
const captured: readonly Captured[] = createRequire(import.meta.url)("../support/captured-requests.json");

it("tells the calls that do an agent's work from those that name its session", () => {
  const work = captured.map(({ agent, path, body }) => {
    const model = body.model ?? /models\/([^:]+)/.exec(path)?.[1];
    return `${agent} ${model} ${offersTools(body) ? "works" : "asks"}`;
  });
  expect(new Set(work)).toMatchInlineSnapshot(`
    Set {
      "claude-agent-acp 0.100.0 claude-sonnet-4-5 works",
      "claude-agent-acp 0.100.0 claude-sonnet-4-5 asks",
      "codex-acp 2.6.0 gpt-5 works",
      "codex-acp 2.6.0 gpt-6-sol works",
      "codex-acp 2.6.0 gpt-5.6-luna asks",
      "gemini-cli 0.61.0 gemini-2.5-pro works",
      "opencode 1.18.33 claude-sonnet-4-5 asks",
      "opencode 1.18.33 claude-sonnet-4-5 works",
      "opencode 1.18.33 gpt-5 asks",
      "opencode 1.18.33 gpt-5 works",
      "opencode 1.18.33 gemini-2.5-pro asks",
      "opencode 1.18.33 gemini-2.5-pro works",
      "opencode 1.18.33 llama asks",
      "opencode 1.18.33 llama works",
    }
  `);
});
