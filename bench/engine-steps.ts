import type { Inngest, InngestFunction } from "inngest";
import { commitRow, withDatabase } from "./database.ts";
import { interleaved, median } from "./measure.ts";
import type { Benchmark, Finding } from "./target.ts";
import { createBareCalls, withEngine } from "./world.ts";

/** Returns two functions: one reports its start; the other has many steps and reports its end. */
function functionsOf(client: Inngest.Any, report: (id: string) => void, steps: number) {
  const starts: InngestFunction.Any = client.createFunction(
    { id: "starts", retries: 0, triggers: [{ event: "bench/start" }] },
    async ({ event }) => report(event.id!),
  );
  const sequence: InngestFunction.Any = client.createFunction(
    { id: "sequence", retries: 0, triggers: [{ event: "bench/sequence" }] },
    async ({ event, step }) => {
      for (let at = 0; at < steps; at += 1) await step.run(`step ${at}`, () => at);
      report(event.id!);
    },
  );
  return [starts, sequence] as const;
}

interface Times {
  /** The median from an event to the start of its function. */
  readonly starts: number;
  readonly steps: number;
  readonly ours: number;
  readonly floor: number;
  readonly least: number;
  readonly bare: number;
}

/** Makes the figures of the times in milliseconds. */
function figuresOf({ starts, steps, ours, floor, least, bare }: Times): Finding[] {
  return [
    { what: "event sent until its function starts", ours: starts, unit: "ms", floor: null, limit: 5 },
    {
      what: `one step of a function of ${steps}`,
      ours: ours / steps,
      unit: "ms",
      floor: { what: "one committed row", value: floor / steps },
      limit: 3,
    },
    {
      what: "the same",
      ours: ours / steps,
      unit: "ms",
      floor: { what: "the SDK alone, one committed row for each step", value: least / steps },
      limit: null,
    },
    {
      what: "of which the SDK alone, with no engine and no database",
      ours: bare / steps,
      unit: "ms",
      floor: { what: "one committed row", value: floor / steps },
      limit: null,
    },
  ];
}

export const engineSteps: Benchmark = {
  name: "engine-steps",
  about: "the embedded engine: how soon a function starts, and what each step of a long one takes",
  run: ({ smoke }) =>
    withDatabase(async (database) => {
      const [starts, steps, rounds] = smoke ? [3, 10, 1] : [100, 200, 9];
      const waiting = new Map<string, () => void>();
      const make = (client: Inngest.Any) => functionsOf(client, () => undefined, steps)[1];
      const bareCall = await createBareCalls({ name: "bench/sequence", make });
      const committingCall = await createBareCalls({ name: "bench/sequence", make, work: () => commitRow(database) });
      const functions = (client: Inngest.Any) => [...functionsOf(client, (id) => waiting.get(id)?.(), steps)];
      return withEngine(database, functions, async (engine) => {
        let sent = 0;
        const sendAndAwait = async (name: string): Promise<number> => {
          sent += 1;
          const id = `${name}:${sent}`;
          const begun = performance.now();
          const ended = new Promise<void>((resolve) => waiting.set(id, resolve));
          await engine.send([{ name, id, data: {} }]);
          await ended;
          return performance.now() - begun;
        };
        const commits = async (): Promise<void> => {
          for (let at = 0; at < steps; at += 1) await commitRow(database);
        };
        await sendAndAwait("bench/sequence");
        await commits();
        const begins: number[] = [];
        for (let at = 0; at < starts; at += 1) {
          begins.push(await sendAndAwait("bench/start"));
          await engine.idle();
        }
        const { ours, floor, least, bare } = await interleaved(rounds, {
          ours: () => sendAndAwait("bench/sequence"),
          floor: commits,
          least: () => committingCall({}),
          bare: () => bareCall({}),
        });
        return figuresOf({ starts: median(begins), steps, ours, floor, least, bare });
      });
    }),
};
