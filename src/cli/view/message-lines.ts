import { commentState } from "../../api/comments.ts";
import { type MessageState, messageState } from "../../api/messages.ts";
import type { BuildView, MessageView } from "../../coordinator/build/build-view.ts";
import { oneLine } from "../output/format.ts";
import type { Line } from "./line.ts";

// People's messages to the agents of tasks, and their comments.

const states: Readonly<Record<MessageState, string>> = {
  delivered: "",
  waiting: " (not delivered yet)",
  missed: " (not delivered: its agent had ended)",
};

function messageLine(view: BuildView, message: MessageView, indent: string): Line {
  const state = messageState(view, message);
  const text = `${indent}told by ${oneLine(message.by)}${states[state]}: ${oneLine(message.text)}`;
  return { tone: state === "missed" ? "warn" : "plain", text };
}

/** Lines of `status` for the messages to a task's agent. */
export const messageLines = (view: BuildView, taskKey: string): Line[] =>
  view.messages.filter((message) => message.taskKey === taskKey).map((message) => messageLine(view, message, "    "));

/** Lines for messages that were sent or delivered between two reads. */
export function messageNews(before: BuildView | null, after: BuildView): Line[] {
  return after.messages.flatMap((message): Line[] => {
    const earlier = before?.messages.find(({ id }) => id === message.id);
    if (earlier !== undefined && earlier.deliveredAt === message.deliveredAt) return [];
    const { text, tone } = messageLine(after, message, "");
    return [{ tone, text: `  ${message.taskKey} ${text}` }];
  });
}

/** Lines of `status`: people's comments and their outcomes. */
export const commentLines = (view: BuildView): Line[] =>
  view.comments.map((comment) => {
    const { id, file, line, state, text, by } = comment;
    const place = file === null ? "" : ` ${oneLine(file)}${line === null ? "" : `:${line}`}`;
    const words = `comment ${id} by ${oneLine(by)}${place}: ${oneLine(text)} (${commentState(view, comment)})`;
    return { tone: state === "resolved" ? "good" : "warn", text: words };
  });
