import { asker, openQuestions } from "../../api/questions.ts";
import type { BuildView, QuestionView } from "../../coordinator/build/build-view.ts";
import { clock, oneLine } from "../output/format.ts";
import type { Hints } from "../output/hints.ts";
import type { Line } from "./line.ts";
import { type Row, segment } from "./segments.ts";

// Agents' questions, for people.

const askerOf = (view: BuildView, question: QuestionView): string =>
  `${asker(view, question)} asks: ${oneLine(question.text)} (${oneLine(question.reason)})`;

/** Rows of the live view: the open question, the letters that answer it, and the typed text. */
export function questionRows(view: BuildView, { now, typed = "" }: { now: Date; typed?: string }): Row[] {
  const [first, ...others] = openQuestions(view, now);
  if (first === undefined) return [];
  const left = clock(Math.max(0, first.deadlineAt.getTime() - now.getTime()));
  const more = others.length === 0 ? "" : `  (${others.length} more after it)`;
  return [
    [segment("warn", `  ? ${askerOf(view, first)}`)],
    [
      segment("strong", "    a"),
      segment("plain", " and Enter: allow it once  "),
      segment("strong", "d"),
      segment("plain", " and Enter: deny it  "),
      segment("dim", `denied in ${left}${more}`),
    ],
    [segment("strong", `    > ${oneLine(typed)}`)],
  ];
}

/** Lines for questions that were asked or answered between two reads. */
export function questionNews(before: BuildView | null, after: BuildView, command: Hints["command"]): Line[] {
  return after.questions.flatMap((question): Line[] => {
    const earlier = before?.questions.find(({ id }) => id === question.id);
    const lines: Line[] = [];
    if (earlier === undefined) {
      const how = question.closedAt === null ? howTo(after, question, command) : "";
      lines.push({ tone: "warn", text: `  question ${question.id}: ${askerOf(after, question)}${how}` });
    }
    const end = endOf(question);
    if (end !== null && (earlier === undefined || endOf(earlier) === null)) {
      const text = `  question ${question.id}: ${end}: ${oneLine(question.text)} (${asker(after, question)})`;
      lines.push({ tone: question.answer === "allow" ? "good" : "warn", text });
    }
    return lines;
  });
}

function endOf({ answer, answeredBy, closedAt }: QuestionView): string | null {
  if (answer !== null) return `${answer === "allow" ? "allowed" : "denied"} by ${answeredBy}`;
  return closedAt === null ? null : "denied because nobody answered";
}

/** Lines of `status`: the questions that wait for an answer. */
export function openQuestionLines(view: BuildView, now: Date, command: Hints["command"]): Line[] {
  return openQuestions(view, now).map((question) => ({
    tone: "warn",
    text: `question ${question.id}: ${askerOf(view, question)}${howTo(view, question, command)}`,
  }));
}

const howTo = ({ build }: BuildView, { id }: QuestionView, command: Hints["command"]): string =>
  `; answer: ${command(`answer ${build.id} ${id} --allow`)} (or --deny)`;
