import type { TraceSettings } from "../config.ts";
import { messageOf } from "../domain/errors.ts";
import type { Database } from "../store/connection/connection.ts";
import { sessionOf } from "../store/connection/session.ts";
import type { Store } from "../store/port.ts";
import { findEndedWork, markExported } from "../store/statements/ended-work.ts";
import { createOtlpExporter } from "../tracing/otlp.ts";
import { spansOf } from "../tracing/spans.ts";

const everyMs = 5_000;
const lookBackMs = 60 * 60_000;

/** The export of traces while this process drives builds. */
export interface Tracing {
  /** Exports what has ended, then stops. */
  stop(): Promise<void>;
}

interface TracingParts {
  readonly settings: TraceSettings;
  readonly database: Database;
  readonly store: Store;
  readonly warn: (message: string) => void;
  readonly now: () => Date;
}

/**
 * Exports the spans of everything that ended, in one process at a time. What a collector did not
 * take is sent again for an hour.
 */
export function startTracing({ settings, database, store, warn, now }: TracingParts): Tracing {
  const exporter = createOtlpExporter(settings);
  const session = sessionOf(database.pool);
  let trouble = "";
  const exportOnce = async (): Promise<void> => {
    const since = new Date(now().getTime() - lookBackMs);
    const work = await findEndedWork(session, since);
    const spans = spansOf(work);
    if (spans.length === 0) return;
    await exporter.send(spans);
    const rows = [...work.builds, ...work.attempts, ...work.gateRuns, ...work.modelCalls];
    const waves = work.waves.map(({ id, endedAt, passedAt }) => ({ id, endedAt: endedAt ?? passedAt }));
    const ended = [...rows, ...waves].flatMap(({ id, endedAt }) => (endedAt === null ? [] : [{ id, endedAt }]));
    await markExported(session, ended, since);
  };
  const round = (): Promise<void> =>
    store.alone("export traces", exportOnce, { wait: false }).then(
      () => {
        trouble = "";
      },
      (error: unknown) => {
        if (messageOf(error) !== trouble) warn(messageOf(error));
        trouble = messageOf(error);
      },
    );
  let last = Promise.resolve();
  const timer = setInterval(() => {
    last = last.then(round);
  }, everyMs);
  timer.unref();
  return {
    async stop() {
      clearInterval(timer);
      await last.then(round);
    },
  };
}
