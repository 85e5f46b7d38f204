import type { LogChunkRow, Store } from "../store/port.ts";
import { type LogSource, logSources } from "./log-sources.ts";

/** A job of a build with how many bytes it has printed. */
export interface LoggedJob extends LogSource {
  readonly outputBytes: number;
}

/** A part of a job's output; `startsAt` is its offset in bytes. */
export type LogChunk = Pick<LogChunkRow, "at" | "startsAt" | "text">;

/** Lists every job of a build so far, oldest first. */
export async function jobOutputs(store: Store, buildId: string): Promise<LoggedJob[]> {
  const sources = await logSources(store, buildId);
  if (sources.length === 0) return [];
  const keys = sources.map(({ jobKey }) => jobKey);
  const jobs = new Map(
    (await store.jobs.pick({ key: keys }, ["key", "outputOffset"])).map(({ key, outputOffset }) => [key, outputOffset]),
  );
  return sources.map((source) => ({ ...source, outputBytes: jobs.get(source.jobKey) ?? 0 }));
}

/**
 * Reads at most `limit` parts of a job's output that begin after an offset; -1 begins with the
 * first.
 */
export async function outputAfter(
  store: Store,
  jobKey: string,
  { after, limit }: { readonly after: number; readonly limit: number },
): Promise<LogChunk[]> {
  const rows = await store.logChunks.list({ jobKey }, { by: "startsAt", after, limit });
  return rows.map(({ at, startsAt, text }) => ({ at, startsAt, text }));
}
