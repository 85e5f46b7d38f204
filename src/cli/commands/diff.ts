import { diffSpan, maxDiffBytes } from "../../api/diff-span.ts";
import { WavesmithError } from "../../domain/errors.ts";
import type { Context } from "../context.ts";
import { findBuildOrLatest } from "../data/find-build.ts";
import { withStore } from "../data/reading.ts";
import { exit } from "../output/exit-codes.ts";
import { count, harmless, table } from "../output/format.ts";
import { type ChangedFile, createWorkspaceFor } from "../parts.ts";

export interface DiffOptions {
  readonly task?: string;
  readonly wave?: string;
  /** Only the files and how many lines of each. */
  readonly stat?: boolean;
}

/** `diff BUILD [--task ID|--wave N]`: what a build, task or wave changed, as a unified diff. */
export function showDiff(context: Context, name: string | undefined, options: DiffOptions): Promise<number> {
  if (options.task !== undefined && options.wave !== undefined) {
    throw new WavesmithError("usage", "diff takes --task or --wave, not both", {
      remedy: "drop one of them",
    });
  }
  return withStore(context, "diff", {
    read: async ({ config, store }) => {
      const buildId = await findBuildOrLatest(store, context, name);
      const span = await diffSpan(store, buildId, { task: options.task, wave: waveNumber(options.wave) });
      const workspace = await createWorkspaceFor(config);
      const { projectId } = span;
      if (context.json)
        context.out.json({ ...span, files: await workspace.changedFiles(projectId, span.from, span.to) });
      else if (options.stat === true)
        for (const line of statLines(await workspace.changedFiles(projectId, span.from, span.to)))
          context.out.line(line);
      else context.out.raw(await workspace.diff(projectId, span.from, span.to, { maxBytes: maxDiffBytes }));
      return exit.ok;
    },
  });
}

/** One line for each file, and their sum. */
function statLines(files: readonly ChangedFile[]): string[] {
  const lines = files.map(({ path, from, addedLines, deletedLines, binary }) => [
    harmless(from === null ? path : `${from} → ${path}`),
    binary ? "binary" : `+${addedLines ?? 0} -${deletedLines ?? 0}`,
  ]);
  const sum = (of: (file: ChangedFile) => number | null): number =>
    files.reduce((total, file) => total + (of(file) ?? 0), 0);
  const counts = `+${sum((file) => file.addedLines)} -${sum((file) => file.deletedLines)}`;
  return [...table(lines), `${count(files.length, "file")} changed, ${counts}`];
}

/** Reads `--wave`. Fails with `usage`. */
function waveNumber(text: string | undefined): number | undefined {
  if (text === undefined || /^\d{1,6}$/.test(text)) return text === undefined ? undefined : Number(text);
  throw new WavesmithError("usage", `--wave ${text} is not a wave number`, { remedy: "waves are counted from 1" });
}
