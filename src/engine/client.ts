import { Inngest, type Logger } from "inngest";

export interface EngineClientOptions {
  readonly id: string;
  readonly fetch: typeof globalThis.fetch;
  readonly logger: Logger;
}

/**
 * The client of the Inngest SDK for functions that an engine runs: all it asks of a server goes to
 * the engine's `fetch`.
 */
export function createEngineClient({ id, fetch, logger }: EngineClientOptions): Inngest {
  return new EngineClient({
    id,
    isDev: true,
    baseUrl: "http://engine.invalid",
    eventKey: "embedded",
    fetch,
    logger,
    internalLogger: logger,
  });
}

/**
 * There are no branch environments here. The SDK looks for the name of one with every step it
 * saves, through all of the process's environment.
 */
class EngineClient extends Inngest {
  override get env(): null {
    return null;
  }
}
