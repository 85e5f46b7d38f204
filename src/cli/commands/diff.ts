import { WavesmithError } from "../../domain/errors.ts";
import type { Context } from "../context.ts";
import { exit } from "../errors.ts";
import { findBuild } from "../find-build.ts";
import { createWorkspaceFor, type Store } from "../parts.ts";
import { withStore } from "../reading.ts";

export interface DiffOptions {
  readonly task?: string;
  readonly wave?: string;
}

interface Span {
  readonly projectId: string;
  readonly from: string;
  readonly to: string;
}

const maxBytes = 64 * 1024 * 1024;

/** `diff BUILD [--task ID|--wave N]`: what a build, one of its tasks or one of its waves changed, as a unified diff. */
export function diff(context: Context, name: string, options: DiffOptions): Promise<number> {
  if (options.task !== undefined && options.wave !== undefined) {
    throw new WavesmithError("usage", "diff takes --task or --wave, not both");
  }
  return withStore(context, "diff", {
    unused: (config) => {
      throw new WavesmithError("not-found", `there is no build in ${config.dataDir} yet`, {
        remedy: context.hints.command("build PLAN"),
      });
    },
    read: async ({ config, store }) => {
      const span = await spanOf(store, await findBuild(store, context, name), options);
      const workspace = await createWorkspaceFor(config);
      const projectId = span.projectId as never;
      if (context.json)
        context.out.json({ ...span, files: await workspace.changedFiles(projectId, span.from, span.to) });
      else context.out.raw(await workspace.diff(projectId, span.from, span.to, { maxBytes }));
      return exit.ok;
    },
  });
}

async function spanOf(store: Store, buildId: string, { task, wave }: DiffOptions): Promise<Span> {
  const { projectId, baseSha, headSha } = await store.builds.get({ id: buildId });
  if (task !== undefined) return taskSpan(store, { buildId, projectId }, task);
  if (wave !== undefined) return waveSpan(store, { buildId, projectId }, wave);
  if (baseSha === null || headSha === null) throw nothing(`build ${buildId} has changed nothing yet`);
  return { projectId, from: baseSha, to: headSha };
}

const nothing = (message: string): WavesmithError => new WavesmithError("not-found", message);

async function taskSpan(store: Store, build: { buildId: string; projectId: string }, key: string): Promise<Span> {
  const { buildId, projectId } = build;
  const task = await store.tasks.find({ buildId, key });
  if (task === null) throw nothing(`build ${buildId} has no task ${key}`);
  const attempts = await store.attempts.list({ taskId: task.id }, { by: "number" });
  const kept = attempts.findLast((attempt) => attempt.commitSha !== null);
  if (kept === undefined) throw nothing(`task ${key} has changed nothing yet`);
  return { projectId, from: kept.baseSha, to: kept.commitSha! };
}

async function waveSpan(store: Store, build: { buildId: string; projectId: string }, text: string): Promise<Span> {
  const { buildId, projectId } = build;
  if (!/^\d{1,6}$/.test(text)) throw new WavesmithError("usage", `--wave ${text} is no number of a wave`);
  const wave = await store.waves.find({ buildId, number: Number(text) });
  if (wave?.headSha == null) throw nothing(`build ${buildId} has no joined wave ${text}`);
  return { projectId, from: wave.baseSha, to: wave.headSha };
}
