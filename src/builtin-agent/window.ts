import type { ModelMessage } from "ai";

// Keeps a conversation within the model's window: first by leaving out old tool results, which the
// model can request again, then by a summary in place of the conversation.
//
// The results are left out in one go and for good, not a few in each step, because every change of
// an earlier message makes the provider's cache useless.

const leftOut = "[removed to save space: call the tool again if you need it]";
/** The results in this many of the last messages are always kept. */
const keptMessages = 8;
/** Above this share of the window, old results are left out, down to the second share. */
const fullShare = 0.65;
const prunedShare = 0.4;
/** Results shorter than this are not worth leaving out. */
const shortLength = 500;

/** Estimates the number of tokens in a conversation; an image counts for its usual size. */
export function tokensOf(messages: readonly ModelMessage[]): number {
  const text = JSON.stringify(messages, (key, value: unknown) =>
    (key === "data" || key === "image") && typeof value === "string" && value.length > 10_000
      ? "x".repeat(6_000)
      : value,
  );
  return Math.ceil(text.length / 3.5);
}

export const isFull = (messages: readonly ModelMessage[], windowTokens: number): boolean =>
  tokensOf(messages) > windowTokens * fullShare;

/** Returns the conversation without its old results if it is full; calls and messages stay. */
export function pruned(messages: readonly ModelMessage[], windowTokens: number): readonly ModelMessage[] {
  if (!isFull(messages, windowTokens)) return messages;
  const fitting = [...messages];
  for (let at = 0; at < fitting.length - keptMessages; at += 1) {
    if (tokensOf(fitting) <= windowTokens * prunedShare) break;
    const message = fitting[at]!;
    if (message.role === "tool") fitting[at] = { ...message, content: message.content.map(emptied) };
  }
  return fitting;
}

type ToolPart = Extract<ModelMessage, { role: "tool" }>["content"][number];

function emptied(part: ToolPart): ToolPart {
  if (part.type !== "tool-result" || JSON.stringify(part.output).length < shortLength) return part;
  return { ...part, output: { type: "text", value: leftOut } };
}

/** Returns the text of the last message of the model; empty if it only called tools. */
export function lastTextOf(messages: readonly ModelMessage[]): string {
  const last = messages.findLast(({ role }) => role === "assistant");
  if (last?.role !== "assistant" || typeof last.content === "string") return String(last?.content ?? "");
  return last.content
    .flatMap((part) => (part.type === "text" ? [part.text] : []))
    .join("")
    .trim();
}

/**
 * Leaves a message's images out, for a model that cannot see them; a prompt names the files of its
 * images.
 */
export function withoutImages(message: ModelMessage): ModelMessage {
  if (message.role === "user" && typeof message.content !== "string")
    return { ...message, content: message.content.filter(({ type }) => type !== "image") };
  if (message.role !== "tool") return message;
  const content = message.content.map((part): ToolPart => {
    if (part.type !== "tool-result" || part.output.type !== "content") return part;
    return { ...part, output: { type: "text", value: "[an image, which you cannot see]" } };
  });
  return { ...message, content };
}

/** How much of the conversation a summary is made of, as a share of the window. */
const summaryShare = 0.5;

/** Writes the conversation down for a summary, the oldest part left out if it is too long. */
export function transcriptOf(messages: readonly ModelMessage[], windowTokens: number): string {
  const lines = messages.flatMap(({ role, content }) =>
    typeof content === "string" ? [`${role}: ${content}`] : content.map((part) => `${role}: ${JSON.stringify(part)}`),
  );
  const maxLength = Math.floor(windowTokens * summaryShare * 3);
  const text = lines.map((line) => (line.length > 4_000 ? `${line.slice(0, 4_000)}…` : line)).join("\n\n");
  return text.length <= maxLength ? text : `[…]\n${text.slice(-maxLength)}`;
}

export const summaryRequest = `Your conversation has become too long for your window and will continue from your summary alone. Write it now, for yourself: what the task is and what it requires, what you have done (files and why), what you found out, what was run with which result, what is left, and what to do next. Be exact about names, paths and commands. No tools; only the summary.`;
