import type { LogChunk, LoggedJob } from "../../api/job-output.ts";
import type { Builds } from "./port.ts";

/** A part of the output of a job. */
export interface JobChunk extends LogChunk {
  readonly jobKey: string;
}

export interface LogCursor {
  /** Returns what these jobs have printed since the last call, by time. */
  next(jobs: readonly LoggedJob[]): Promise<JobChunk[]>;
}

/** Reads the output of a build's jobs incrementally. */
export function createLogCursor(builds: Pick<Builds, "output">, buildId: string): LogCursor {
  const read = new Map<string, { after: number; bytes: number }>();
  return {
    async next(jobs) {
      const chunks: JobChunk[] = [];
      for (const { jobKey, outputBytes } of jobs) {
        let after = read.get(jobKey)?.after ?? -1;
        if ((read.get(jobKey)?.bytes ?? 0) >= outputBytes) continue;
        for (;;) {
          const fresh = await builds.output(buildId, jobKey, after);
          if (fresh.length === 0) break;
          after = fresh.at(-1)!.startsAt;
          chunks.push(...fresh.map((chunk) => ({ ...chunk, jobKey })));
        }
        read.set(jobKey, { after, bytes: outputBytes });
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
