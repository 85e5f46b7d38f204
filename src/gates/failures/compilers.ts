import { itemAt } from "../../domain/known.ts";
import { createFailure, type FailureReader } from "./failure.ts";

interface Shape {
  readonly pattern: RegExp;
  /** The group numbers of each field. */
  readonly file: number;
  readonly line: number;
  readonly message: number;
}

const shapes: readonly Shape[] = [
  // tsc in a pipe, and on a terminal
  { pattern: /^(\S[^()]*)\((\d+),\d+\): error (TS\d+: .*)$/, file: 1, line: 2, message: 3 },
  { pattern: /^(\S[^:]*):(\d+):\d+ - error (TS\d+: .*)$/, file: 1, line: 2, message: 3 },
  // gcc, clang, javac, swiftc and many more
  { pattern: /^(\S[^:]*):(\d+)(?::\d+)?: (?:fatal )?error: (.*)$/, file: 1, line: 2, message: 3 },
  // ruff, flake8, mypy: `a.py:3:5: F401 message`
  { pattern: /^(\S[^:]*\.\w+):(\d+):\d+: ([A-Z]+\d+ .*)$/, file: 1, line: 2, message: 3 },
  // sh: `./a.sh: 3: foo: …`, bash: `a.sh: line 3: …`
  { pattern: /^(\S[^:]*\.(?:sh|bash)): (?:line )?(\d+): (.*)$/, file: 1, line: 2, message: 3 },
];

/** Reads compilers and linters that print one error per line. */
export const compilerErrors: FailureReader = (lines) =>
  lines.flatMap((line) => {
    for (const shape of shapes) {
      const match = shape.pattern.exec(line);
      if (match === null) continue;
      const place = { file: itemAt(match, shape.file), line: Number(match[shape.line]) };
      return [() => createFailure("compile-error", itemAt(match, shape.message), place)];
    }
    return [];
  });

/** esbuild and vite: `✘ [ERROR] message`, then the place on its own line. */
export const bundlerErrors: FailureReader = (lines) =>
  lines.flatMap((line, index) => {
    const message = /^\s*(?:✘|X) \[ERROR\] (.+)$/.exec(line)?.[1];
    if (message === undefined) return [];
    return [
      () => {
        const place = lines
          .slice(index + 1, index + 4)
          .map((next) => /^\s+(\S+):(\d+):\d+:$/.exec(next))
          .find(Boolean);
        return createFailure("compile-error", message, place ? { file: itemAt(place, 1), line: Number(place[2]) } : {});
      },
    ];
  });

/** eslint's stylish format: a path on its own line, then `  5:3  error  message  rule`. */
export const eslintErrors: FailureReader = (lines) => {
  let file = "";
  return lines.flatMap((line) => {
    if (/^(?:\/|\.{0,2}\w)\S*\.\w+$/.test(line)) file = line;
    const match = /^\s+(\d+):\d+\s+error\s+(.+)$/.exec(line);
    const place = { file, line: Number(match?.[1]) };
    return match === null || file === "" ? [] : [() => createFailure("lint-error", itemAt(match, 2), place)];
  });
};
