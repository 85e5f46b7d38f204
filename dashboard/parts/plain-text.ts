const esc = "\u001b";
/** Colours, cursor moves, titles and links: sequences that only a terminal understands. */
const sequences = new RegExp(
  `${esc}(?:\\[[0-9;?<=>!]*[ -/]*[@-~]|\\][^\\u0007${esc}]*(?:\\u0007|${esc}\\\\)?|[PX^_][^${esc}]*(?:${esc}\\\\)?|[@-Z\\\\-_])`,
  "g",
);
const controls = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;

/** Returns what a program printed as text: without escape sequences and hidden characters. */
export function plainText(output: string): string {
  return output
    .replace(/\r\n/g, "\n")
    .replace(/[^\n]*\r(?=[^\n])/g, "") // a line written again, such as a progress bar
    .replace(sequences, "")
    .replace(controls, "");
}
