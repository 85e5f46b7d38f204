import { WavesmithError } from "../../domain/errors.ts";
import type { Context } from "../context.ts";
import { findBuildByName } from "../data/find-build.ts";
import { withSteering } from "../data/steering.ts";
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
    throw new WavesmithError("usage", `there is no question ${question}: questions have numbers`, {
      remedy: context.hints.command(`status ${name}`),
    });
  }
  if (allow === deny) {
    throw new WavesmithError("usage", "an answer is --allow or --deny", {
      remedy: context.hints.command(`answer ${name}${question === undefined ? "" : ` ${question}`} --allow`),
    });
  }
  return withSteering(context, async ({ app }) => {
    const buildId = await findBuildByName(app.store, context, name);
    const build = await app.store.builds.get({ id: buildId });
    const { answerQuestion } = await import("../../coordinator/attempt/questions.ts");
    const given = { number, answer: allow ? "allow" : "deny", by: requester() } as const;
    const answered = await answerQuestion(app.ports, build, given);
    const { id, text } = answered;
    if (context.json) context.out.json({ buildId, question: id, answer: answered.answer });
    else context.out.line(`question ${id}: ${allow ? "allowed" : "denied"}: ${text}`);
    return exit.ok;
  });
}
