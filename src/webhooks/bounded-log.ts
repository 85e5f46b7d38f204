import { messageOf } from "../domain/errors.ts";

// Logs of CI can be huge. We keep what a fixer needs: the lines around the first failures, and the
// end.

/** The kept length of a log, in characters. */
export const keptLogLength = 24_000;
const failureLength = 8_000;
const linesBefore = 5;
const linesAfter = 30;
const longestLine = 2_000;
const failure = /\b(error|failed|failure|fatal|panic|exception|traceback|assert\w*)\b|✗|✖|^not ok\b|##\[error\]/i;
/** GitHub puts the time before each line. */
const stamp = /^\uFEFF?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z /;

/** Reads a log of any length in pieces, and keeps its failures and its end. */
interface LogKeeper {
  add(piece: string): void;
  /** The kept lines, with a mark where lines are missing. */
  text(): string;
}

function createLogKeeper(length = keptLogLength): LogKeeper {
  const failures: string[] = [];
  let failuresLength = 0;
  let recent: string[] = [];
  let recentLength = 0;
  let after = 0;
  let dropped = 0;
  let partial = "";
  const keepFailure = (line: string): void => {
    if (failuresLength + line.length > failureLength) return;
    failures.push(line);
    failuresLength += line.length + 1;
  };
  const take = (given: string): void => {
    const line = given.replace(stamp, "").replace(/\r$/, "").slice(0, longestLine);
    if (failure.test(line)) {
      if (after === 0) for (const before of recent.slice(-linesBefore)) keepFailure(before);
      after = linesAfter;
    }
    if (after > 0) {
      keepFailure(line);
      after -= 1;
    }
    recent.push(line);
    recentLength += line.length + 1;
    if (recentLength < 2 * length) return;
    while (recentLength > length - failureLength && recent.length > 1) {
      recentLength -= recent.shift()!.length + 1;
      dropped += 1;
    }
  };
  return {
    add(piece) {
      const lines = (partial + piece).split("\n");
      // An endless line must not use up the memory.
      partial = lines.pop()!.slice(0, longestLine * 2);
      for (const line of lines) take(line);
    },
    text() {
      if (partial !== "") take(partial);
      partial = "";
      while (recentLength > length - (dropped > 0 ? failureLength : 0) && recent.length > 1) {
        recentLength -= recent.shift()!.length + 1;
        dropped += 1;
      }
      const end = recent.join("\n");
      recent = [end];
      if (dropped === 0) return end;
      const early = failures.filter((line) => !end.includes(line));
      return [...early, `[${dropped} lines of the log are left out]`, end].join("\n");
    },
  };
}

/** Returns the failures and the end of a log. */
export function boundedLog(log: string): string {
  const keeper = createLogKeeper();
  for (let at = 0; at < log.length; at += 65_536) keeper.add(log.slice(at, at + 65_536));
  return keeper.text();
}

/**
 * Reads a log to its end and returns its failures and its end. Of a log that breaks off, what had
 * arrived counts: a long one would break off again.
 */
export async function boundedStream(pieces: AsyncIterable<Uint8Array>): Promise<string> {
  const keeper = createLogKeeper();
  const decoder = new TextDecoder();
  try {
    for await (const piece of pieces) keeper.add(decoder.decode(piece, { stream: true }));
  } catch (error) {
    keeper.add(`\n[the log broke off here: ${messageOf(error)}]`);
  }
  return keeper.text();
}
