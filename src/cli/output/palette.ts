import { styleText } from "node:util";

/** The meaning of a piece of text; the palette decides how it looks. */
export type Tone = "plain" | "good" | "bad" | "warn" | "dim" | "strong" | "accent";

export type Paint = (tone: Tone, text: string) => string;

const styles = { good: "green", bad: "red", warn: "yellow", dim: "dim", strong: "bold", accent: "cyan" } as const;

/** Colours for terminals that support them; elsewhere the text stays plain. */
export const createPaint =
  (colored: boolean): Paint =>
  (tone, text) =>
    // The caller has looked at the terminal.
    colored && tone !== "plain" && text !== "" ? styleText(styles[tone], text, { validateStream: false }) : text;
