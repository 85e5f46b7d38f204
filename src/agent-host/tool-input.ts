/** The fields that say most about a call, in this order; agents name them differently. */
const telling = ["command", "cmd", "script", "pattern", "query", "url", "file_path", "filePath", "path", "prompt"];

/** Describes the input of a tool call in one line; empty when it says nothing. */
export function describeInput(input: unknown): string {
  if (typeof input === "string") return inOneLine(input);
  if (typeof input !== "object" || input === null || Object.keys(input).length === 0) return "";
  const fields = input as Record<string, unknown>;
  const name = telling.find((key) => isTelling(fields[key]));
  const value = name === undefined ? JSON.stringify(input) : fields[name];
  return inOneLine(Array.isArray(value) ? value.join(" ") : String(value));
}

/** Whether the input has a field that tells what the call does. */
export const isTellingInput = (input: unknown): boolean =>
  typeof input === "object" &&
  input !== null &&
  telling.some((key) => isTelling((input as Record<string, unknown>)[key]));

/** Returns the todo list in a call of opencode or Gemini CLI; null for any other call. */
export function todosOf(input: unknown): readonly { readonly text: string; readonly status: string }[] | null {
  const { todos } = (typeof input === "object" && input !== null ? input : {}) as { todos?: unknown };
  if (!Array.isArray(todos)) return null;
  const entries = todos.map((todo: Record<string, unknown>) => ({
    text: todo?.content ?? todo?.description,
    status: todo?.status,
  }));
  const isList = entries.every(({ text, status }) => typeof text === "string" && typeof status === "string");
  return isList ? (entries as { text: string; status: string }[]) : null;
}

const isTelling = (value: unknown): boolean =>
  (typeof value === "string" && value !== "") ||
  (Array.isArray(value) && value.length > 0 && value.every((part) => typeof part === "string"));

export const inOneLine = (text: string): string => text.replace(/\s+/g, " ").trim();
