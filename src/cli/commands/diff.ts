import { WavesmithError } from "../../domain/errors.ts";
import { chooseBuild } from "../builds/choose-build.ts";
import { withBuilds } from "../builds/open.ts";
import type { Context } from "../context.ts";
import { exit } from "../output/exit-codes.ts";
import { count, harmless, table } from "../output/format.ts";
import type { ChangedFile } from "../parts.ts";

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
  return withBuilds(context, "diff", async (builds) => {
    const of = { task: options.task, wave: waveNumber(options.wave) };
    const buildId = await chooseBuild(builds, context, name);
    if (context.json) context.out.json(await builds.changes(buildId, of));
    else if (options.stat === true)
      for (const line of statLines((await builds.changes(buildId, of)).files)) context.out.line(line);
    else context.out.raw(await builds.diff(buildId, of));
    return exit.ok;
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
