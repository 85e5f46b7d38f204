import type { Inngest } from "inngest";
import { createCaller } from "../src/engine/caller.ts";
import { commitRow, withDatabase } from "./database.ts";
import { interleaved } from "./measure.ts";
import type { Benchmark } from "./target.ts";
import { clientWith, withEngine } from "./world.ts";

const keys = 4;
const limit = 3;

function oneStep(client: Inngest.Any, ended: () => void) {
  return client.createFunction(
    {
      id: "one-step",
      retries: 0,
      triggers: [{ event: "bench/one" }],
      concurrency: { limit, key: "event.data.key" },
    },
    async ({ event, step }) => {
      const value = await step.run("the step", () => event.data.key as string);
      ended();
      return value;
    },
  );
}

/** The SDK alone: each run is one call of its handler, with what it asks of its server answered at once. */
async function createBareCalls() {
  const client = clientWith(async () => new Response(null, { status: 200 }));
  const functions = [oneStep(client, () => undefined)];
  const caller = createCaller(client, functions);
  await caller.configs();
  const job = {
    generation: 1,
    functionId: "bench-one-step",
    kind: "call" as const,
    stepId: null,
    attempt: 0,
    partition: null,
    forcePlan: false,
    steps: [],
  };
  return async (id: number): Promise<void> => {
    const event = { name: "bench/one", id: `bare:${id}`, data: { key: `key-${id % keys}` }, ts: Date.now() };
    const { status } = await caller.call({ ...job, id, runId: `run_${id}`, event }, 1);
    if (status !== 206) throw new Error(`a bare call was answered with ${status}`);
  };
}

export const engineFanOut: Benchmark = {
  name: "engine-fan-out",
  about: "the embedded engine: many one-step runs under four concurrency keys with limit 3",
  run: ({ smoke }) =>
    withDatabase(async (database) => {
      const [runs, rounds] = smoke ? [20, 1] : [1_000, 5];
      let left = 0;
      let allEnded: () => void = () => undefined;
      const ended = (): void => {
        left -= 1;
        if (left === 0) allEnded();
      };
      const bareCall = await createBareCalls();
      return withEngine(
        database,
        (client) => [oneStep(client, ended)],
        async (engine) => {
          let sent = 0;
          const fanOut = async (): Promise<void> => {
            left = runs;
            const over = new Promise<void>((resolve) => {
              allEnded = resolve;
            });
            const events = Array.from({ length: runs }, () => {
              sent += 1;
              return { name: "bench/one", id: `one:${sent}`, data: { key: `key-${sent % keys}` } };
            });
            await engine.send(events);
            await over;
            await engine.idle();
          };
          const bare = async (): Promise<void> => {
            for (let id = 0; id < runs; id += 1) await bareCall(id);
          };
          const commits = async (): Promise<void> => {
            for (let at = 0; at < runs; at += 1) await commitRow(database);
          };
          await bareCall(0);
          const { ours, calls, rows } = await interleaved(rounds, { ours: fanOut, calls: bare, rows: commits });
          return [
            {
              what: `${runs} one-step runs, ${keys} keys, ${limit} at once each`,
              ours,
              unit: "ms",
              floor: { what: "as many bare calls of the SDK and commits", value: calls + rows },
              limit: 3,
            },
          ];
        },
      );
    }),
};
