import { Inngest, type InngestFunction } from "inngest";
import { createEngine } from "../src/engine/engine.ts";
import type { Engine } from "../src/engine/port.ts";
import type { Database } from "../src/store/connection.ts";

const silent = (): void => undefined;
export const quiet = { info: silent, warn: silent, error: silent, debug: silent };

/** A client of the SDK as builds use it, with this `fetch`. */
export const clientWith = (fetch: typeof globalThis.fetch): Inngest.Any =>
  new Inngest({
    id: "bench",
    isDev: true,
    baseUrl: "http://engine.invalid",
    eventKey: "bench",
    fetch,
    logger: quiet,
    internalLogger: quiet,
  });

/** An embedded engine that runs these functions until `work` is done. */
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
