import type { MessageView, StatusView } from "../coordinator/build/build-view.ts";
import { attemptsAt, findTask } from "./view-index.ts";

/**
 * `delivered`: the agent got it. `waiting`: the agent, or the task's next attempt, will get it.
 * `missed`: the task was done before the agent could get it.
 */
export type MessageState = "delivered" | "waiting" | "missed";

const over: ReadonlySet<string> = new Set(["joining", "completed", "removed"]);

export function messageState(view: StatusView, { taskKey, deliveredAt }: MessageView): MessageState {
  if (deliveredAt !== null) return "delivered";
  return over.has(findTask(view, taskKey)?.status ?? "") ? "missed" : "waiting";
}

/** People's messages to a task's agent, as JSON. */
export function messagesJson(view: StatusView, taskKey: string): object[] {
  return view.messages
    .filter((message) => message.taskKey === taskKey)
    .map((message) => {
      const { id, by, text, urgent, createdAt, deliveredAt, attemptId } = message;
      const attempt = attemptsAt(view, taskKey).find((one) => one.attempt.id === attemptId)?.attempt.number ?? null;
      return { id, by, text, urgent, createdAt, state: messageState(view, message), attempt, deliveredAt };
    });
}
