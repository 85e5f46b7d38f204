import type { CommentView, StatusView } from "../coordinator/build/build-view.ts";

/** Describes the outcome of a person's comment, such as `given to fix 1`. */
export function commentState(view: StatusView, { state, attemptId }: CommentView): string {
  const attempt = view.waves.flatMap((wave) => wave.attempts).find(({ id }) => id === attemptId);
  const by = attempt === undefined ? "" : ` ${attempt.taskKey ?? attempt.kind} ${attempt.number}`;
  if (state === "given") return `given to${by}`;
  if (state === "resolved") return `resolved by${by}`;
  if (state === "superseded") return "superseded: its wave ended without it";
  return attempt === undefined ? "open" : `open again: not resolved by${by}`;
}

/** People's comments on a build as JSON, oldest first. */
export const commentsJson = (view: StatusView): object[] =>
  view.comments.map((comment) => {
    const { id, file, line, endLine, text, by, createdAt, state, settledAt, sha } = comment;
    const wave = view.waves.find((one) => one.id === comment.waveId)?.number ?? null;
    return {
      ...{ id, kind: "comment", wave, task: comment.taskKey, commit: sha, file, line, endLine, text, by },
      ...{ createdAt, state, outcome: commentState(view, comment), settledAt },
    };
  });
