import { type FailureReader, failure, firstWords, named, type Place, until } from "./failure.ts";

const goFailed = /^\s*--- FAIL: (\S+)/;

/** go test: `--- FAIL: TestX (0.00s)`, its log lines below (or above, with -v); a parent of a failed subtest is left out. */
export const goFailures: FailureReader = (lines) => {
  const names = lines.map((line) => goFailed.exec(line)?.[1]).filter((name) => name !== undefined);
  return lines.flatMap((line, index) => {
    const name = goFailed.exec(line)?.[1];
    if (name === undefined || names.some((other) => other.startsWith(`${name}/`))) return [];
    const log = goLog(goLinesOf(lines, index, name));
    return [failure("test-failure", named(name, log?.message ?? ""), log?.place ?? {})];
  });
};

function goLinesOf(lines: readonly string[], index: number, name: string): readonly string[] {
  const isEdge = (line: string) => /^\s*(?:--- |=== )|^(?:FAIL|ok|PASS)\b/.test(line);
  const below = until(lines, index + 1, isEdge);
  if (goLog(below) !== null) return below;
  const start = lines.findLastIndex((line, at) => at < index && line.trim() === `=== RUN   ${name}`);
  return start < 0 ? below : lines.slice(start + 1, index);
}

function goLog(lines: readonly string[]): { message: string; place: Place } | null {
  const at = lines.findIndex((line) => /^\s+\S+\.go:\d+: ?/.test(line));
  if (at < 0) return null;
  const [, file, line, text] = /^\s+(\S+\.go):(\d+): ?(.*)$/.exec(lines[at]!)!;
  const message = text !== "" ? text! : firstWords(lines.slice(at + 1));
  return { message, place: { file: file!, line: Number(line) } };
}

/** Go's compiler and vet: `./x.go:5:2: undefined: y`; and a panic with its first frame in a file of ours. */
export const goErrors: FailureReader = (lines) => {
  const compiled = lines.flatMap((line) => {
    const match = /^(?:vet: |#? ?)?(\S+\.go):(\d+):\d+: (.+)$/.exec(line);
    return match === null ? [] : [failure("compile-error", match[3]!, { file: match[1]!, line: Number(match[2]) })];
  });
  const at = lines.findIndex((line) => /^panic: /.test(line));
  if (compiled.length > 0 || at < 0) return compiled;
  const frames = lines.slice(at).map((line) => /^\s+(\S+\.go):(\d+)(?: \+0x[0-9a-f]+)?$/.exec(line));
  const own = frames.find((frame) => frame !== null && !/\/(?:go|pkg\/mod|src\/(?:runtime|testing))\//.test(frame[1]!));
  return [failure("command-failed", lines[at]!, own ? { file: own[1]!, line: Number(own[2]) } : {})];
};

/** cargo test: the panics of its tests, in the words of old and new compilers. */
export const cargoFailures: FailureReader = (lines) =>
  lines.flatMap((line, index) => {
    const recent = /^thread '(.+?)'(?: \(\d+\))? panicked at (\S+?):(\d+):\d+:$/.exec(line);
    if (recent !== null) {
      const words = firstWords(until(lines, index + 1, (next) => /^(?:note:|stack backtrace:|----|\s*$)/.test(next)));
      return [failure("test-failure", named(recent[1]!, words), { file: recent[2]!, line: Number(recent[3]) })];
    }
    const old = /^thread '(.+?)' panicked at '(.+)', (\S+?):(\d+)(?::\d+)?$/.exec(line);
    if (old === null) return [];
    return [failure("test-failure", named(old[1]!, old[2]!), { file: old[3]!, line: Number(old[4]) })];
  });

/** rustc: `error[E0425]: cannot find …` and the arrow below it. */
export const rustErrors: FailureReader = (lines) =>
  lines.flatMap((line, index) => {
    const match = /^error(?:\[E\d+\])?: (.+)$/.exec(line);
    const arrow = lines
      .slice(index + 1, index + 4)
      .map((next) => /^\s*--> (.+?):(\d+):\d+$/.exec(next))
      .find(Boolean);
    if (match === null || !arrow) return [];
    return [failure("compile-error", line, { file: arrow[1]!, line: Number(arrow[2]) })];
  });
