import { closeSync, openSync, readSync } from "node:fs";
import { StringDecoder } from "node:string_decoder";

// Reads are bounded, whatever the file holds, because their text stays in the conversation.

const maxPageLines = 2_000;
const maxPageLength = 48 * 1024;
const maxLineLength = 2_000;
const chunkBytes = 256 * 1024;
/** We stop searching for a distant line after this many bytes. */
const maxScanBytes = 256 * 1024 * 1024;

interface Range {
  readonly from?: number | undefined;
  readonly lines?: number | undefined;
}

/** Cuts a long line and says how much is missing, `left` characters included. */
export function cutLine(line: string, left = 0): string {
  if (line.length <= maxLineLength) return line;
  return `${line.slice(0, maxLineLength)}… [${line.length - maxLineLength + left} more characters in this line]`;
}

/**
 * Reads a page of a text file: from a line, counted from 1, as many lines as asked for and fit.
 * Long lines are cut; a note at the end says what is left.
 */
export function readPage(path: string, { from = 1, lines = maxPageLines }: Range): string {
  const shown: string[] = [];
  let length = 0;
  let number = 0;
  for (const line of readLines(path)) {
    number += 1;
    if (number < from) continue;
    if (shown.length >= Math.min(lines, maxPageLines) || length >= maxPageLength) {
      return `${shown.join("\n")}\n[there is more: continue with from: ${number}]`;
    }
    shown.push(line);
    length += line.length + 1;
  }
  if (shown.length === 0 && from > 1) return `[the file has ${number} lines]`;
  return shown.join("\n");
}

/** Yields the lines of a file, long ones cut. */
function* readLines(path: string): Generator<string> {
  const file = openSync(path, "r");
  const decoder = new StringDecoder("utf8");
  const chunk = Buffer.alloc(chunkBytes);
  let rest = "";
  let left = 0;
  let scanned = 0;
  try {
    for (;;) {
      const size = readSync(file, chunk, 0, chunkBytes, null);
      scanned += size;
      if (size === 0 || scanned > maxScanBytes) break;
      const parts = decoder.write(chunk.subarray(0, size)).split("\n");
      for (const [at, part] of parts.entries()) {
        // Only the beginning of a very long line is kept.
        if (rest.length <= chunkBytes) rest += part;
        else left += part.length;
        if (at === parts.length - 1) break;
        yield cutLine(rest, left);
        [rest, left] = ["", 0];
      }
    }
    if (rest !== "") yield cutLine(rest, left);
  } finally {
    closeSync(file);
  }
}
