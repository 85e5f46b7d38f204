import { itemAt } from "../../domain/known.ts";
import { type Dump, dumpsIn } from "./hex-dumps.ts";
import { bytesOf, type SecretForms, secretForms, shortestSecret } from "./secret-forms.ts";
import {
  compactHex,
  decoded,
  openEscape,
  plainView,
  type View,
  withoutLineEnds,
  withoutTerminal,
} from "./text-views.ts";

// MA1. A value is found in every form in which tools tend to print it, even where a program wraps,
// escapes or colours it (W12).
// MA2. Output is never cut inside a value, so that each piece can be masked by itself.

/** Replaces the values of secrets by their names. */
export interface Mask {
  (text: string): string;
  /**
   * Masks the part of a longer text between two offsets as the whole text would be masked, so that
   * it never holds half a value.
   */
  within(text: string, from: number, to: number): string;
}

/** The token of any attempt, including those we do not know. */
const modelToken = /\bwst_(?:attempt|gate)\.[\w-]+\.\d{1,9}\.[\w-]{8,}/g;
const maskTokens = (text: string): string => text.replace(modelToken, "[secret WAVESMITH_MODEL_TOKEN]");

type Secrets = Readonly<Record<string, string>>;

const formsOf = (secrets: Secrets): SecretForms[] =>
  Object.entries(secrets)
    .filter(([, value]) => value.length >= shortestSecret)
    .map(([name, value]) => secretForms(name, value));

/**
 * Creates a mask for these secrets and for everything that looks like a token of the model proxy.
 * Values shorter than 4 characters stay, because masking them would blank out ordinary text.
 */
export function createMask(secrets: Secrets): Mask {
  const forms = formsOf(secrets);
  const within = (text: string, from: number, to: number): string => {
    const bytes = bytesOf(text);
    const [start, end] = [bytesOf(text.slice(0, from)).length, bytesOf(text.slice(0, to)).length];
    return maskTokens(maskRanges(bytes, rangesIn(bytes, forms), start, end));
  };
  return Object.assign((text: string) => within(text, 0, text.length), { within });
}

interface Range {
  readonly from: number;
  readonly to: number;
  readonly name: string;
}

function maskRanges(bytes: string, ranges: readonly Range[], start: number, end: number): string {
  const parts: string[] = [];
  let place = start;
  for (const { from, to, name } of mergeRanges(ranges)) {
    if (to <= start || from >= end) continue;
    parts.push(bytes.slice(place, Math.max(place, from)), `[secret ${name}]`);
    place = to;
  }
  parts.push(bytes.slice(place, Math.max(place, end)));
  return Buffer.from(
    parts.map((part, index) => (index % 2 === 0 ? part : bytesOf(part))).join(""),
    "latin1",
  ).toString();
}

/** Merges overlapping ranges, named after the longest. */
function mergeRanges(ranges: readonly Range[]): Range[] {
  const found: Range[] = [];
  let longest = 0;
  for (const range of [...ranges].sort((a, b) => a.from - b.from || b.to - a.to)) {
    const last = found.at(-1);
    const length = range.to - range.from;
    if (last === undefined || range.from >= last.to) {
      found.push(range);
      longest = length;
    } else {
      found[found.length - 1] = {
        from: last.from,
        to: Math.max(last.to, range.to),
        name: length > longest ? range.name : last.name,
      };
      longest = Math.max(longest, length);
    }
  }
  return found;
}

/** A view of a text with what to look for in it. */
interface Search {
  readonly view: View;
  readonly needles: (forms: SecretForms) => readonly string[];
  /** Whether a value may continue after a line's end here. */
  readonly wraps: boolean;
}

/** Hidden or escaped text is searched in two forms: raw, and as a terminal shows it. */
function searchesIn(bytes: string): Search[] {
  const raw = plainView(bytes);
  const shown = withoutTerminal(raw);
  const read = withoutTerminal(decoded(shown));
  const hidden = shown === raw ? raw : decoded(raw);
  const isPlain = new Set([raw, shown]);
  return [...new Set([raw, shown, read, hidden])].flatMap((view): Search[] => [
    { view, needles: (forms) => (isPlain.has(view) ? forms.plain : forms.decoded), wraps: false },
    { view: withoutLineEnds(view), needles: ({ encoded }) => encoded, wraps: true },
    ...(spacedHex.test(view.text)
      ? [{ view: compactHex(view), needles: ({ hex }: SecretForms) => hex, wraps: true }]
      : []),
  ]);
}

/** A few pairs of digits with separators. */
const spacedHex = /[0-9a-f]{2}(?:\\x|[\s:,;_-]+(?:0x)?)[0-9a-f]{2}/i;

function rangesIn(bytes: string, secrets: readonly SecretForms[]): Range[] {
  if (secrets.length === 0) return [];
  const found = searchesIn(bytes).flatMap(({ view, needles }) =>
    secrets.flatMap((forms) =>
      needles(forms).flatMap((needle) =>
        placesOf(view.text, needle).map((at) => ({
          from: view.start(at),
          to: view.end(at + needle.length),
          name: forms.name,
        })),
      ),
    ),
  );
  const dumps = dumpsIn(bytes);
  return dumps.length === 0 ? found : [...found, ...secrets.flatMap((forms) => dumpedIn(dumps, forms))];
}

function placesOf(text: string, needle: string): number[] {
  const found: number[] = [];
  for (let at = text.indexOf(needle); at >= 0; at = text.indexOf(needle, at + needle.length)) found.push(at);
  return found;
}

/** Finds the lines of dumps that show a value. */
const dumpedIn = (dumps: readonly Dump[], { bytes, name }: SecretForms): Range[] =>
  dumps.flatMap((dump) =>
    placesOf(dump.bytes, bytes).map((at) => ({
      from: itemAt(dump.places, at).from,
      to: itemAt(dump.places, at + bytes.length - 1).to,
      name,
    })),
  );

/** The length at which output without a line end is cut, between two values. */
const longLine = 64 * 1024;
/** This many characters of an encoded secret at a line's end cannot be a coincidence. */
const surelyBegun = 16;

/**
 * Creates a cut for continuing output that splits neither a character nor a value (MA2): at a
 * line's end, or in a very long line wherever no value can have begun. It returns the part that can
 * be masked by itself, which may be empty, and never holds back more than `mostBytes`.
 */
export function createCut(secrets: Secrets, mostBytes: number): (data: Buffer) => Buffer {
  const forms = formsOf(secrets);
  return (data) => {
    const lines = data.subarray(0, data.lastIndexOf(10) + 1);
    const inLines = lines.length > 0;
    if (!inLines && data.length < longLine) return lines;
    const text = (inLines ? lines : data).toString("latin1");
    const cut = cutBefore(text, rangesIn(text, forms), unfinishedFrom(text, forms, inLines), inLines);
    if (cut === 0 && data.length >= mostBytes) return data;
    return data.subarray(0, cut);
  };
}

function cutBefore(text: string, ranges: readonly Range[], from: number, atLines: boolean): number {
  let cut = from;
  for (let before = -1; cut !== before; ) {
    before = cut;
    const crossed = ranges.filter((range) => range.from < cut && cut < range.to);
    cut = Math.min(cut, ...crossed.map((range) => range.from));
    if (atLines) cut = cut === 0 ? 0 : text.lastIndexOf("\n", cut - 1) + 1;
    else while (cut > 0 && (text.charCodeAt(cut) & 0xc0) === 0x80) cut -= 1; // Never inside a character.
  }
  return cut;
}

/** Returns where a value that continues in the next output may begin. */
function unfinishedFrom(text: string, secrets: readonly SecretForms[], isLines: boolean): number {
  const tail = isLines ? "" : (openEscape.exec(text.slice(-8_192))?.[0] ?? "");
  const whole = text.slice(0, text.length - tail.length);
  let from = whole.length;
  for (const { view, needles, wraps } of searchesIn(whole)) {
    const least = isLines && wraps ? surelyBegun : 1;
    for (const forms of secrets) {
      for (const needle of needles(forms)) {
        const length = overlap(view.text, needle);
        if (length >= least) from = Math.min(from, view.start(view.text.length - length));
      }
    }
  }
  return Math.min(from, ...dumpsIn(whole).flatMap((dump) => secrets.flatMap((forms) => openDump(dump, forms))));
}

function openDump(dump: Dump, { bytes }: SecretForms): number[] {
  const length = dump.isOpen ? overlap(dump.bytes, bytes) : 0;
  return length === 0 ? [] : [itemAt(dump.places, dump.bytes.length - length).from];
}

/**
 * Returns the length of the longest prefix of `needle`, short of all of it, with which `text` ends.
 */
function overlap(text: string, needle: string): number {
  const end = text.slice(Math.max(0, text.length - needle.length + 1));
  // The Knuth-Morris-Pratt table: for each prefix of the needle, the longest prefix with which it
  // ends.
  const table = [0];
  for (let index = 1, known = 0; index < needle.length; index += 1) {
    while (known > 0 && needle[index] !== needle[known]) known = itemAt(table, known - 1);
    if (needle[index] === needle[known]) known += 1;
    table[index] = known;
  }
  let length = 0;
  for (const character of end) {
    while (length > 0 && character !== needle[length]) length = itemAt(table, length - 1);
    if (character === needle[length]) length += 1;
  }
  return length;
}
