/** The meaning of a piece of text; the palette decides how it looks. */
export type Tone = "plain" | "good" | "bad" | "warn" | "dim" | "strong" | "accent";

export type Paint = (tone: Tone, text: string) => string;

const codes: Record<Exclude<Tone, "plain">, [number, number]> = {
  good: [32, 39],
  bad: [31, 39],
  warn: [33, 39],
  dim: [2, 22],
  strong: [1, 22],
  accent: [36, 39],
};

/** Colours for terminals that support them; elsewhere the text stays plain. */
export const createPaint =
  (colored: boolean): Paint =>
  (tone, text) => {
    if (!colored || tone === "plain" || text === "") return text;
    const [on, off] = codes[tone];
    return `\x1b[${on}m${text}\x1b[${off}m`;
  };
