// Finds dumps of bytes as `xxd`, `hexdump -C` and `od -tx1` print them: an offset, groups of
// digits, and perhaps the characters.

interface DumpedByte {
  /** For each byte, the line of the text that shows it. */
  readonly from: number;
  readonly to: number;
}

export interface Dump {
  readonly bytes: string;
  readonly places: readonly DumpedByte[];
  /** Whether its last line is the text's last, so that the dump may continue. */
  readonly isOpen: boolean;
}

const maxLineLength = 200;
const dumpLine = /^[ \t]*[0-9a-f]{4,16}:?[ \t]+(?=[0-9a-f]{2})/i;
const group = /^(?:[0-9a-f]{2}){1,4}$/i;

/** Finds the dumps in a text: runs of lines that look like one. */
export function dumpsIn(text: string): Dump[] {
  if (!/[0-9a-f]{2} [0-9a-f]{2}/i.test(text)) return [];
  const dumps: Dump[] = [];
  let run: { bytes: string; swapped: string; places: DumpedByte[] } | null = null;
  const close = (isOpen: boolean) => {
    if (run === null) return;
    dumps.push({ bytes: run.bytes, places: run.places, isOpen });
    if (run.swapped !== run.bytes) dumps.push({ bytes: run.swapped, places: run.places, isOpen });
    run = null;
  };
  for (let from = 0; from < text.length; ) {
    const end = text.indexOf("\n", from);
    const to = end < 0 ? text.length : end;
    const groups = to - from > maxLineLength ? [] : groupsOf(text.slice(from, to));
    if (groups.length === 0) close(false);
    else {
      run ??= { bytes: "", swapped: "", places: [] };
      const bytes = groups.map((digits) => Buffer.from(digits, "hex").toString("latin1"));
      run.bytes += bytes.join("");
      // `hexdump` prints words of two bytes, the second byte first.
      run.swapped += bytes.map((word) => (word.length === 2 ? `${word[1]}${word[0]}` : word)).join("");
      for (let count = bytes.join("").length; count > 0; count -= 1) run.places.push({ from, to });
    }
    from = to + 1;
  }
  close(true);
  return dumps;
}

function groupsOf(line: string): string[] {
  // The agent host puts a mark before an agent's lines.
  const start = dumpLine.exec(line.replace(/^\| /, "  "));
  if (start === null) return [];
  const rest = line.slice(start[0].length).replace(/\s*\|.*$/, "");
  const columns = rest.split(/[ \t]{2,}/).map((column) => column.trim().split(/[ \t]/));
  // The column of characters follows the digits.
  return columns.filter((words) => words.every((word) => group.test(word))).flat();
}
