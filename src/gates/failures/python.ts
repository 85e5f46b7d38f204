import type { Finding } from "../../domain/gate/finding.ts";
import { itemAt } from "../../domain/known.ts";
import { createFailure, type FailureReader, joinNameAndReason, linesUntil } from "./failure.ts";

/** pytest: the short summary names each failure, and the section above it has the place. */
export const pytestFailures: FailureReader = (lines) => {
  const sections = sectionsIn(lines);
  return lines.flatMap((line) => {
    const match = /^(FAILED|ERROR) (\S+?\.py)(?:::(.+?))?(?: - (.*))?$/.exec(line);
    if (match === null) return [];
    const [, kind, file = "", test] = match;
    return [
      () => {
        const title = test === undefined ? `ERROR collecting ${file}` : test.replaceAll("::", ".");
        const section = sectionFrom(lines, sections.get(title));
        const reason = match[4] ?? section.map((text) => /^E\s+(.+)$/.exec(text)?.[1]).find(Boolean) ?? "";
        const name = test ?? (kind === "ERROR" ? "could not be collected" : "");
        return createFailure("test-failure", joinNameAndReason(name, reason), {
          file,
          ...lineIn(section, file),
        });
      },
    ];
  });
};

/** Maps each failed test to the line where its section starts. */
function sectionsIn(lines: readonly string[]): Map<string, number> {
  const starts = new Map<string, number>();
  lines.forEach((line, index) => {
    const title = /^_+ (.+?) _+$/.exec(line)?.[1]?.replace(/^ERROR at (?:setup|teardown) of /, "");
    if (title !== undefined && !starts.has(title)) starts.set(title, index);
  });
  return starts;
}

function sectionFrom(lines: readonly string[], start: number | undefined): readonly string[] {
  if (start === undefined) return [];
  return linesUntil(lines, start + 1, (line) => /^_{3,} .+ _{3,}$|^=+ .+ =+$/.test(line), 400);
}

/**
 * Finds the last line in a section that is in the test's own file, because a failed helper was
 * called from there.
 */
function lineIn(section: readonly string[], file: string): { line: number } | Record<string, never> {
  for (const text of section.toReversed()) {
    const match = /^(\S+\.py):(\d+): ?/.exec(text);
    if (match !== null && (match[1] === file || itemAt(match, 1).endsWith(`/${file}`)))
      return { line: Number(match[2]) };
  }
  return {};
}

/** unittest: `FAIL: test_a (module.Class.test_a)` and the traceback below it. */
export const unittestFailures: FailureReader = (lines) =>
  lines.flatMap((line, index) => {
    const match = /^(?:FAIL|ERROR): (\S+)(?: \(.*\))?$/.exec(line);
    if (match === null || !/^-{20,}$/.test(lines[index + 1] ?? "")) return [];
    const body = () => linesUntil(lines, index + 2, (next) => /^(?:={20,}|-{20,})$/.test(next));
    return [() => traceback(body(), itemAt(match, 1), "test-failure")];
  });

/** A program that ended with an uncaught exception. */
export const pythonErrors: FailureReader = (lines) => {
  const start = lines.findLastIndex((line) => /^Traceback \(most recent call last\):/.test(line));
  if (start >= 0) return [() => traceback(lines.slice(start + 1, start + 81), "", "command-failed")];
  // A syntax error in the program itself has no traceback.
  const at = lines.findIndex((line) => /^\s*File ".+", line \d+\s*$/.test(line));
  return at < 0 ? [] : [() => traceback(lines.slice(at, at + 80), "", "command-failed")];
};

function traceback(body: readonly string[], name: string, rule: string): Finding | null {
  const end = body.findIndex((line) => /^[\w.]+(?:Error|Exception|Interrupt|Exit|Warning|Failure)\b/.test(line));
  const frames = body.slice(0, end < 0 ? undefined : end).map((line) => /^\s*File "(.+)", line (\d+)/.exec(line));
  const own = frames.filter(
    (frame) => frame !== null && !/site-packages|\/lib\/python|^<frozen/.test(itemAt(frame, 1)),
  );
  const frame = own.at(-1);
  if (end < 0 && frame === undefined) return null;
  const place = frame ? { file: itemAt(frame, 1), line: Number(frame[2]) } : {};
  return createFailure(rule, joinNameAndReason(name, end < 0 ? "failed" : itemAt(body, end)), place);
}
