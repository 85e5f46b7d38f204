/** Replaces the values of secrets by their names, in every form in which tools tend to print them (W12). */
export type Mask = (text: string) => string;

/** A token of any attempt's, also of one whose token we were not told of. */
const modelToken = /\bwst_(?:attempt|gate)\.[\w-]+\.\d{1,9}\.[\w-]{8,}/g;

/**
 * A mask for these secrets, and for all that looks like a token of the model proxy. Values shorter than 4 characters are
 * left alone: they would blank out ordinary text.
 */
export function createMask(secrets: Readonly<Record<string, string>>): Mask {
  const needles = Object.entries(secrets)
    .filter(([, value]) => value.length >= 4)
    .flatMap(([name, value]) => [
      ...[...plainForms(value)].map((text) => ({ text, name, wraps: false })),
      ...[...encodedForms(value)].map((text) => ({ text, name, wraps: true })),
    ])
    .sort((a, b) => b.text.length - a.text.length);
  return (given) => {
    let text = given;
    // A search is quick and a pattern is not: nearly all output holds no secret.
    let joined = withoutLineEnds(text);
    for (const { text: needle, name, wraps } of needles) {
      if (!(wraps ? joined : text).includes(needle)) continue;
      const pattern = wraps ? wrapped(needle) : needle;
      text = text.replaceAll(pattern, () => `[secret ${name}]`);
      joined = withoutLineEnds(text);
    }
    return text.replace(modelToken, "[secret WAVESMITH_MODEL_TOKEN]");
  };
}

// Line ends as they are, with the mark that the agent host puts before an agent's own lines, and as JSON has them.
const lineEnd = "(?:\\r?\\n(?:\\| )?|(?:\\\\r)?\\\\n)";
const lineEnds = new RegExp(lineEnd, "g");
const withoutLineEnds = (text: string): string => text.replace(lineEnds, "");

/** As it is, in a URL (whatever the case of its escapes), within JSON, and each longer line of its own. */
function plainForms(value: string): Set<string> {
  const inUrl = encodeURIComponent(value);
  const inJson = JSON.stringify(value).slice(1, -1);
  return new Set([
    value,
    inUrl,
    inUrl.replace(/%[0-9A-F]{2}/g, (code) => code.toLowerCase()),
    inUrl.replaceAll("%20", "+"),
    inJson,
    // An agent's event holds what a program printed as JSON.
    JSON.stringify(inJson).slice(1, -1),
    ...value.split("\n").filter((line) => line.length >= 8),
  ]);
}

function encodedForms(value: string): Set<string> {
  const bytes = Buffer.from(value);
  const hex = bytes.toString("hex");
  return new Set([
    bytes.toString("base64"),
    bytes.toString("base64url"),
    hex,
    hex.toUpperCase(),
    ...insideBase64(bytes),
    ...insideBase64(bytes).map((text) => text.replaceAll("+", "-").replaceAll("/", "_")),
  ]);
}

const escaped = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
/** `base64` and its like break lines where they please. */
const wrapped = (text: string): RegExp => new RegExp([...text].map(escaped).join(`${lineEnd}?`), "g");

/** What of a value's base64 is the same whatever stands before and after it in what was encoded. */
function insideBase64(bytes: Buffer): string[] {
  if (bytes.length < 8) return [];
  return [0, 1, 2].map((before) => {
    const shifted = Buffer.concat([Buffer.alloc(before), bytes]);
    const groups = shifted.subarray(0, shifted.length - (shifted.length % 3));
    return groups.toString("base64").slice(before === 0 ? 0 : before + 1);
  });
}

/** The longest text a mask looks for, so that a stream can hold that much back. */
export function longestSecret(secrets: Readonly<Record<string, string>>): number {
  const forms = Object.values(secrets).flatMap((value) => [...plainForms(value), ...encodedForms(value)]);
  return Math.max(0, ...forms.map((text) => Buffer.byteLength(text)));
}

/** So many signs of an encoded secret at a line's end are no chance. */
const surelyBegun = 16;

/**
 * How many bytes at the end of whole lines may begin a secret that goes on in the next: one of several lines, or one
 * whose encoding a program wraps.
 */
export function createUnfinished(secrets: Readonly<Record<string, string>>): (lines: Buffer) => number {
  const values = Object.values(secrets).filter((value) => value.length >= 4);
  const beginnings = values.flatMap((value) =>
    [...value.matchAll(/\n/g)].map((end) => Buffer.from(value.slice(0, end.index + 1))),
  );
  const encoded = values.flatMap((value) => [...encodedForms(value)]);
  const longest = 2 * Math.max(0, ...encoded.map((text) => text.length));
  return (lines) => {
    const inLines = beginnings.filter((text) => lines.subarray(-text.length).equals(text)).map((text) => text.length);
    return Math.max(0, ...inLines, unfinishedEncoding(lines.subarray(-longest).toString("latin1"), encoded));
  };
}

function unfinishedEncoding(end: string, encoded: readonly string[]): number {
  const joined = withoutLineEnds(end);
  let most = 0;
  for (const text of encoded) {
    for (let length = Math.min(joined.length, text.length - 1); length >= surelyBegun && length > most; length -= 1) {
      if (joined.endsWith(text.slice(0, length))) most = length;
    }
  }
  // Whole lines are held back, so that nothing need be counted within one.
  let from = end.length;
  for (let length = 0; from > 0 && length < most; ) {
    from = from < 2 ? 0 : end.lastIndexOf("\n", from - 2) + 1;
    length = withoutLineEnds(`\n${end.slice(from)}`).length;
  }
  return end.length - from;
}
