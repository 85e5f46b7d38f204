import { afterEach, describe, expect, it, vi } from "vitest";
import { createCaller } from "../../src/engine/sdk/caller.ts";
import { createEngineClient } from "../../src/engine/sdk/client.ts";

const silent = () => undefined;
const logger = { info: silent, warn: silent, error: silent, debug: silent };

/**
 * Calls a function with this many steps, each of which is saved; resolves with how many times the
 * environment was read.
 */
async function looksFor(steps: number): Promise<number> {
  let saved = 0;
  const fetch = async () => {
    saved += 1;
    return new Response(null, { status: 200 });
  };
  const client = createEngineClient({ id: "app", fetch, logger });
  const steady = client.createFunction({ id: "steps", triggers: [{ event: "steps" }] }, async ({ step }) => {
    for (let at = 0; at < steps; at += 1) await step.run(`step ${at}`, () => at);
  });
  const caller = createCaller(client, [steady]);
  await caller.configs();
  const own = vi.spyOn(process, "env", "get");
  const event = { name: "steps", id: "steps:1", data: {}, ts: 0 };
  const job = { id: 1, generation: 1, runId: "run_1", functionId: "app-steps", kind: "call", stepId: null } as const;
  await caller.call({ ...job, attempt: 0, partition: null, forcePlan: false, event, steps: [] }, 1);
  expect(saved).toBe(steps);
  return own.mock.calls.length;
}

describe("the client of the functions that an engine runs", () => {
  afterEach(() => {
    vi.restoreAllMocks();
    vi.unstubAllEnvs();
  });

  it("ignores the process's environment", () => {
    vi.stubEnv("INNGEST_ENV", "branch");
    expect(createEngineClient({ id: "app", fetch: globalThis.fetch, logger }).env).toBeNull();
  });

  it("does not go through the process's environment with every step it saves", async () => {
    expect(await looksFor(100)).toBeLessThan(50);
  });
});
