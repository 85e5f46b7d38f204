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
  type Pair,
  Parser,
  parseDocument,
  visit,
  type YAMLMap,
} from "yaml";
import { messageOf } from "../domain/errors.ts";
import { itemAt } from "../domain/known.ts";
import { yamlDepth } from "../domain/plan/yaml-depth.ts";
import type { Locate, PlanPath } from "./faults/fault-sink.ts";
import { findJsonPlace, jsonPlaces, scalarAt } from "./json-text.ts";

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
/** The parser looks for the target of each among all of them. */
const maxAliases = 5_000;
const tooDeep = "The plan is nested too deeply to be read.";
/** Deeper than any plan; `cleanValue` allows less. */
const deepest = 200;
/** One fault of syntax often brings others, so we list no more of them. */
const maxSyntaxFaults = 100;

/** Reads YAML 1.2 (with merge keys) or JSON; never throws. */
export function readPlanText(rawText: string, format: "yaml" | "json"): ReadText {
  const text = rawText.replace(/^\uFEFF/, "");
  try {
    return format === "json" ? readJson(text) : readYaml(text);
  } catch (error) {
    const message = error instanceof RangeError ? tooDeep : `The plan could not be read: ${messageOf(error)}`;
    return unreadable([{ code: "syntax", path: [], line: null, message }]);
  }
}

function readYaml(text: string): ReadText {
  if (isTooDeep(text)) throw new RangeError(tooDeep);
  const lines = new LineCounter();
  const document = withoutTraces(() =>
    // The parser compares each key with each; `repeatedKeys` does not.
    parseDocument(text, { lineCounter: lines, merge: true, prettyErrors: false, uniqueKeys: false }),
  );
  return fromYaml(document, lines);
}

/** The parser makes an error for each fault, whose stack nobody reads: there may be thousands. */
function withoutTraces<Result>(work: () => Result): Result {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  try {
    return work();
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
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

function readJson(text: string): ReadText {
  const lines = new LineCounter();
  lines.addNewLine(0);
  for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", end + 1)) lines.addNewLine(end + 1);
  const lineAt = (at: number): number => lines.linePos(at).line;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    if (isTooDeep(text)) throw new RangeError(tooDeep);
    const line = lineAt(Math.min(jsonFault(text), text.trimEnd().length));
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
  const faults: TextFault[] = [];
  const root = jsonPlaces(text, deepest, (path, key, at) => faults.push(repeatedKey(path, key, lineAt(at))));
  return {
    value,
    locate(path, what) {
      const { place } = findJsonPlace(root, path);
      return lineAt(what === "key" ? (place.keyAt ?? place.at) : place.at);
    },
    sourceAt(path) {
      const { place, isWhole } = findJsonPlace(root, path);
      return (isWhole && scalarAt(text, place.at)) || null;
    },
    faults,
    warnings: [],
  };
}

const repeatedKey = (path: PlanPath, key: string, line: number): TextFault => ({
  code: "duplicate-key",
  path,
  line,
  message: `The key ${key} is here a second time: keep one of them.`,
});

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
  const isReadable = () => faults.every((fault) => fault.code === "duplicate-key");
  const bomb = isReadable() ? aliasFault(document, lines) : null;
  if (bomb !== null) faults.push(bomb);
  const warnings = document.warnings.map((warning) => `Line ${lines.linePos(warning.pos[0]).line}: ${warning.message}`);
  return { value: isReadable() ? document.toJS({ maxAliasCount: -1 }) : undefined, ...places, faults, warnings };
}

function syntaxFaults(document: Document.Parsed, lines: LineCounter): TextFault[] {
  // One value can break the same rule several times, which we report once.
  const faults = new Map<string, TextFault>();
  let quotes: number[] | null = null;
  for (const [count, error] of document.errors.entries()) {
    const isOpenQuote = error.code === "MISSING_CHAR" && error.message.includes("quote");
    if (isOpenQuote) quotes ??= quoteStarts(document);
    const opening = isOpenQuote ? lastUpTo(quotes ?? [], error.pos[0]) : null;
    const line = lines.linePos(opening ?? error.pos[0]).line;
    const message = syntaxMessage(error, opening !== null);
    if (faults.size < maxSyntaxFaults) faults.set(`${line} ${message}`, { code: "syntax", path: [], line, message });
    else {
      const more = `There are ${document.errors.length - count} more faults like these: fix the first ones.`;
      return [...faults.values(), { code: "syntax", path: [], line, message: more }];
    }
  }
  return [...faults.values()];
}

function syntaxMessage(error: Document.Parsed["errors"][number], isOpenQuote: boolean): string {
  if (isOpenQuote) return "The quote opened on this line is never closed.";
  if (/compact mappings/.test(error.message)) return "Quote this value: it contains `: `, which YAML reads as a key.";
  return error.code === "MULTIPLE_DOCS"
    ? "One file holds one plan: remove the second `---` document."
    : `${error.message.replace(/[.:]$/, "")}.`;
}

/** Returns where the quoted values of a document begin, in order. */
function quoteStarts(document: Document.Parsed): number[] {
  const starts: number[] = [];
  visit(document, {
    Scalar(_, { type, range }) {
      if ((type === "QUOTE_DOUBLE" || type === "QUOTE_SINGLE") && range != null) starts.push(range[0]);
    },
  });
  return starts.sort((left, right) => left - right);
}

/** Returns the last of these sorted numbers that is not above the limit; null for none. */
function lastUpTo(numbers: readonly number[], limit: number): number | null {
  let low = 0;
  let high = numbers.length;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (itemAt(numbers, middle) <= limit) low = middle + 1;
    else high = middle;
  }
  return numbers[low - 1] ?? null;
}

function repeatedKeys({ contents }: Document.Parsed, lines: LineCounter): TextFault[] {
  const faults: TextFault[] = [];
  const look = (node: unknown, path: PlanPath): void => {
    if (isSeq(node)) for (const [index, item] of node.items.entries()) look(item, [...path, index]);
    if (!isMap(node)) return;
    const seen = new Set<unknown>();
    for (const { key, value } of node.items) {
      const text = keyText(key);
      const own = [...path, text];
      if (isScalar(key) && seen.has(key.value))
        faults.push(repeatedKey(own, text, lines.linePos(key.range?.[0] ?? 0).line));
      if (isScalar(key)) seen.add(key.value);
      else look(key, own);
      look(value, own);
    }
  };
  look(contents, []);
  return faults;
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
  /** The last node with each anchor, and its size once it has been measured. */
  const anchors = new Map<string, { size: number | undefined }>();
  let fault: TextFault | null = null;
  let added = 0;
  let count = 0;
  const measureAlias = (alias: Alias): number => {
    const target = anchors.get(alias.source);
    const size = target?.size;
    const refuse = (code: "syntax" | "too-large", message: string): void => {
      fault ??= { code, path: [], line: lines.linePos(alias.range?.[0] ?? 0).line, message };
    };
    if (target === undefined)
      refuse("syntax", `The alias *${alias.source} has no anchor: mark an earlier value with &${alias.source}.`);
    else if (size === undefined)
      refuse("syntax", `The alias *${alias.source} is inside the value it refers to: remove one of them.`);
    count += 1;
    if (count > maxAliases) refuse("too-large", `This plan has more than ${maxAliases} aliases: use fewer.`);
    added += size ?? 0;
    if (added > maxAliasCharacters) {
      refuse("too-large", "The aliases of this plan expand to more than 10 million characters: use fewer.");
    }
    return size ?? 0;
  };
  const measure = (node: unknown): number => {
    if (isAlias(node)) return measureAlias(node);
    const own = { size: undefined as number | undefined };
    const anchor = isNode(node) ? node.anchor : undefined;
    if (anchor !== undefined) anchors.set(anchor, own);
    let size = 1;
    if (isScalar(node)) size += typeof node.value === "string" ? node.value.length : 0;
    else if (isPair(node)) size += measure(node.key) + measure(node.value);
    else if (isMap(node) || isSeq(node)) for (const item of node.items) size += measure(item);
    own.size = size;
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
  const pairs = createPairs();
  let targets: Map<Node, Node> | null = null;
  const resolve = (node: unknown): unknown => {
    if (!isAlias(node)) return node;
    targets ??= aliasTargets(document);
    return targets.get(node);
  };
  return {
    locate(path, what) {
      const place = walk(document.contents, path, { resolve, pairs });
      const node = what === "key" ? (place.key ?? place.value) : place.value;
      return node.range == null ? null : lines.linePos(node.range[0]).line;
    },
    sourceAt(path) {
      const { value, complete } = walk(document.contents, path, { resolve, pairs });
      const node = complete ? resolve(value) : null;
      return isScalar(node) && typeof node.value !== "string" ? (node.source ?? null) : null;
    },
  };
}

/** What the search for a path needs. */
interface Lookup {
  /** Returns what an alias stands for, and any other node itself. */
  readonly resolve: (node: unknown) => unknown;
  readonly pairs: (map: YAMLMap) => ReadonlyMap<string, Pair>;
}

/** Returns the pairs of a mapping by key, looked through once. The last of repeated keys wins. */
function createPairs(): Lookup["pairs"] {
  const known = new WeakMap<YAMLMap, ReadonlyMap<string, Pair>>();
  return (map) => {
    const pairs = known.get(map) ?? new Map(map.items.map((pair) => [keyText(pair.key), pair]));
    known.set(map, pairs);
    return pairs;
  };
}

type Place = { readonly key: Node | null; readonly value: Node; readonly complete: boolean };

/**
 * Follows a path as far as the text has it, so that a fault about a missing key points at its
 * parent.
 */
function walk(root: Node | null, path: PlanPath, given: Lookup): Place {
  let place: Place = { key: null, value: root ?? ({ range: [0, 0, 0] } as unknown as Node), complete: true };
  for (const step of path) {
    const next = child(given.resolve(place.value), step, given, new Set());
    if (next === null) return { ...place, key: null, complete: false };
    place = next;
  }
  return place;
}

function child(container: unknown, step: string | number, given: Lookup, seen: Set<unknown>): Place | null {
  const { resolve, pairs } = given;
  if (seen.has(container)) return null;
  seen.add(container);
  if (isSeq(container)) {
    const item = container.items[Number(step)];
    return isNode(item) ? { key: null, value: item, complete: true } : null;
  }
  if (!isMap(container)) return null;
  // A mapping's own keys win over merged ones.
  const own = pairs(container).get(String(step));
  if (own !== undefined) {
    const key = isNode(own.key) ? own.key : null;
    const value = isNode(own.value) ? own.value : key;
    return value === null ? null : { key, value, complete: true };
  }
  for (const pair of container.items) {
    if (keyText(pair.key) !== "<<") continue;
    const merged = resolve(pair.value);
    for (const source of isSeq(merged) ? merged.items : [merged]) {
      const found = child(resolve(source), step, given, seen);
      if (found !== null) return found;
    }
  }
  return null;
}
