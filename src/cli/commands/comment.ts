import { WavesmithError } from "../../domain/errors.ts";
import { chooseNamedBuild } from "../builds/choose-build.ts";
import { withDecision } from "../builds/open.ts";
import type { Context } from "../context.ts";
import { exit } from "../output/exit-codes.ts";
import { requester } from "../request/requester.ts";

export interface CommentOptions {
  readonly file: string | undefined;
  /** A line, or the first and last of several: `3` or `3-7`. */
  readonly line: string | undefined;
  readonly task: string | undefined;
}

/** `comment BUILD TEXT [--file F --line N]`: adds a person's finding for the fixer. */
export function comment(
  context: Context,
  name: string,
  words: readonly string[],
  { file = null, line, task = null }: { [Key in keyof CommentOptions]: CommentOptions[Key] | null },
): Promise<number> {
  const [first, last] = linesOf(line ?? null);
  return withDecision(context, async (builds) => {
    const buildId = await chooseNamedBuild(builds, context, name);
    const text = words.join(" ");
    const given = { text, by: requester(), file, line: first, endLine: last, taskKey: task };
    const { id, state } = await builds.comment(buildId, given);
    if (context.json) context.out.json({ buildId, finding: id, state });
    else context.out.line(`comment ${id} is open: ${nextOf(task)}`);
    return exit.ok;
  });
}

const nextOf = (task: string | null): string =>
  task === null ? "it goes to the wave's next fix" : `it goes to the next attempt of ${task}`;

function linesOf(text: string | null): [number | null, number | null] {
  if (text === null) return [null, null];
  const found = /^([1-9]\d{0,6})(?:-([1-9]\d{0,6}))?$/.exec(text);
  if (found === null) {
    throw new WavesmithError("usage", `--line ${text} is not a line number`, {
      remedy: "such as --line 12, or --line 12-15",
    });
  }
  return [Number(found[1]), found[2] === undefined ? null : Number(found[2])];
}
