import type { Inngest, InngestFunction } from "inngest";
import { createEngine } from "../src/engine/engine.ts";
import type { Engine } from "../src/engine/port.ts";
import { createCaller } from "../src/engine/sdk/caller.ts";
import { createEngineClient } from "../src/engine/sdk/client.ts";
import type { Database } from "../src/store/connection/connection.ts";

const silent = (): void => undefined;
export const quiet = { info: silent, warn: silent, error: silent, debug: silent };

/** Creates an SDK client as builds use it, with this `fetch`. */
export const clientWith = (fetch: typeof globalThis.fetch): Inngest.Any =>
  createEngineClient({ id: "bench", fetch, logger: quiet });

/** Runs `work` with an embedded engine that runs these functions. */
export async function withEngine<Result>(
  database: Database,
  functions: (client: Inngest.Any) => InngestFunction.Any[],
  work: (engine: Engine) => Promise<Result>,
): Promise<Result> {
  const engine = createEngine({ database: database.pool, partition: () => null, logger: quiet });
  const client = clientWith(engine.fetch);
  await engine.register(client, functions(client));
  engine.start("all");
  try {
    return await work(engine);
  } finally {
    await engine.stop();
  }
}

export interface BareCalls {
  /** The event that starts the function. */
  readonly name: string;
  readonly make: (client: Inngest.Any) => InngestFunction.Any;
  /** Runs before each request is answered; default: nothing. */
  readonly work?: () => Promise<void>;
}

/** The SDK alone: a run is one call of its handler, without an engine behind it. */
export async function createBareCalls({ name, make, work = async () => undefined }: BareCalls) {
  const client = clientWith(async () => {
    await work();
    return new Response(null, { status: 200 });
  });
  const made = make(client);
  const caller = createCaller(client, [made]);
  await caller.configs();
  const plain = { generation: 1, kind: "call", stepId: null, attempt: 0, partition: null, forcePlan: false } as const;
  let calls = 0;
  return async (data: Record<string, unknown>): Promise<void> => {
    calls += 1;
    const event = { name, id: `bare:${calls}`, data, ts: Date.now() };
    const job = { ...plain, id: calls, runId: `run_${calls}`, functionId: `bench-${made.id()}`, event, steps: [] };
    const { status } = await caller.call(job, 1);
    if (status !== 206) throw new Error(`a bare call was answered with ${status}`);
  };
}
