import { WavesmithError } from "../../domain/errors.ts";
import type { ProjectId } from "../../domain/ids.ts";
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
  readonly projectId: ProjectId;
  readonly from: string;
  readonly to: string;
}

const maxBytes = 64 * 1024 * 1024;

/** `diff BUILD [--task ID|--wave N]`: what a build, task or wave changed, as a unified diff. */
export function diff(context: Context, name: string, options: DiffOptions): Promise<number> {
  if (options.task !== undefined && options.wave !== undefined) {
    throw new WavesmithError("usage", "diff takes --task or --wave, not both", {
      remedy: "drop one of them",
    });
  }
  return withStore(context, "diff", {
    unused: (config) => {
      throw new WavesmithError("not-found", `there is no build in ${config.dataDir} yet`, {
        remedy: context.hints.command("build PLAN"),
      });
    },
    read: async ({ config, store }) => {
      const buildId = await findBuild(store, context, name);
      const remedy = `see what exists: ${context.hints.command(`status ${buildId}`)}`;
      const nothing: Nothing = (message) => new WavesmithError("not-found", message, { remedy });
      const span = await spanOf({ store, buildId, nothing }, options);
      const workspace = await createWorkspaceFor(config);
      const { projectId } = span;
      if (context.json)
        context.out.json({ ...span, files: await workspace.changedFiles(projectId, span.from, span.to) });
      else context.out.raw(await workspace.diff(projectId, span.from, span.to, { maxBytes }));
      return exit.ok;
    },
  });
}

/** Fails with `not-found` and a remedy that says where to look. */
type Nothing = (message: string) => WavesmithError;

interface Looked {
  readonly store: Store;
  readonly buildId: string;
  readonly nothing: Nothing;
}

async function spanOf(looked: Looked, { task, wave }: DiffOptions): Promise<Span> {
  const { store, buildId, nothing } = looked;
  const { projectId, baseSha, headSha } = await store.builds.get({ id: buildId });
  if (task !== undefined) return taskSpan(looked, projectId, task);
  if (wave !== undefined) return waveSpan(looked, projectId, wave);
  if (baseSha === null || headSha === null) throw nothing(`build ${buildId} has changed nothing yet`);
  return { projectId, from: baseSha, to: headSha };
}

async function taskSpan({ store, buildId, nothing }: Looked, projectId: ProjectId, key: string): Promise<Span> {
  const task = await store.tasks.find({ buildId, key });
  if (task === null) throw nothing(`build ${buildId} has no task ${key}`);
  const attempts = await store.attempts.list({ taskId: task.id }, { by: "number" });
  const kept = attempts.findLast((attempt) => attempt.commitSha !== null);
  if (kept === undefined) throw nothing(`task ${key} has changed nothing yet`);
  return { projectId, from: kept.baseSha, to: kept.commitSha! };
}

async function waveSpan({ store, buildId, nothing }: Looked, projectId: ProjectId, text: string): Promise<Span> {
  if (!/^\d{1,6}$/.test(text)) {
    throw new WavesmithError("usage", `--wave ${text} is not a wave number`, { remedy: "waves are counted from 1" });
  }
  const wave = await store.waves.find({ buildId, number: Number(text) });
  if (wave?.headSha == null) throw nothing(`build ${buildId} has no joined wave ${text}`);
  return { projectId, from: wave.baseSha, to: wave.headSha };
}
