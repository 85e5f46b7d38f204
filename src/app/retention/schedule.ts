import { messageOf } from "../../domain/errors.ts";
import type { Collecting } from "./collect-garbage.ts";
import type { Garbage } from "./find-garbage.ts";

const firstMs = 10 * 60_000;
const everyMs = 60 * 60_000;

export interface GarbageCollection {
  /** Finds what would go now, with its size. */
  find(): Promise<Garbage[]>;
  /** Removes it; returns null if another process is already collecting. */
  collect(): Promise<Garbage[] | null>;
  /** Collects in ten minutes and then every hour. */
  schedule(): void;
  stop(): Promise<void>;
}

/** Creates the collector; its code is loaded on first use. */
export function createGarbageCollection(collecting: Collecting): GarbageCollection {
  const { config, pool, ports } = collecting;
  let timer: NodeJS.Timeout | null = null;
  let round: Promise<unknown> = Promise.resolve();
  let isStopped = false;
  const collect = async (): Promise<Garbage[] | null> =>
    (await import("./collect-garbage.ts")).collectGarbage(collecting);
  const runIn = (ms: number): void => {
    if (isStopped) return;
    timer = setTimeout(() => {
      round = collect()
        .catch((error: unknown) => ports.log.warn(`old data could not be removed: ${messageOf(error)}`))
        .finally(() => runIn(everyMs));
    }, ms).unref();
  };
  return {
    async find() {
      const { findGarbage } = await import("./find-garbage.ts");
      return findGarbage({ config, pool, store: ports.store, now: ports.clock.now() });
    },
    collect,
    schedule: () => runIn(firstMs),
    async stop() {
      isStopped = true;
      if (timer !== null) clearTimeout(timer);
      await round;
    },
  };
}
