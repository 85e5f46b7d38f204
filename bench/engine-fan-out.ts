import type { Inngest } from "inngest";
import { commitRow, withDatabase } from "./database.ts";
import { interleaved } from "./measure.ts";
import type { Benchmark } from "./target.ts";
import { createBareCalls, withEngine } from "./world.ts";

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
      const bareCall = await createBareCalls({
        name: "bench/one",
        make: (client) => oneStep(client, () => undefined),
      });
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
            for (let id = 0; id < runs; id += 1) await bareCall({ key: `key-${id % keys}` });
          };
          const commits = async (): Promise<void> => {
            for (let at = 0; at < runs; at += 1) await commitRow(database);
          };
          await bareCall({ key: "key-0" });
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
