import { WavesmithError } from "../../domain/errors.ts";
import { chooseNamedBuild } from "../builds/choose-build.ts";
import { withDecision } from "../builds/open.ts";
import type { Context } from "../context.ts";
import { exit } from "../output/exit-codes.ts";
import { requester } from "../request/requester.ts";

export interface AnswerOptions {
  readonly allow?: boolean;
  readonly deny?: boolean;
}

/**
 * `answer BUILD [QUESTION] --allow|--deny`: answers an agent's question; the number may be left out
 * if only one is open.
 */
export function answer(
  context: Context,
  name: string,
  question: string | undefined,
  { allow = false, deny = false }: AnswerOptions,
): Promise<number> {
  const number = question === undefined ? null : Number(question);
  if (number !== null && !(Number.isSafeInteger(number) && number > 0)) {
    throw new WavesmithError("usage", `${question} is not the number of a question`, {
      remedy: context.hints.command(`status ${name}`),
    });
  }
  if (allow === deny) {
    throw new WavesmithError("usage", "answer with --allow or with --deny", {
      remedy: context.hints.command(`answer ${name}${question === undefined ? "" : ` ${question}`} --allow`),
    });
  }
  return withDecision(context, async (builds) => {
    const buildId = await chooseNamedBuild(builds, context, name);
    const given = { number, answer: allow ? "allow" : "deny", by: requester() } as const;
    const answered = await builds.answer(buildId, given);
    const { id, text } = answered;
    if (context.json) context.out.json({ buildId, question: id, answer: answered.answer });
    else context.out.line(`question ${id}: ${allow ? "allowed" : "denied"}: ${text}`);
    return exit.ok;
  });
}
