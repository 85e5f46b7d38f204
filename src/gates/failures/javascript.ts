import { itemAt } from "../../domain/known.ts";
import {
  createFailure,
  type FailureReader,
  findOwnFrame,
  firstWords,
  joinNameAndReason,
  linesUntil,
} from "./failure.ts";

/** node:test's spec reporter: the list below `✖ failing tests:`. */
export const nodeSpecFailures: FailureReader = (lines) => {
  const start = lines.findIndex((line) => /^✖ failing tests:\s*$/.test(line.trim()));
  if (start < 0) return [];
  return lines.slice(start).flatMap((line, index, list) => {
    const place = /^test at (.+):(\d+):\d+\s*$/.exec(line.trim());
    if (place === null) return [];
    return [
      () => {
        const name = (list[index + 1] ?? "")
          .trim()
          .replace(/^✖\s*/, "")
          .replace(/ \([\d.]+ms\)$/, "");
        const body = linesUntil(list, index + 2, (next) => /^test at .+:\d+:\d+\s*$/.test(next.trim()));
        return createFailure("test-failure", joinNameAndReason(name, firstWords(body)), {
          file: itemAt(place, 1),
          line: Number(place[2]),
        });
      },
    ];
  });
};

/** vitest: ` FAIL a.test.ts > suite > name`, or `[ a.test.ts ]` if the file itself did not load. */
export const vitestFailures: FailureReader = (lines) =>
  lines.flatMap((line, index) => {
    const match = /^\s*FAIL\s+(?:\|?[\w-]+\|?\s+)?(\S+\.\w+)(?: > (.+)|\s+\[ .+ \])\s*$/.exec(line);
    if (match === null) return [];
    return [
      () => {
        const body = linesUntil(lines, index + 1, (next) => /^\s*FAIL\s/.test(next) || /^⎯{5,}/.test(next.trim()));
        const place = findOwnFrame(body) ?? { file: itemAt(match, 1) };
        return createFailure("test-failure", joinNameAndReason(match[2] ?? "", firstWords(body, 2)), place);
      },
    ];
  });

/** jest: `  ● suite › name` below `FAIL a.test.js`. */
export const jestFailures: FailureReader = (lines) => {
  let file = "";
  return lines.flatMap((line, index) => {
    file = /^\s*FAIL\s+(?:\S+\s+)?(\S+\.[cm]?[jt]sx?)(?: \([\d.]+ m?s\))?\s*$/.exec(line)?.[1] ?? file;
    const name = /^\s{2}● (.+)$/.exec(line)?.[1];
    if (name === undefined || file === "" || /^Console$/.test(name)) return [];
    const place = { file };
    return [
      () => {
        const body = linesUntil(lines, index + 1, (next) => /^\s{2}● |^(?:PASS|FAIL)\s|^Test Suites:/.test(next));
        return createFailure("test-failure", joinNameAndReason(name, firstWords(body, 1)), findOwnFrame(body) ?? place);
      },
    ];
  });
};

/** playwright: `  1) [chromium] › a.spec.ts:5:1 › title ───`. */
export const playwrightFailures: FailureReader = (lines) =>
  lines.flatMap((line, index) => {
    const match = /^\s+\d+\) (?:\[[^\]]+\] › )?([^\s:]+):(\d+):\d+ › (.+?)[\s─]*$/.exec(line);
    if (match === null) return [];
    const place = { file: itemAt(match, 1), line: Number(match[2]) };
    const body = () => linesUntil(lines, index + 1, (next) => /^\s+\d+\) \S+ ›/.test(next));
    return [() => createFailure("test-failure", joinNameAndReason(itemAt(match, 3), firstWords(body(), 1)), place)];
  });

/** mocha: below `1 failing`, `  1) suite`, `       name:`, then the error and its stack. */
export const mochaFailures: FailureReader = (lines) => {
  const start = lines.findIndex((line) => /^\s+\d+ failing\s*$/.test(line));
  if (start < 0) return [];
  return lines.slice(start).flatMap((line, index, list) => {
    const first = /^\s+\d+\) (.+)$/.exec(line)?.[1];
    if (first === undefined) return [];
    return [
      () => {
        const body = linesUntil(list, index + 1, (next) => /^\s+\d+\) /.test(next));
        const title = first.endsWith(":") ? 0 : body.findIndex((next) => next.trimEnd().endsWith(":")) + 1;
        const name = [first, ...body.slice(0, title)]
          .map((part) => part.trim())
          .join(" ")
          .replace(/:$/, "");
        return createFailure(
          "test-failure",
          joinNameAndReason(name, firstWords(body.slice(title), 1)),
          findOwnFrame(body) ?? {},
        );
      },
    ];
  });
};

/** A program that ended with an uncaught error: the message and the repository's first frame. */
export const nodeErrors: FailureReader = (lines) => {
  const at = lines.findIndex((line) => /^\s*(?:Uncaught )?[A-Z]\w*(?:Error|Exception)\b(?: \[\w+\])?: ./.test(line));
  if (at < 0) return [];
  const body = linesUntil(lines, at + 1, (next) => next.trim() === "");
  const frame = findOwnFrame(body);
  // A syntax error has its place above: `/path/a.js:3`, the line of code, a caret, a blank line.
  const above = lines.slice(Math.max(0, at - 6), at).map((line) => /^((?:file:\/\/)?\/\S+?):(\d+)$/.exec(line));
  const match = above.find((found) => found !== null && !itemAt(found, 1).includes("node:"));
  const place = match ? { file: itemAt(match, 1), line: Number(match[2]) } : null;
  const where = /SyntaxError/.test(itemAt(lines, at)) ? (place ?? frame) : (frame ?? place);
  return where === null ? [] : [() => createFailure("command-failed", itemAt(lines, at), where)];
};
