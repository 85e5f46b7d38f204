import type { BuildView, QuestionView } from "../../coordinator/build/read-build.ts";
import { clock, oneLine } from "../format.ts";
import type { Hints } from "../hints.ts";
import type { Line } from "./line.ts";
import { type Row, segment } from "./segments.ts";

// Agents' questions, for people.

/** The open questions, oldest first. */
export const openQuestions = ({ questions }: BuildView, now: Date): QuestionView[] =>
  questions.filter(({ answer, closedAt, deadlineAt }) => answer === null && closedAt === null && deadlineAt > now);

/** The name of the asking task, or the role of an agent without one. */
function asker({ waves }: BuildView, { attemptId, role }: QuestionView): string {
  const attempt = waves.flatMap((wave) => wave.attempts).find(({ id }) => id === attemptId);
  return attempt?.taskKey ?? role;
}

const asked = (view: BuildView, question: QuestionView): string =>
  `${asker(view, question)} asks: ${oneLine(question.text)} (${oneLine(question.reason)})`;

/** Rows of the live view: the open question and the keys that answer it. */
export function questionRows(view: BuildView, now: Date): Row[] {
  const [first, ...others] = openQuestions(view, now);
  if (first === undefined) return [];
  const left = clock(Math.max(0, first.deadlineAt.getTime() - now.getTime()));
  const more = others.length === 0 ? "" : `  (${others.length} more after it)`;
  return [
    [segment("warn", `  ? ${asked(view, first)}`)],
    [
      segment("strong", "    a"),
      segment("plain", ": allow it once  "),
      segment("strong", "d"),
      segment("plain", ": deny it  "),
      segment("dim", `denied in ${left}${more}`),
    ],
  ];
}

/** Lines for what was asked and answered between two reads. */
export function questionNews(before: BuildView | null, after: BuildView, command: Hints["command"]): Line[] {
  return after.questions.flatMap((question): Line[] => {
    const earlier = before?.questions.find(({ id }) => id === question.id);
    const lines: Line[] = [];
    if (earlier === undefined) {
      const how = question.closedAt === null ? howTo(after, question, command) : "";
      lines.push({ tone: "warn", text: `  question ${question.id}: ${asked(after, question)}${how}` });
    }
    const end = endOf(question);
    if (end !== null && (earlier === undefined || endOf(earlier) === null))
      lines.push({ tone: question.answer === "allow" ? "good" : "warn", text: `  question ${question.id}: ${end}` });
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
    text: `question ${question.id}: ${asked(view, question)}${howTo(view, question, command)}`,
  }));
}

const howTo = ({ build }: BuildView, { id }: QuestionView, command: Hints["command"]): string =>
  `; answer: ${command(`answer ${build.id} ${id} --allow`)} (or --deny)`;

/** The open questions as JSON. */
export const openQuestionsJson = (view: BuildView, now: Date): object[] =>
  openQuestions(view, now).map((question) => {
    const { id, text, reason, options, askedAt, deadlineAt } = question;
    return { id, from: asker(view, question), text, reason, options, askedAt, deadlineAt };
  });
