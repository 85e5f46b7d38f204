import {
  type Alias,
  type Document,
  isAlias,
  isMap,
  isNode,
  isPair,
  isScalar,
  isSeq,
  Lexer,
  LineCounter,
  type Node,
  Parser,
  parseDocument,
  visit,
} from "yaml";
import { messageOf } from "../domain/errors.ts";
import { yamlDepth } from "../domain/plan/yaml-depth.ts";
import type { Locate, PlanPath } from "./faults/fault-sink.ts";

/** The values in a plan's text, and the line of each. */
export interface ReadText {
  /** Undefined when the text could not be read. */
  readonly value: unknown;
  readonly locate: Locate;
  /**
   * Returns the number or boolean at a path as it was written, such as `1.10`; null for anything
   * else.
   */
  sourceAt(path: PlanPath): string | null;
  readonly faults: readonly {
    code: "syntax" | "duplicate-key" | "too-large";
    path: PlanPath;
    line: number | null;
    message: string;
  }[];
  readonly warnings: readonly string[];
}

type TextFault = ReadText["faults"][number];

/** Characters that aliases may add to a plan; more than this is an alias bomb. */
const maxAliasCharacters = 10_000_000;
const tooDeep = "The plan is nested too deeply to be read.";
/** Deeper than any plan; `cleanValue` allows less. */
const deepest = 200;

/** Reads YAML 1.2 (with merge keys) or JSON; never throws. */
export function readPlanText(rawText: string, format: "yaml" | "json"): ReadText {
  const text = rawText.replace(/^\uFEFF/, "");
  const lines = new LineCounter();
  if (isTooDeep(text)) return unreadable([{ code: "syntax", path: [], line: null, message: tooDeep }]);
  try {
    const document = parseDocument(text, {
      lineCounter: lines,
      merge: true,
      prettyErrors: false,
      strict: format === "yaml",
    });
    return format === "json" ? fromJson(text, document, lines) : fromYaml(document, lines);
  } catch (error) {
    const message = error instanceof RangeError ? tooDeep : `The plan could not be read: ${messageOf(error)}`;
    return unreadable([{ code: "syntax", path: [], line: null, message }]);
  }
}

/**
 * Whether composing the text would recurse too deeply: the process dies if V8 runs out of stack
 * while it compiles a pattern. The parser itself does not recurse.
 */
function isTooDeep(text: string): boolean {
  // The estimate is quick and never too low, but takes what is in scripts for nesting.
  if (yamlDepth(text) <= deepest) return false;
  const parser = new Parser();
  for (const lexeme of new Lexer().lex(text)) {
    for (const _token of parser.next(lexeme));
    if (parser.stack.length > deepest) return true;
  }
  return false;
}

const unreadable = (faults: readonly TextFault[]): ReadText => ({
  value: undefined,
  locate: () => null,
  sourceAt: () => null,
  faults,
  warnings: [],
});

function fromJson(text: string, document: Document.Parsed, lines: LineCounter): ReadText {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    const line = lines.linePos(Math.min(jsonFault(text), text.trimEnd().length)).line;
    // Some engines quote the text around the fault, line breaks included; the line number already
    // shows the place.
    const reason = messageOf(error).replace(
      /, (?:\.\.\.)?".*"(?:\.\.\.)? is not valid JSON$|( in JSON)? at position.*$/s,
      "",
    );
    return unreadable([
      { code: "syntax", path: [], line, message: `This is not JSON: ${reason.replace(/\s+/g, " ")}.` },
    ]);
  }
  // JSON.parse decides whether the text is valid; the syntax tree gives lines and repeated keys.
  return { value, ...placesIn(document, lines), faults: repeatedKeys(document, lines), warnings: [] };
}

/** Returns the offset at which text stops being the start of valid JSON. */
function jsonFault(text: string): number {
  let good = 0;
  let bad = text.length + 1;
  while (bad - good > 1) {
    const middle = Math.floor((good + bad) / 2);
    if (mayGoOn(text.slice(0, middle))) good = middle;
    else bad = middle;
  }
  return good;
}

function mayGoOn(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch (error) {
    const position = /at position (\d+)/.exec(messageOf(error))?.[1];
    return position === undefined ? /Unexpected end/.test(messageOf(error)) : Number(position) >= text.length;
  }
}

function fromYaml(document: Document.Parsed, lines: LineCounter): ReadText {
  const faults = [...syntaxFaults(document, lines), ...repeatedKeys(document, lines)];
  const places = placesIn(document, lines);
  const bomb = faults.length === 0 ? aliasFault(document, lines) : null;
  if (bomb !== null) faults.push(bomb);
  const readable = faults.every((fault) => fault.code === "duplicate-key");
  const warnings = document.warnings.map((warning) => `Line ${lines.linePos(warning.pos[0]).line}: ${warning.message}`);
  return { value: readable ? document.toJS({ maxAliasCount: -1 }) : undefined, ...places, faults, warnings };
}

function syntaxFaults(document: Document.Parsed, lines: LineCounter): TextFault[] {
  const errors = document.errors.filter((error) => error.code !== "DUPLICATE_KEY");
  const faults = errors.map((error) => {
    const opening = openingOf(document, error);
    const line = lines.linePos(opening ?? error.pos[0]).line;
    return { code: "syntax" as const, path: [], line, message: syntaxMessage(error, opening !== null) };
  });
  // One value can break the same rule several times, which we report once.
  return faults.filter(
    ({ line, message }, at) => faults.findIndex((one) => one.line === line && one.message === message) === at,
  );
}

function syntaxMessage(error: Document.Parsed["errors"][number], isOpenQuote: boolean): string {
  if (isOpenQuote) return "The quote opened on this line is never closed.";
  if (/compact mappings/.test(error.message)) return "Quote this value: it contains `: `, which YAML reads as a key.";
  return error.code === "MULTIPLE_DOCS"
    ? "One file holds one plan: remove the second `---` document."
    : `${error.message.replace(/[.:]$/, "")}.`;
}

/**
 * Returns where the unclosed quote opens when the text ends inside it; null for every other error.
 */
function openingOf(document: Document.Parsed, error: Document.Parsed["errors"][number]): number | null {
  if (error.code !== "MISSING_CHAR" || !error.message.includes("quote")) return null;
  let opening: number | null = null;
  visit(document, {
    Scalar(_, { type, range }) {
      const quoted = type === "QUOTE_DOUBLE" || type === "QUOTE_SINGLE";
      if (quoted && range != null && range[0] <= error.pos[0]) opening = Math.max(opening ?? 0, range[0]);
    },
  });
  return opening;
}

function repeatedKeys(document: Document.Parsed, lines: LineCounter): TextFault[] {
  return document.errors.flatMap((error) => {
    if (error.code !== "DUPLICATE_KEY") return [];
    const path = pathTo(document.contents, error.pos[0]);
    const message = `The key ${String(path.at(-1) ?? "")} is here a second time: keep one of them.`;
    return [{ code: "duplicate-key" as const, path, line: lines.linePos(error.pos[0]).line, message }];
  });
}

/** Returns the path whose key is at this offset. */
function pathTo(root: unknown, offset: number): (string | number)[] {
  const path: (string | number)[] = [];
  let node = root;
  const holds = (item: unknown): boolean =>
    isNode(item) && item.range != null && item.range[0] <= offset && offset < item.range[2];
  while (isMap(node) || isSeq(node)) {
    const items: unknown[] = node.items;
    const index = items.findIndex((item) => (isPair(item) ? holds(item.key) || holds(item.value) : holds(item)));
    const item = items[index];
    if (item === undefined) break;
    path.push(isPair(item) ? keyText(item.key) : index);
    if (isPair(item) && holds(item.key)) break;
    node = isPair(item) ? item.value : item;
  }
  return path;
}

function keyText(key: unknown): string {
  if (!isScalar(key)) return String(key);
  return typeof key.value === "symbol" ? (key.value.description ?? "") : String(key.value);
}

/**
 * Returns a fault when the aliases expand to too much text or refer to themselves; counts without
 * expanding them.
 */
function aliasFault(document: Document.Parsed, lines: LineCounter): TextFault | null {
  const sizes = new Map<Node, number>();
  const targets = aliasTargets(document);
  let fault: TextFault | null = null;
  let added = 0;
  const measureAlias = (alias: Alias): number => {
    const target = targets.get(alias);
    const size = target === undefined ? undefined : sizes.get(target);
    const refuse = (code: "syntax" | "too-large", message: string): void => {
      fault ??= { code, path: [], line: lines.linePos(alias.range?.[0] ?? 0).line, message };
    };
    if (target === undefined)
      refuse("syntax", `The alias *${alias.source} has no anchor: mark an earlier value with &${alias.source}.`);
    else if (size === undefined)
      refuse("syntax", `The alias *${alias.source} is inside the value it refers to: remove one of them.`);
    added += size ?? 0;
    if (added > maxAliasCharacters) {
      refuse("too-large", "The aliases of this plan expand to more than 10 million characters: use fewer.");
    }
    return size ?? 0;
  };
  const measure = (node: unknown): number => {
    if (isAlias(node)) return measureAlias(node);
    let size = 1;
    if (isScalar(node)) size += typeof node.value === "string" ? node.value.length : 0;
    else if (isPair(node)) size += measure(node.key) + measure(node.value);
    else if (isMap(node) || isSeq(node)) for (const item of node.items) size += measure(item);
    if (isNode(node)) sizes.set(node, size);
    return size;
  };
  measure(document.contents);
  return fault;
}

/** Maps each alias to its target: the last node before it with that anchor. */
function aliasTargets(document: Document.Parsed): Map<Node, Node> {
  const anchors = new Map<string, Node>();
  const targets = new Map<Node, Node>();
  visit(document, {
    Node(_, node) {
      if (isAlias(node)) {
        const target = anchors.get(node.source);
        if (target !== undefined) targets.set(node, target);
      } else if (node.anchor !== undefined) anchors.set(node.anchor, node);
    },
  });
  return targets;
}

function placesIn(document: Document.Parsed, lines: LineCounter): Pick<ReadText, "locate" | "sourceAt"> {
  let targets: Map<Node, Node> | null = null;
  const resolve = (node: unknown): unknown => {
    if (!isAlias(node)) return node;
    targets ??= aliasTargets(document);
    return targets.get(node);
  };
  return {
    locate(path, what) {
      const place = walk(document.contents, path, resolve);
      const node = what === "key" ? (place.key ?? place.value) : place.value;
      return node.range == null ? null : lines.linePos(node.range[0]).line;
    },
    sourceAt(path) {
      const { value, complete } = walk(document.contents, path, resolve);
      const node = complete ? resolve(value) : null;
      return isScalar(node) && typeof node.value !== "string" ? (node.source ?? null) : null;
    },
  };
}

type Place = { readonly key: Node | null; readonly value: Node; readonly complete: boolean };

/**
 * Follows a path as far as the text has it, so that a fault about a missing key points at its
 * parent.
 */
function walk(root: Node | null, path: PlanPath, resolve: (node: unknown) => unknown): Place {
  let place: Place = { key: null, value: root ?? ({ range: [0, 0, 0] } as unknown as Node), complete: true };
  for (const step of path) {
    const next = child(resolve(place.value), step, resolve, new Set());
    if (next === null) return { ...place, key: null, complete: false };
    place = next;
  }
  return place;
}

function child(
  container: unknown,
  step: string | number,
  resolve: (node: unknown) => unknown,
  seen: Set<unknown>,
): Place | null {
  if (seen.has(container)) return null;
  seen.add(container);
  if (isSeq(container)) {
    const item = container.items[Number(step)];
    return isNode(item) ? { key: null, value: item, complete: true } : null;
  }
  if (!isMap(container)) return null;
  // The last of repeated keys wins; a mapping's own keys win over merged ones.
  const own = container.items.findLast((pair) => keyText(pair.key) === String(step));
  if (own !== undefined) {
    const key = isNode(own.key) ? own.key : null;
    const value = isNode(own.value) ? own.value : key;
    return value === null ? null : { key, value, complete: true };
  }
  for (const pair of container.items) {
    if (keyText(pair.key) !== "<<") continue;
    const merged = resolve(pair.value);
    for (const source of isSeq(merged) ? merged.items : [merged]) {
      const found = child(resolve(source), step, resolve, seen);
      if (found !== null) return found;
    }
  }
  return null;
}
