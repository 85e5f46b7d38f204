import { stripVTControlCharacters } from "node:util";
import type { Output } from "../output.ts";
import { cutRow, paintRow, plainText, type Row, widthOf } from "./segments.ts";

/**
 * A region at the bottom of a terminal that is drawn again and again, with a log that scrolls away
 * above it.
 */
export interface Screen {
  /** Shows these rows in place of the ones before. */
  show(rows: readonly Row[]): void;
  /** Writes text above the region, for good. */
  log(lines: readonly string[]): void;
  /** Takes the region away and gives the cursor back. */
  close(): void;
}

const hideCursor = "\x1b[?25l";
const showCursor = "\x1b[?25h";
// Terminals that know it show the frame at once; others pass it over.
const beginFrame = "\x1b[?2026h";
const endFrame = "\x1b[?2026l";
const clearLine = "\x1b[K";
const clearBelow = "\x1b[J";
/** Lines of the log kept to be shown again; more than any terminal is high. */
const keptLines = 300;

/**
 * Empties what is visible, line by line, and goes to its top. To clear it at once would make some
 * terminals push it all into their memory once more, where what they had wrapped would stay.
 */
const wipe = (rows: number): string =>
  `${Array.from({ length: rows }, (_, row) => `\x1b[${row + 1};1H\x1b[2K`).join("")}\x1b[H`;

/** The last lines that fit into so many rows. */
function lastLines(lines: readonly string[], rows: number, columns: number): readonly string[] {
  let from = lines.length;
  let left = rows;
  while (from > 0) {
    left -= Math.max(1, Math.ceil(widthOf(stripVTControlCharacters(lines[from - 1]!)) / columns));
    if (left < 0) break;
    from -= 1;
  }
  return lines.slice(from);
}

export function createScreen(out: Pick<Output, "raw" | "size" | "paint">): Screen {
  let drawn: readonly Row[] = [];
  let painted: readonly string[] = [];
  let width = 0;
  let open = false;
  let logged: readonly string[] = [];

  /**
   * Moves to where the region begins: rows that a narrower terminal has wrapped since take more
   * than one.
   */
  const toStart = (columns: number): string => {
    const height = drawn.reduce((total, row) => total + Math.max(1, Math.ceil(widthOf(plainText(row)) / columns)), 0);
    return height === 0 ? "\r" : `\x1b[${height}A\r`;
  };
  const draw = (rows: readonly Row[], above: readonly string[]): void => {
    const { columns, rows: height } = out.size();
    const fitting = rows.slice(0, Math.max(1, height - 1)).map((row) => cutRow(row, Math.max(1, columns - 1)));
    const now = fitting.map((row) => paintRow(row, out.paint));
    // Rows that stand where they stood are passed over: less to send, and nothing to flicker.
    const inPlace = open && above.length === 0 && width === columns;
    const changed = now.length !== painted.length || now.some((text, index) => text !== painted[index]);
    if (inPlace && !changed) return;
    const text = now.map((row, index) => (inPlace && row === painted[index] ? "\n" : `${row}${clearLine}\n`)).join("");
    // What a terminal makes of wrapped rows when its width changes, and when it tells, differs: all
    // is drawn anew.
    const anew = open && width !== columns;
    const lines = anew ? lastLines(logged, height - fitting.length - 1, columns) : above;
    const start = anew ? wipe(height) : toStart(columns);
    const log = lines.map((line) => `${line}${clearLine}\n`).join("");
    // A row that was wrapped once stays joined to the next until it is cleared as a whole: before,
    // not after.
    const fresh = inPlace ? "" : clearBelow;
    out.raw(`${beginFrame}${open ? "" : hideCursor}${start}${fresh}${log}${text}${clearBelow}${endFrame}`);
    drawn = fitting;
    painted = now;
    width = columns;
    open = true;
  };
  return {
    show: (rows) => draw(rows, []),
    log: (lines) => {
      logged = [...logged, ...lines].slice(-keptLines);
      if (open) draw(drawn, lines);
      else out.raw(lines.map((line) => `${line}\n`).join(""));
    },
    close: () => {
      if (!open) return;
      out.raw(`${toStart(out.size().columns)}${clearBelow}${showCursor}`);
      drawn = [];
      painted = [];
      open = false;
    },
  };
}
