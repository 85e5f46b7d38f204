import type { Inngest, InngestFunction } from "inngest";
import type { InngestSettings } from "../config/engine.ts";
import type { DomainEvent } from "../domain/events/events.ts";
import { createEngine } from "../engine/engine.ts";
import { createEngineClient } from "../engine/sdk/client.ts";
import { connectInngest } from "../server/inngest.ts";
import type { InngestEndpoint } from "../server/port.ts";
import type { Database } from "../store/connection/connection.ts";
import type { DiskRoom } from "../store/disk-room.ts";
import type { AppOptions } from "./options.ts";

/** Silences the SDK, because our own events and warnings report failed steps. */
const silent = (): void => undefined;
const quiet = { info: silent, warn: silent, error: silent, debug: silent };

/** The engine: ours in this process, or an Inngest server that calls us. */
export interface Runner {
  readonly client: Inngest.Any;
  use(functions: readonly InngestFunction.Any[]): Promise<void>;
  send(events: readonly DomainEvent[]): Promise<void>;
  start(projectIds: "all" | ReadonlySet<string>): void;
  stop(): Promise<void>;
  endpoint(functions: readonly InngestFunction.Any[], origin: string): InngestEndpoint | null;
}

function createEmbeddedRunner({ crashPoint }: AppOptions, database: Database, room: DiskRoom): Runner {
  const warn = (message: string, error?: unknown): void => room.warn(message, error);
  const engine = createEngine({
    database: database.pool,
    partition: (event) => (typeof event.data.projectId === "string" ? event.data.projectId : null),
    crashPoint: crashPoint ?? (() => undefined),
    logger: { warn, error: warn },
  });
  const client = createEngineClient({ id: "wavesmith", fetch: engine.fetch, logger: quiet });
  return {
    client,
    use: (functions) => engine.register(client, functions),
    send: (events) => engine.send(events),
    start: (projectIds) => engine.start(projectIds),
    stop: () => engine.stop(),
    endpoint: () => null,
  };
}

/** Runs on an Inngest server, which calls us while `serve` runs: nothing to start or stop here. */
function createInngestRunner(settings: InngestSettings, warn: (message: string) => void): Runner {
  const { client, send, endpoint } = connectInngest({ ...settings, warn });
  return { client, use: async () => undefined, send, start: () => undefined, stop: async () => undefined, endpoint };
}

/** Creates the engine that the settings name. */
export function createRunner(options: AppOptions, database: Database, room: DiskRoom): Runner {
  const { engine } = options.config;
  return engine.kind === "inngest"
    ? createInngestRunner(engine, options.warn)
    : createEmbeddedRunner(options, database, room);
}
