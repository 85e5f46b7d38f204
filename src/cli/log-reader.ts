import type { AttemptRow, GateRunRow, LogChunkRow, Store } from "./parts.ts";

/** A job of a build, and the label of its output. */
export interface LogSource {
  readonly jobKey: string;
  /** Such as `api`, `api.2` (its second attempt), `wave-1 testing`, `preview`. */
  readonly label: string;
  readonly taskKey: string | null;
}

/** Returns every job of a build so far, oldest first. */
export async function logSources(store: Store, buildId: string): Promise<LogSource[]> {
  const jobs = await store.jobs.list({ buildId }, { by: "createdAt" });
  const waves = new Map((await store.waves.list({ buildId })).map((wave) => [wave.id, wave.number]));
  const tasks = new Map((await store.tasks.list({ buildId })).map((task) => [task.id, task.key]));
  const attempts = new Map<string, AttemptRow>(
    (await store.attempts.list({ buildId })).map((attempt) => [attempt.id, attempt]),
  );
  const gates = new Map<string, GateRunRow>((await store.gateRuns.list({ buildId })).map((run) => [run.id, run]));
  return jobs.map(({ key: jobKey, ownerKind, ownerId }) => {
    const attempt = attempts.get(ownerId);
    const gate = gates.get(ownerId);
    if (ownerKind === "attempt" && attempt !== undefined) {
      const taskKey = attempt.taskId === null ? null : (tasks.get(attempt.taskId) ?? null);
      const name = taskKey ?? `wave-${waves.get(attempt.waveId)} ${attempt.kind}`;
      return { jobKey, taskKey, label: attempt.number > 1 ? `${name}.${attempt.number}` : name };
    }
    if (ownerKind === "gate" && gate !== undefined) {
      const name = `wave-${waves.get(gate.waveId)} ${gate.gate}`;
      return { jobKey, taskKey: null, label: gate.round > 1 ? `${name}.${gate.round}` : name };
    }
    return { jobKey, taskKey: null, label: ownerKind };
  });
}

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
