import type { LogChunkRow, Store } from "../parts.ts";

export interface LogCursor {
  /** Returns what these jobs have printed since the last call, by time. */
  next(jobKeys: readonly string[]): Promise<LogChunkRow[]>;
}

const windowSize = 16;

/** Reads the output of jobs incrementally. */
export function createLogCursor(store: Store): LogCursor {
  const read = new Map<string, { from: number; offset: number }>();
  const nextOf = async (jobKey: string): Promise<LogChunkRow[]> => {
    const from = read.get(jobKey)?.from ?? -1;
    for (let limit = windowSize; ; limit *= 8) {
      const latest = await store.logChunks.list({ jobKey }, { by: "startsAt", descending: true, limit });
      const fresh = latest.filter((chunk) => chunk.startsAt > from);
      if (fresh.length === limit) continue;
      return fresh.reverse();
    }
  };
  return {
    async next(jobKeys) {
      // A job's offset shows whether it printed anything new.
      const jobs = jobKeys.length === 0 ? [] : await store.jobs.list({ key: jobKeys });
      const chunks: LogChunkRow[] = [];
      for (const { key, outputOffset } of jobs) {
        if ((read.get(key)?.offset ?? 0) >= outputOffset) continue;
        const fresh = await nextOf(key);
        chunks.push(...fresh);
        read.set(key, { from: fresh.at(-1)?.startsAt ?? read.get(key)?.from ?? -1, offset: outputOffset });
      }
      return chunks.sort((left, right) => left.at.getTime() - right.at.getTime());
    },
  };
}

/** Splits chunks into whole lines. */
export interface LineSplitter {
  take(source: string, text: string): string[];
  /** Returns an ended source's incomplete last line; null if there is none. */
  rest(source: string): string | null;
}

export function createLineSplitter(): LineSplitter {
  const partial = new Map<string, string>();
  return {
    take(source, text) {
      const lines = `${partial.get(source) ?? ""}${text}`.split("\n");
      partial.set(source, lines.pop()!);
      return lines;
    },
    rest(source) {
      const left = partial.get(source) ?? "";
      partial.delete(source);
      return left === "" ? null : left;
    },
  };
}
