import type { ModelMessage } from "ai";

// A conversation is kept within the model's window by leaving out what tools answered long ago: it
// can be had again.

const leftOut = "[left out to save room: call the tool again if it is needed]";
/** Results of this many of the last messages are kept whatever they weigh. */
const keptMessages = 8;
/** Of the window; the rest is for the answer. */
const fullShare = 0.7;

/** About how many tokens a conversation is. */
export const tokensOf = (messages: readonly ModelMessage[]): number => Math.ceil(JSON.stringify(messages).length / 3.5);

/**
 * The conversation with as many old results left out as it takes to fit. Calls and what was said
 * stay.
 */
export function fitted(messages: readonly ModelMessage[], windowTokens: number): ModelMessage[] {
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
