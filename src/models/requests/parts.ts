import type { ModelTool } from "../../domain/models.ts";

// A request is checked against lists of what is known to be harmless: what a provider adds tomorrow
// is refused by name until somebody has looked at it. What an agent's own tools take and answer is
// data, and is never looked into.

/** A part of a request that makes its provider do more than answer from what the request holds. */
export interface OutsidePart {
  /** Such as `tools[2].type: web_search_20250305`. */
  readonly part: string;
  /** What a plan can allow it by; null: nothing but an open network. */
  readonly tool: ModelTool | null;
}

export type Report = (part: OutsidePart) => void;
export type Fields = Readonly<Record<string, unknown>>;

export const fieldsOf = (value: unknown): Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : {};

/** A single object counts as a list of one, since some servers take it for that. */
export const listOf = (value: unknown): readonly Fields[] =>
  (Array.isArray(value) ? value : [value]).filter((one) => typeof one === "object" && one !== null).map(fieldsOf);

/** Reports each field that is set and not among the known ones. */
export function checkFields(fields: Fields, known: ReadonlySet<string>, where: string, report: Report): void {
  for (const [name, value] of Object.entries(fields)) {
    if (known.has(name) || value === null || value === undefined) continue;
    report({ part: where === "" ? name : `${where}.${name}`, tool: toolNamed(name) });
  }
}

/** Reports a `type` that is not known. */
export function reportType(type: unknown, where: string, report: Report): void {
  const name = typeof type === "string" ? type : JSON.stringify(type);
  report({ part: `${where}.type: ${name}`, tool: toolNamed(name ?? "") });
}

/** Whether a URL holds its data itself. */
export const isInline = (url: unknown): boolean => typeof url === "string" && /^data:/i.test(url);

const names: readonly (readonly [RegExp, ModelTool])[] = [
  [/web_?fetch|url_?context/i, "web_fetch"],
  [/search_?options|web_?search|google_?(search|maps)|enterprise/i, "web_search"],
  [/code_?(execution|interpreter)|^container$|^shell/i, "code_execution"],
  [/mcp/i, "mcp"],
  [/image_?generation/i, "image_generation"],
  [/computer/i, "computer_use"],
  [/file|cached_?content|container_upload|vector/i, "files"],
  [/previous_response|conversation|^prompt$|^store$|item_reference/i, "stored"],
];

/** What a plan allows a part of this name by; null when it is none that we know. */
export const toolNamed = (name: string): ModelTool | null => names.find(([pattern]) => pattern.test(name))?.[1] ?? null;
