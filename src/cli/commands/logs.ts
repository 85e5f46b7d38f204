import { setTimeout as delay } from "node:timers/promises";
import type { LogSource } from "../../api/log-sources.ts";
import type { BuildView } from "../../coordinator/build/build-view.ts";
import { WavesmithError } from "../../domain/errors.ts";
import { present } from "../../domain/known.ts";
import { endedBuildStatuses } from "../../domain/status.ts";
import { chooseBuild } from "../builds/choose-build.ts";
import { createLineSplitter, createLogCursor, type JobChunk } from "../builds/log-reader.ts";
import { withBuilds } from "../builds/open.ts";
import type { Builds } from "../builds/port.ts";
import type { Context } from "../context.ts";
import { watchInterrupts } from "../interrupts.ts";
import { exit } from "../output/exit-codes.ts";
import { harmless } from "../output/format.ts";
import { agentLines } from "../parts.ts";

export interface LogsOptions {
  readonly task?: string;
  /** Only what previews printed. */
  readonly preview?: boolean;
  readonly follow?: boolean;
}

const pollMs = 250;

/** `logs BUILD`: prints the output of agents and gates, line by line, by time. */
export function logs(context: Context, name: string | undefined, options: LogsOptions): Promise<number> {
  return withBuilds(context, "logs", async (builds) => {
    const buildId = await chooseBuild(builds, context, name);
    const { view } = await builds.see(buildId);
    refuseUnknownTask(view, options.task);
    const stop = watchInterrupts(process);
    context.out.onClosed(() => stop.raise());
    try {
      await print({ context, builds, buildId, options, stopped: () => stop.count > 0 });
    } finally {
      stop.dispose();
    }
    return exit.ok;
  });
}

function refuseUnknownTask({ build, tasks }: BuildView, task: string | undefined): void {
  const keys = tasks.map(({ key }) => key);
  if (task === undefined || keys.includes(task)) return;
  throw new WavesmithError("not-found", `build ${build.id} has no task ${task}`, {
    remedy: `its tasks are ${keys.slice(0, 30).join(", ")}`,
  });
}

interface Printing {
  readonly context: Context;
  readonly builds: Builds;
  readonly buildId: string;
  readonly options: LogsOptions;
  readonly stopped: () => boolean;
}

async function print({ context, builds, buildId, options, stopped }: Printing): Promise<void> {
  const cursor = createLogCursor(builds, buildId);
  const write = createWriter(context, await agentLines());
  for (;;) {
    // Read the status before the output, so that nothing is missed when the build ends in between.
    const over = endedBuildStatuses.includes(await builds.status(buildId));
    const all = await builds.jobs(buildId);
    const jobs = all.filter(
      ({ taskKey, label }) =>
        (options.task === undefined || taskKey === options.task) && (options.preview !== true || label === "preview"),
    );
    for (const chunk of await cursor.next(jobs)) write.chunk(jobs, chunk);
    if (over || options.follow !== true || stopped()) {
      write.rest(jobs);
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
    chunk(sources: readonly LogSource[], { jobKey, at, text }: JobChunk): void {
      const source = present(
        sources.find((candidate) => candidate.jobKey === jobKey),
        `the job ${jobKey}`,
      );
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
