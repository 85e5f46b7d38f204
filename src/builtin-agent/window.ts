import type { ModelMessage } from "ai";

// Keeps a conversation within the model's window by leaving out old tool results, which the model
// can request again.

const leftOut = "[left out to save room: call the tool again if it is needed]";
/** The results in this many of the last messages are always kept. */
const keptMessages = 8;
/** The share of the window that the conversation may fill; the rest is for the answer. */
const fullShare = 0.7;

/** Estimates the number of tokens in a conversation. */
export const tokensOf = (messages: readonly ModelMessage[]): number => Math.ceil(JSON.stringify(messages).length / 3.5);

/**
 * Returns the conversation with as many old results left out as needed to fit. Calls and messages
 * stay.
 */
export function fitToWindow(messages: readonly ModelMessage[], windowTokens: number): ModelMessage[] {
  const fitting = [...messages];
  for (let at = 0; at < fitting.length - keptMessages; at += 1) {
    if (tokensOf(fitting) <= windowTokens * fullShare) break;
    const message = fitting[at]!;
    if (message.role === "tool") fitting[at] = { ...message, content: message.content.map(emptied) };
  }
  return fitting;
}

type ToolPart = Extract<ModelMessage, { role: "tool" }>["content"][number];

function emptied(part: ToolPart): ToolPart {
  if (part.type !== "tool-result") return part;
  return { ...part, output: { type: "text", value: leftOut } };
}
