import type { Paint, Tone } from "../output/palette.ts";

/** Part of a row, with its meaning. */
export interface Segment {
  readonly tone: Tone;
  readonly text: string;
}
export type Row = readonly Segment[];

export const segment = (tone: Tone, text: string): Segment => ({ tone, text });

const wide =
  /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1faff}]/u;
const zeroWidth = /\p{Mn}|[\u200b-\u200d\ufeff]/u;

/** The number of columns a text takes on a terminal. */
export function widthOf(text: string): number {
  let width = 0;
  for (const char of text) width += zeroWidth.test(char) ? 0 : wide.test(char) ? 2 : 1;
  return width;
}

/** Cuts the row to `columns` so that it never wraps. */
export function cutRow(row: Row, columns: number): Row {
  const cut: Segment[] = [];
  let left = columns;
  for (const { tone, text } of row) {
    if (widthOf(text) <= left) {
      cut.push({ tone, text });
      left -= widthOf(text);
      continue;
    }
    cut.push({ tone, text: cutText(text, left) });
    return cut;
  }
  return cut;
}

function cutText(text: string, columns: number): string {
  if (columns <= 0) return "";
  let kept = "";
  let left = columns - 1;
  for (const char of text) {
    left -= widthOf(char);
    if (left < 0) break;
    kept += char;
  }
  return `${kept}…`;
}

export const plainText = (row: Row): string => row.map(({ text }) => text).join("");
export const paintRow = (row: Row, paint: Paint): string => row.map(({ tone, text }) => paint(tone, text)).join("");
