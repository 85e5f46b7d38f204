import type { ModelTool } from "../../domain/models.ts";

// Requests are checked against lists of harmless fields, so that a provider's new field is refused
// by name until we have reviewed it. Arguments and results of an agent's own tools are data and
// never inspected.

/** A part of a request that lets its provider do more than answer from the request itself. */
export interface OutsidePart {
  /** For example `tools[2].type: web_search_20250305`. */
  readonly part: string;
  /** The plan's value that allows it; null if only an open network does. */
  readonly tool: ModelTool | null;
}

export type Report = (part: OutsidePart) => void;
export type Fields = Readonly<Record<string, unknown>>;

export const fieldsOf = (value: unknown): Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : {};

/** Treats a single object as a list of one, as some servers do. */
export const listOf = (value: unknown): readonly Fields[] =>
  (Array.isArray(value) ? value : [value]).filter((one) => typeof one === "object" && one !== null).map(fieldsOf);

/** Reports each field that is set but unknown. */
export function checkFields(fields: Fields, known: ReadonlySet<string>, where: string, report: Report): void {
  for (const [name, value] of Object.entries(fields)) {
    if (known.has(name) || value === null || value === undefined) continue;
    report({ part: where === "" ? name : `${where}.${name}`, tool: toolNamed(name) });
  }
}

/** Reports an unknown `type`. */
export function reportType(type: unknown, where: string, report: Report): void {
  const name = typeof type === "string" ? type : JSON.stringify(type);
  report({ part: `${where}.type: ${name}`, tool: toolNamed(name ?? "") });
}

/** Whether a URL contains its data. */
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

/** The plan's value for a part of this name; null for an unknown one. */
export const toolNamed = (name: string): ModelTool | null => names.find(([pattern]) => pattern.test(name))?.[1] ?? null;
