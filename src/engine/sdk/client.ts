import { Inngest, type Logger } from "inngest";

export interface EngineClientOptions {
  readonly id: string;
  readonly fetch: typeof globalThis.fetch;
  readonly logger: Logger;
}

/** Creates an Inngest client whose requests all go to the engine's `fetch`, not to a server. */
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
 * An Inngest client without branch environments. Without this, the SDK searches the whole process
 * environment for a branch's name at every step it saves.
 */
class EngineClient extends Inngest {
  override get env(): null {
    return null;
  }
}
