import { itemAt } from "../../domain/known.ts";
import {
  createFailure,
  type FailureReader,
  firstWords,
  joinNameAndReason,
  linesUntil,
  type SourcePlace,
} from "./failure.ts";

const maxLinesAbove = 400;

/** Returns the text in the lines of `go test -json`, and all other lines as they are. */
export function withoutGoJson(lines: readonly string[]): readonly string[] {
  if (!lines.some(isGoEvent)) return lines;
  return lines.flatMap((line) => {
    if (!isGoEvent(line)) return [line];
    try {
      const { Output: text } = JSON.parse(line) as { Output?: unknown };
      return typeof text === "string" ? [text.replace(/\n$/, "")] : [];
    } catch {
      return [line]; // It was too long and is cut.
    }
  });
}

const isGoEvent = (line: string): boolean => /^\{.*"Action":"\w+"/.test(line);

const goRunning = /^\s*=== RUN {3}(\S+)\s*$/;
const goFailed = /^\s*--- FAIL: (\S+)/;

/**
 * go test: `--- FAIL: TestX (0.00s)`, with its log lines below (or above, with -v). Omits the
 * parents of failed subtests.
 */
export const goFailures: FailureReader = (lines) => {
  const names = lines.map((line) => goFailed.exec(line)?.[1]);
  const parents = new Set(names.map((name) => name?.slice(0, Math.max(0, name.lastIndexOf("/")))));
  const startLines = new Map<string, number>();
  return lines.flatMap((line, index) => {
    const running = goRunning.exec(line)?.[1];
    if (running !== undefined) startLines.set(running, index);
    const name = names[index];
    if (name === undefined || parents.has(name)) return [];
    const start = startLines.get(name) ?? -1;
    return [
      () => {
        const log = goLog(goLinesOf(lines, index, start));
        return createFailure("test-failure", joinNameAndReason(name, log?.message ?? ""), log?.place ?? {});
      },
    ];
  });
};

function goLinesOf(lines: readonly string[], index: number, start: number): readonly string[] {
  const isEdge = (line: string) => /^\s*(?:--- |=== )|^(?:FAIL|ok|PASS)\b/.test(line);
  const below = linesUntil(lines, index + 1, isEdge);
  if (goLog(below) !== null) return below;
  return start < 0 ? below : lines.slice(start + 1, Math.min(index, start + maxLinesAbove));
}

function goLog(lines: readonly string[]): { message: string; place: SourcePlace } | null {
  const at = lines.findIndex((line) => /^\s+\S+\.go:\d+: ?/.test(line));
  if (at < 0) return null;
  const [, file = "", line, text = ""] = /^\s+(\S+\.go):(\d+): ?(.*)$/.exec(itemAt(lines, at)) ?? [];
  const message = text !== "" ? text : firstWords(lines.slice(at + 1));
  return { message, place: { file, line: Number(line) } };
}

/**
 * Go's compiler and vet: `./x.go:5:2: undefined: y`; and a panic with its first frame in the
 * repository.
 */
export const goErrors: FailureReader = (lines) => {
  const compiled = lines.flatMap((line) => {
    const match = /^(?:vet: |#? ?)?(\S+\.go):(\d+):\d+: (.+)$/.exec(line);
    const place = { file: match?.[1] ?? "", line: Number(match?.[2]) };
    return match === null ? [] : [() => createFailure("compile-error", itemAt(match, 3), place)];
  });
  const at = lines.findIndex((line) => /^panic: /.test(line));
  if (compiled.length > 0 || at < 0) return compiled;
  const frames = lines.slice(at).map((line) => /^\s+(\S+\.go):(\d+)(?: \+0x[0-9a-f]+)?$/.exec(line));
  const own = frames.find(
    (frame) => frame !== null && !/\/(?:go|pkg\/mod|src\/(?:runtime|testing))\//.test(itemAt(frame, 1)),
  );
  return [
    () => createFailure("command-failed", itemAt(lines, at), own ? { file: itemAt(own, 1), line: Number(own[2]) } : {}),
  ];
};

/** cargo test: the panics of its tests, as old and new compilers print them. */
export const cargoFailures: FailureReader = (lines) =>
  lines.flatMap((line, index) => {
    const recent = /^thread '(.+?)'(?: \(\d+\))? panicked at (\S+?):(\d+):\d+:$/.exec(line);
    if (recent !== null) {
      const isEdge = (next: string) => /^(?:note:|stack backtrace:|----|\s*$)/.test(next);
      const words = () => firstWords(linesUntil(lines, index + 1, isEdge));
      const place = { file: itemAt(recent, 2), line: Number(recent[3]) };
      return [() => createFailure("test-failure", joinNameAndReason(itemAt(recent, 1), words()), place)];
    }
    const old = /^thread '(.+?)' panicked at '(.+)', (\S+?):(\d+)(?::\d+)?$/.exec(line);
    if (old === null) return [];
    return [
      () =>
        createFailure("test-failure", joinNameAndReason(itemAt(old, 1), itemAt(old, 2)), {
          file: itemAt(old, 3),
          line: Number(old[4]),
        }),
    ];
  });

/** rustc: `error[E0425]: cannot find …` and the arrow below it. */
export const rustErrors: FailureReader = (lines) =>
  lines.flatMap((line, index) => {
    if (!/^error(?:\[E\d+\])?: ./.test(line)) return [];
    const arrow = lines
      .slice(index + 1, index + 4)
      .map((next) => /^\s*--> (.+?):(\d+):\d+$/.exec(next))
      .find(Boolean);
    if (!arrow) return [];
    return [() => createFailure("compile-error", line, { file: itemAt(arrow, 1), line: Number(arrow[2]) })];
  });
