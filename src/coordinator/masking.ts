/** Replaces the values of secrets by their names, in every form in which tools tend to print them (W12). */
export type Mask = (text: string) => string;

/** A mask for these secrets. Values shorter than 4 characters are left alone: they would blank out ordinary text. */
export function createMask(secrets: Readonly<Record<string, string>>): Mask {
  const needles: { text: string; pattern: RegExp; name: string }[] = [];
  for (const [name, value] of Object.entries(secrets)) {
    if (value.length < 4) continue;
    const bytes = Buffer.from(value);
    const forms = [
      value,
      encodeURIComponent(value),
      JSON.stringify(value).slice(1, -1),
      ...value.split("\n").filter((line) => line.length >= 8),
    ];
    for (const text of new Set(forms)) needles.push({ text, pattern: literally(text), name });
    const encoded = [
      bytes.toString("base64"),
      bytes.toString("base64url"),
      bytes.toString("hex"),
      ...insideBase64(bytes),
    ];
    for (const text of new Set(encoded)) needles.push({ text, pattern: wrapped(text), name });
  }
  needles.sort((a, b) => b.text.length - a.text.length);
  return (text) =>
    needles.reduce((masked, { pattern, name }) => masked.replace(pattern, () => `[secret ${name}]`), text);
}

const escaped = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
const literally = (text: string): RegExp => new RegExp(escaped(text), "g");
/** `base64` and its like break lines where they please. */
const wrapped = (text: string): RegExp => new RegExp([...text].map(escaped).join("\\r?\\n?"), "g");

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
  return Math.max(
    0,
    ...Object.values(secrets).map((value) => Math.max(encodeURIComponent(value).length, Buffer.byteLength(value) * 2)),
  );
}

/** How many bytes at the end of whole lines may begin a secret of several lines that goes on in the next. */
export function createUnfinished(secrets: Readonly<Record<string, string>>): (lines: Buffer) => number {
  const beginnings = Object.values(secrets).flatMap((value) =>
    [...value.matchAll(/\n/g)].map((end) => Buffer.from(value.slice(0, end.index + 1))),
  );
  return (lines) =>
    Math.max(0, ...beginnings.filter((text) => lines.subarray(-text.length).equals(text)).map((text) => text.length));
}
