import { itemAt, present } from "../../domain/known.ts";
// A text without its escapes, with a map back to the original.

export interface View {
  readonly text: string;
  /** Returns where the character at this offset of the view begins in the original. */
  start(place: number): number;
  /** Returns where the text before this offset of the view ends in the original. */
  end(place: number): number;
}

export const plainView = (text: string): View => ({ text, start: (place) => place, end: (place) => place });

/**
 * From `at` on, the view's characters are those of the original from `origin` on; the text before
 * ends at `end`.
 */
interface Segment {
  readonly at: number;
  readonly origin: number;
  readonly end: number;
}

/**
 * Returns the view with every match of a global pattern replaced by what `decode` returns. The map
 * back is built on first use, because nearly all output holds no secret.
 */
function replacedView(view: View, pattern: RegExp, decode: "" | ((match: string) => string)): View {
  const text = decode === "" ? view.text.replace(pattern, "") : view.text.replace(pattern, decode);
  if (text === view.text) return view;
  let segments: Segment[] | null = null;
  const way = (): Segment[] => {
    segments ??= segmentsOf(view.text, pattern, decode);
    return segments;
  };
  return {
    text,
    start: (place) => {
      const { at, origin } = itemAt(way(), lastUpTo(way(), place));
      return view.start(origin + place - at);
    },
    end: (place) => {
      let index = lastUpTo(way(), place);
      while (index > 0 && itemAt(way(), index - 1).at === place) index -= 1;
      const { at, origin, end } = itemAt(way(), index);
      return view.end(at === place ? end : origin + place - at);
    },
  };
}

function segmentsOf(text: string, pattern: RegExp, decode: "" | ((match: string) => string)): Segment[] {
  const segments: Segment[] = [{ at: 0, origin: 0, end: 0 }];
  let from = 0;
  let length = 0;
  for (const match of text.matchAll(pattern)) {
    const shown = decode === "" ? 0 : decode(match[0]).length;
    const after = match.index + match[0].length;
    length += match.index - from;
    if (shown > 0) segments.push({ at: length, origin: match.index, end: match.index });
    length += shown;
    segments.push({ at: length, origin: after, end: shown === 0 ? match.index : after });
    from = after;
  }
  return segments;
}

function lastUpTo(segments: readonly Segment[], place: number): number {
  let [low, high] = [0, segments.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (itemAt(segments, middle).at <= place) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** Commands to a terminal, which it does not show; titles and links end on their line. */
const terminal =
  /\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b\n]{0,4096}(?:\x07|\x1b\\)|[ -/]{1,4}[0-~]|[0-Z\\`-~])|\xc2\x9b[0-?]*[ -/]*[@-~]/g;
const escapes =
  /(?<!\\)\\+(?:u[dD][89abAB][0-9a-fA-F]{2}\\+u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[0-3][0-7]{2}|["'/nrt])|&(?:amp|lt|gt|quot|apos|#\d{1,7}|#[xX][0-9a-fA-F]{1,6});/g;
const named: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" };
const controls: Readonly<Record<string, string>> = { n: "\n", r: "\r", t: "\t" };

const utf8 = (code: number): string =>
  code > 0x10ffff ? "" : Buffer.from(String.fromCodePoint(code)).toString("latin1");

function decodeEscape(match: string): string {
  if (match.startsWith("&#")) {
    const digits = match.slice(2, -1);
    return utf8(/^x/i.test(digits) ? Number.parseInt(digits.slice(1), 16) : Number(digits));
  }
  if (match.startsWith("&")) return present(named[match.slice(1, -1)], match);
  const text = match.replace(/^\\+/, "");
  if (/^[0-3][0-7]{2}$/.test(text)) return String.fromCharCode(Number.parseInt(text, 8));
  if (/^x[0-9a-f]{2}$/i.test(text)) return String.fromCharCode(Number.parseInt(text.slice(1), 16));
  if (!text.startsWith("u")) return controls[text] ?? text;
  const units = text.split(/\\+/).map((unit) => Number.parseInt(unit.slice(1), 16));
  return Buffer.from(String.fromCharCode(...units)).toString("latin1");
}

export const withoutTerminal = (view: View): View => replacedView(view, terminal, "");
export const decoded = (view: View): View => replacedView(view, escapes, decodeEscape);

/** An escape that may continue after the end of a text. */
export const openEscape = /(?:\x1b[^\x07\n]{0,4096}|&[#\w]{0,9}|\\+(?:u[0-9a-fA-F]{0,4}|x[0-9a-fA-F]?|[0-3][0-7]?)?)$/;

// Line ends: plain, with the agent host's mark before an agent's lines, and as JSON writes them.
const lineEnd = /\r?\n(?:\| )?|(?:\\r)?\\n/g;
export const withoutLineEnds = (view: View): View => replacedView(view, lineEnd, "");

const betweenDigits = /\\x|0[xX]|[\s:,;_-]+/g;

/** Returns the view without separators between hexadecimal digits, in lower case. */
export function compactHex(view: View): View {
  const compact = replacedView(view, betweenDigits, "");
  return { ...compact, text: compact.text.toLowerCase() };
}
