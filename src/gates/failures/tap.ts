import { itemAt } from "../../domain/known.ts";
import { isTap } from "../counts/tap.ts";
import { createFailure, type FailureReader, firstWords, joinNameAndReason, type SourcePlace } from "./failure.ts";

/** TAP's `not ok` points. Omits a test that failed only because a nested test did. */
export const tapFailures: FailureReader = (lines) => {
  if (!isTap(lines)) return [];
  return lines.flatMap((line, index) => {
    const point = /^(\s*)not ok\b(?:\s+\d+)?(?:\s+-)?\s*(.*)$/.exec(line);
    if (point === null || /\s#\s*(?:todo|skip)\b/i.test(itemAt(point, 2))) return [];
    return [
      () => {
        const details = diagnostics(lines, index + 1, itemAt(point, 1));
        if (details.includes("failureType: 'subtestsFailed'")) return null;
        return createFailure(
          "test-failure",
          joinNameAndReason(itemAt(point, 2), reasonOf(details)),
          placeOf(details) ?? {},
        );
      },
    ];
  });
};

/** Returns the lines between `---` and `...` below a point, without their indent. */
function diagnostics(lines: readonly string[], start: number, indent: string): string[] {
  if (!lines[start]?.startsWith(`${indent}  ---`)) return [];
  const details: string[] = [];
  for (const line of lines.slice(start + 1, start + 400)) {
    if (line.startsWith(`${indent}  ...`)) break;
    details.push(line.slice(indent.length + 2));
  }
  return details;
}

function reasonOf(details: readonly string[]): string {
  const at = details.findIndex((line) => /^(?:error|message):/.test(line));
  if (at < 0) return "";
  const value = itemAt(details, at).replace(/^\w+:\s*/, "");
  if (!/^[|>][-+]?$/.test(value)) return unquote(value);
  const end = details.findIndex((line, index) => index > at && /^\S/.test(line));
  return firstWords(details.slice(at + 1, end < 0 ? undefined : end));
}

/**
 * node:test prints `location: 'a.js:4:1'`, tape `at: f (a.js:4:1)`, node-tap a mapping of fileName
 * and lineNumber.
 */
function placeOf(details: readonly string[]): SourcePlace | null {
  for (const line of details) {
    const match = /^(?:location|at):\s*(?:.*\()?'?((?:file:\/\/)?[^\s():']+):(\d+):\d+/.exec(line);
    if (match !== null) return { file: itemAt(match, 1), line: Number(match[2]) };
  }
  const value = (key: string) =>
    details.map((line) => new RegExp(`^\\s+${key}:\\s*(.+)$`).exec(line)?.[1]).find(Boolean);
  const file = value("fileName");
  return file === undefined ? null : { file: unquote(file), line: Number(value("lineNumber")) };
}

function unquote(text: string): string {
  const match = /^(['"])(.*)\1$/.exec(text.trim());
  if (match === null) return text;
  return match[1] === "'" ? itemAt(match, 2).replaceAll("''", "'") : itemAt(match, 2).replace(/\\(["\\])/g, "$1");
}
