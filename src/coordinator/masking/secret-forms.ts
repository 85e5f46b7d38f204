// The forms in which tools print a value. All texts here are bytes, one character each, so that an
// offset in a text is an offset in the output.

export const bytesOf = (text: string): string => Buffer.from(text).toString("latin1");

/** Shorter values would blank out ordinary text. */
export const shortestSecret = 4;
/** Fewer bytes, printed as spaced numbers, may be any numbers. */
const shortestSpacedHex = 6;

export interface SecretForms {
  readonly name: string;
  /**
   * The value itself, in a URL (with either case of escapes), within JSON, and each longer line of
   * it.
   */
  readonly plain: readonly string[];
  /** The value and its longer lines, for text with resolved escapes. */
  readonly decoded: readonly string[];
  /** The value in base64 and hexadecimal, which tools wrap anywhere. */
  readonly encoded: readonly string[];
  /** The value in hexadecimal, for digits without separators. */
  readonly hex: readonly string[];
  readonly bytes: string;
}

export function secretForms(name: string, value: string): SecretForms {
  const inUrl = encodeURIComponent(value);
  const inJson = JSON.stringify(value).slice(1, -1);
  const lines = value.split("\n").filter((line) => line.length >= 8);
  const plain = [
    value,
    inUrl,
    inUrl.replace(/%[0-9A-F]{2}/g, (code) => code.toLowerCase()),
    inUrl.replaceAll("%20", "+"),
    inJson,
    // An agent's event holds a program's output as JSON.
    JSON.stringify(inJson).slice(1, -1),
    ...lines,
  ];
  const bytes = bytesOf(value);
  const hex = Buffer.from(value).toString("hex");
  return {
    name,
    plain: [...new Set(plain.map(bytesOf))],
    decoded: [...new Set([value, ...lines].map(bytesOf))],
    encoded: encodedForms(Buffer.from(value)),
    hex: bytes.length >= shortestSpacedHex ? [hex] : [],
    bytes,
  };
}

function encodedForms(bytes: Buffer): string[] {
  const hex = bytes.toString("hex");
  const inside = insideBase64(bytes);
  return [
    ...new Set([
      bytes.toString("base64"),
      bytes.toString("base64url"),
      hex,
      hex.toUpperCase(),
      ...inside,
      ...inside.map((text) => text.replaceAll("+", "-").replaceAll("/", "_")),
    ]),
  ];
}

/** Returns the part of a value's base64 that does not depend on the bytes before and after it. */
function insideBase64(bytes: Buffer): string[] {
  if (bytes.length < 8) return [];
  return [0, 1, 2].map((before) => {
    const shifted = Buffer.concat([Buffer.alloc(before), bytes]);
    const groups = shifted.subarray(0, shifted.length - (shifted.length % 3));
    return groups.toString("base64").slice(before === 0 ? 0 : before + 1);
  });
}
