/** What a piece of text means; how that looks is the palette's. */
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

/** Colours for a terminal that takes them, else the text as it is. */
export const createPaint =
  (colored: boolean): Paint =>
  (tone, text) => {
    if (!colored || tone === "plain" || text === "") return text;
    const [on, off] = codes[tone];
    return `\x1b[${on}m${text}\x1b[${off}m`;
  };
