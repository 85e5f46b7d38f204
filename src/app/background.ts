import type { Config } from "../config.ts";
import type { Ports } from "../coordinator/port.ts";
import type { Database } from "../store/connection/connection.ts";
import { createPolling } from "./polling.ts";
import { createGarbageCollection, type GarbageCollection } from "./retention/schedule.ts";
import { createScheduling } from "./scheduling.ts";
import type { Tracing } from "./tracing.ts";

/** The other work of a process that drives builds: traces, removing old data, schedules. */
export interface BackgroundWork {
  readonly garbage: GarbageCollection;
  start(projectIds: "all" | ReadonlySet<string>): Promise<void>;
  stop(): Promise<void>;
}

interface BackgroundParts {
  readonly config: Config;
  readonly database: Database;
  readonly ports: Ports;
  readonly warn: (message: string) => void;
}

/** Creates the background work; its code is loaded when it is needed. */
export function createBackgroundWork({ config, database, ports, warn }: BackgroundParts): BackgroundWork {
  const scheduling = createScheduling(ports, config.sandboxDriver, warn);
  const { pollMs: everyMs, triggers } = config.webhooks;
  const polling = everyMs === null ? null : createPolling(ports, { everyMs, triggers }, warn);
  const garbage = createGarbageCollection({ config, pool: database.pool, ports });
  let tracing: Tracing | null = null;
  return {
    garbage,
    async start(projectIds) {
      if (projectIds === "all") {
        garbage.schedule();
        scheduling.start();
        polling?.start();
      }
      if (config.traces === null) return;
      const { startTracing } = await import("./tracing.ts");
      const { store, clock } = ports;
      tracing = startTracing({ settings: config.traces, database, store, warn, now: clock.now });
    },
    stop: () =>
      scheduling
        .stop()
        .finally(() => polling?.stop())
        .finally(() => garbage.stop())
        .finally(() => tracing?.stop()),
  };
}
