import { stripVTControlCharacters } from "node:util";
import { itemAt } from "../../domain/known.ts";
import type { Output } from "../output/output.ts";
import { cutRow, paintRow, plainText, type Row, widthOf } from "./segments.ts";

/** A region at the bottom of a terminal that is redrawn, with a log scrolling above it. */
export interface Screen {
  /** Replaces the rows. */
  show(rows: readonly Row[]): void;
  /** Writes text above the region permanently. */
  log(lines: readonly string[]): void;
  /** Removes the region and restores the cursor. */
  close(): void;
}

const hideCursor = "\x1b[?25l";
const showCursor = "\x1b[?25h";
// Terminals that support synchronised output draw the frame at once; others ignore it.
const beginFrame = "\x1b[?2026h";
const endFrame = "\x1b[?2026l";
const clearLine = "\x1b[K";
const clearBelow = "\x1b[J";
/** How many log lines are kept for redrawing; more than any terminal is high. */
const keptLines = 300;

/**
 * Clears the visible lines one by one and moves to the top. Clearing all at once makes some
 * terminals push everything, still wrapped, into their scrollback again.
 */
const wipe = (rows: number): string =>
  `${Array.from({ length: rows }, (_, row) => `\x1b[${row + 1};1H\x1b[2K`).join("")}\x1b[H`;

/** Returns the last lines that fit into this many rows. */
function lastLines(lines: readonly string[], rows: number, columns: number): readonly string[] {
  let from = lines.length;
  let left = rows;
  while (from > 0) {
    left -= Math.max(1, Math.ceil(widthOf(stripVTControlCharacters(itemAt(lines, from - 1))) / columns));
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
   * Moves to the start of the region; rows that a narrower terminal has wrapped since take more
   * than one line.
   */
  const toStart = (columns: number): string => {
    const height = drawn.reduce((total, row) => total + Math.max(1, Math.ceil(widthOf(plainText(row)) / columns)), 0);
    return height === 0 ? "\r" : `\x1b[${height}A\r`;
  };
  const draw = (rows: readonly Row[], above: readonly string[]): void => {
    const { columns, rows: height } = out.size();
    const fitting = rows.slice(0, Math.max(1, height - 1)).map((row) => cutRow(row, Math.max(1, columns - 1)));
    const now = fitting.map((row) => paintRow(row, out.paint));
    // Skips unchanged rows: less to send, and no flicker.
    const inPlace = open && above.length === 0 && width === columns;
    const changed = now.length !== painted.length || now.some((text, index) => text !== painted[index]);
    if (inPlace && !changed) return;
    const text = now.map((row, index) => (inPlace && row === painted[index] ? "\n" : `${row}${clearLine}\n`)).join("");
    // Terminals differ in how they rewrap rows on a resize and when they report it, so redraw
    // everything.
    const anew = open && width !== columns;
    const lines = anew ? lastLines(logged, height - fitting.length - 1, columns) : above;
    const start = anew ? wipe(height) : toStart(columns);
    const log = lines.map((line) => `${line}${clearLine}\n`).join("");
    // A wrapped row stays joined to the next one until it is cleared as a whole, so clear it before
    // writing.
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
