import { type Fields, fieldsOf, listOf } from "./parts.ts";

/**
 * Whether a call takes a step of the agent's work, so that its end counts: the model may call tools
 * in its answer. A call for JSON of a fixed schema does not, such as the one in which Codex asks
 * for a session's title.
 */
export function offersTools({ tools, input, text }: Fields): boolean {
  if (fieldsOf(fieldsOf(text).format).type === "json_schema") return false;
  // Codex sends the tools of newer models as an item of the conversation.
  const added = listOf(input).flatMap((item) => (item.type === "additional_tools" ? listOf(item.tools) : []));
  return listOf(tools).length + added.length > 0;
}
