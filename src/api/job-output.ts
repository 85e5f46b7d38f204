import type { LogChunkRow, Store } from "../store/port.ts";
import { type LogSource, logSources } from "./log-sources.ts";

/** A job of a build with how many bytes it has printed, and whether it may print more. */
export interface LoggedJob extends LogSource {
  readonly outputBytes: number;
  readonly ended: boolean;
}

/** A part of a job's output; `startsAt` is its offset in bytes. */
export type LogChunk = Pick<LogChunkRow, "at" | "startsAt" | "text">;

/** Lists every job of a build so far, oldest first. */
export async function jobOutputs(store: Store, buildId: string): Promise<LoggedJob[]> {
  const sources = await logSources(store, buildId);
  if (sources.length === 0) return [];
  const keys = sources.map(({ jobKey }) => jobKey);
  const rows = await store.jobs.pick({ key: keys }, ["key", "outputOffset", "status"]);
  const jobs = new Map(rows.map((row) => [row.key, row]));
  return sources.map((source) => {
    const job = jobs.get(source.jobKey);
    return { ...source, outputBytes: job?.outputOffset ?? 0, ended: job?.status === "ended" };
  });
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
