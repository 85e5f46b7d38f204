import type { Config } from "../config.ts";
import { gauge, type Measure } from "../domain/measures.ts";
import { readQueue } from "../engine/queue.ts";
import type { Database } from "../store/connection/connection.ts";
import { sessionOf } from "../store/connection/session.ts";
import { readMeasures } from "../store/statements/measures.ts";

/** Returns what measures the builds, the engine's queue and the database's connections. */
export function createMeasures({ pool }: Database, { engine }: Config): () => Promise<Measure[]> {
  const read = async (): Promise<Measure[]> => {
    const parts = [readMeasures(sessionOf(pool)), engine.kind === "embedded" ? measureQueue(pool) : []];
    return [...(await Promise.all(parts)).flat(), ...measurePool(pool)];
  };
  let underWay: Promise<Measure[]> | null = null;
  // Scrapes at the same moment share one reading, so that many of them cost the database no more
  // than one.
  return () => {
    underWay ??= read().finally(() => {
      underWay = null;
    });
    return underWay;
  };
}

async function measureQueue(pool: Database["pool"]): Promise<Measure[]> {
  const { due, running, lagSeconds } = await readQueue(pool);
  return [
    gauge("wavesmith_engine_calls_due", "Calls of functions that wait for a process.", due),
    gauge("wavesmith_engine_calls_running", "Calls of functions under way, in all processes.", running),
    gauge("wavesmith_engine_lag_seconds", "How long the oldest call has waited for a process.", lagSeconds),
  ];
}

const measurePool = ({ totalCount, idleCount, waitingCount }: Database["pool"]): Measure[] => [
  {
    name: "wavesmith_database_connections",
    type: "gauge",
    help: "Connections of this process to the database.",
    samples: [
      { labels: { state: "busy" }, value: totalCount - idleCount },
      { labels: { state: "idle" }, value: idleCount },
    ],
  },
  gauge("wavesmith_database_waiting", "Callers in this process that wait for a connection.", waitingCount),
];
