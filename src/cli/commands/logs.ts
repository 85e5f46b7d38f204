import { setTimeout as delay } from "node:timers/promises";
import { type LogSource, logSources } from "../../api/log-sources.ts";
import { WavesmithError } from "../../domain/errors.ts";
import { tasksOfBuild } from "../../store/queries/tasks.ts";
import type { Context } from "../context.ts";
import { findBuildOrLatest } from "../data/find-build.ts";
import { createLineSplitter, createLogCursor } from "../data/log-reader.ts";
import { withStore } from "../data/reading.ts";
import { watchInterrupts } from "../interrupts.ts";
import { exit } from "../output/exit-codes.ts";
import { harmless } from "../output/format.ts";
import { agentLines, type LogChunkRow, type Store } from "../parts.ts";

export interface LogsOptions {
  readonly task?: string;
  readonly follow?: boolean;
}

const pollMs = 250;

/** `logs BUILD`: prints the output of agents and gates, line by line, by time. */
export function logs(context: Context, name: string | undefined, options: LogsOptions): Promise<number> {
  return withStore(context, "logs", {
    read: async ({ store }) => {
      const buildId = await findBuildOrLatest(store, context, name);
      await refuseUnknownTask(store, buildId, options.task);
      const stop = watchInterrupts(process);
      context.out.onClosed(() => stop.raise());
      try {
        await print({ context, store, buildId, options, stopped: () => stop.count > 0 });
      } finally {
        stop.dispose();
      }
      return exit.ok;
    },
  });
}

async function refuseUnknownTask(store: Store, buildId: string, task: string | undefined): Promise<void> {
  if (task === undefined || (await store.tasks.find({ buildId, key: task })) !== null) return;
  const keys = (await tasksOfBuild(store, buildId)).map(({ key }) => key);
  throw new WavesmithError("not-found", `build ${buildId} has no task ${task}`, {
    remedy: `its tasks are ${keys.slice(0, 30).join(", ")}`,
  });
}

interface Printing {
  readonly context: Context;
  readonly store: Store;
  readonly buildId: string;
  readonly options: LogsOptions;
  readonly stopped: () => boolean;
}

async function print({ context, store, buildId, options, stopped }: Printing): Promise<void> {
  const cursor = createLogCursor(store);
  const write = createWriter(context, await agentLines());
  for (;;) {
    // Read the status before the output, so that nothing is missed when the build ends in between.
    const { status } = await store.builds.get({ id: buildId });
    const over = ["completed", "failed", "cancelled"].includes(status);
    const all = await logSources(store, buildId);
    const sources = options.task === undefined ? all : all.filter((source) => source.taskKey === options.task);
    for (const chunk of await cursor.next(sources.map((source) => source.jobKey))) write.chunk(sources, chunk);
    if (over || options.follow !== true || stopped()) {
      write.rest(sources);
      return;
    }
    await delay(pollMs);
  }
}

function createWriter({ out, json }: Context, readable: (line: string) => string | null) {
  const splitter = createLineSplitter();
  const line = (label: string, text: string): void => {
    for (const part of readable(text)?.split("\n") ?? [])
      out.line(`${out.paint("accent", `${label}│`)} ${harmless(part)}`);
  };
  return {
    chunk(sources: readonly LogSource[], { jobKey, at, text }: LogChunkRow): void {
      const source = sources.find((candidate) => candidate.jobKey === jobKey)!;
      if (json) {
        out.json({ type: "log", at: at.toISOString(), source: source.label, task: source.taskKey, text });
        return;
      }
      for (const part of splitter.take(jobKey, text)) line(source.label, part);
    },
    rest(sources: readonly LogSource[]): void {
      for (const { jobKey, label } of sources) {
        const left = splitter.rest(jobKey);
        if (left !== null) line(label, left);
      }
    },
  };
}
