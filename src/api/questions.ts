import type { QuestionView, StatusView } from "../coordinator/build/build-view.ts";

/** The open questions, oldest first. */
export const openQuestions = ({ questions }: StatusView, now: Date): QuestionView[] =>
  questions.filter(({ answer, closedAt, deadlineAt }) => answer === null && closedAt === null && deadlineAt > now);

/** The name of the asking task, or the role of an agent without one. */
export function asker({ waves }: StatusView, { attemptId, role }: QuestionView): string {
  const attempt = waves.flatMap((wave) => wave.attempts).find(({ id }) => id === attemptId);
  return attempt?.taskKey ?? role;
}

/** The open questions as JSON. */
export const openQuestionsJson = (view: StatusView, now: Date): object[] =>
  openQuestions(view, now).map((question) => {
    const { id, text, reason, options, askedAt, deadlineAt } = question;
    return { id, from: asker(view, question), text, reason, options, askedAt, deadlineAt };
  });
