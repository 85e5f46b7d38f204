import { z } from "zod";
import type { Finding } from "../domain/gate/finding.ts";
import { itemAt } from "../domain/known.ts";
import type { StageState } from "../sandbox/port.ts";
import type { ChangedFile } from "../workspace/port.ts";
import type { SyntaxCheck } from "./port.ts";
import { isFixture } from "./test-files.ts";
import { outputLines } from "./text.ts";

// Checks the syntax of languages with their own tools, in the sandbox. File names are arguments
// that start with `./`, never part of a script. If a tool is missing, its check finds nothing.

interface Language {
  readonly name: string;
  readonly extensions: RegExp;
  readonly argv: readonly string[];
}

// `-I -S` prevents importing a repository file called `sys.py`. Prints one JSON line per broken
// file.
const python = `
import json, os, sys
broken = False
for path in sys.argv[1:]:
    if not os.path.isfile(path):
        continue
    try:
        compile(open(path, "rb").read(), path, "exec", 0x400, True)
    except (SyntaxError, ValueError) as error:
        broken = True
        print(json.dumps({"file": path, "line": getattr(error, "lineno", None), "message": getattr(error, "msg", str(error))}))
sys.exit(1 if broken else 0)
`;

// The shebang selects the shell; the default is bash, which is more lenient.
const shell = `
status=0
for file in "$@"; do
  [ -f "$file" ] || continue
  first=
  IFS= read -r first < "$file"
  case $first in
    '#!'*bash*) tool=bash ;;
    '#!'*zsh* | '#!'*ksh* | '#!'*fish*) continue ;;
    '#!'*sh*) tool=sh ;;
    '#!'*) continue ;;
    *) tool=bash ;;
  esac
  command -v "$tool" > /dev/null 2>&1 || continue
  "$tool" -n "$file" 2>&1 || status=1
done
exit "$status"
`;

const languages: readonly Language[] = [
  { name: "syntax-python", extensions: /\.pyi?$/, argv: ["python3", "-I", "-S", "-W", "ignore", "-c", python] },
  { name: "syntax-shell", extensions: /\.(?:sh|bash)$/, argv: ["sh", "-c", shell, "sh"] },
];

/** This keeps argument lists far below the system's limit. */
const filesPerStage = 500;

/** Builds one stage per language (and 500 files) of the changed files. */
export function syntaxChecks(changed: readonly ChangedFile[]): SyntaxCheck[] {
  const present = changed.filter((file) => file.status !== "deleted" && !file.binary).map((file) => file.path);
  return languages.flatMap((language) => {
    const files = present.filter((path) => language.extensions.test(path) && !/(?:^|\/)node_modules\//.test(path));
    const checks: SyntaxCheck[] = [];
    for (let start = 0; start < files.length; start += filesPerStage) {
      const part = files.slice(start, start + filesPerStage);
      const name = start === 0 ? language.name : `${language.name}-${start / filesPerStage + 1}`;
      checks.push({ name, argv: [...language.argv, ...part.map((path) => `./${path}`)], files: part });
    }
    return checks;
  });
}

/** Reads findings from the output of a syntax check, only about files it was given. */
export function syntaxFindingsIn(check: SyntaxCheck, stage: StageState, output: string): Finding[] {
  if (stage.exitCode !== 1 && stage.exitCode !== 2) return []; // 0: no errors; other codes: the tool is missing or was killed
  const read = check.name.startsWith("syntax-python") ? readPython : readShell;
  const seen = new Set<string>();
  return outputLines(output).flatMap((line) => {
    const fault = read(line, check.files);
    // A file's first error is enough; later shell messages are its consequences.
    if (fault === null || seen.has(fault.file)) return [];
    seen.add(fault.file);
    return [syntaxError(fault.file, fault.line, fault.message)];
  });
}

/**
 * Makes the finding for a file that does not parse; in fixtures, where that is common, it is mild.
 */
export function syntaxError(file: string, line: number | null, message: string): Finding {
  const severity = isFixture(file) ? "low" : "high";
  return {
    rule: "syntax-error",
    severity,
    message: `${file} cannot be parsed: ${message}`,
    file,
    line,
    confidence: null,
  };
}

interface Broken {
  readonly file: string;
  readonly line: number | null;
  readonly message: string;
}

const pythonLineSchema = z.object({
  file: z.string(),
  line: z.number().int().positive().nullable(),
  message: z.string(),
});

function readPython(line: string, files: readonly string[]): Broken | null {
  if (!line.startsWith("{")) return null;
  let parsed: ReturnType<typeof pythonLineSchema.safeParse>;
  try {
    parsed = pythonLineSchema.safeParse(JSON.parse(line));
  } catch {
    return null; // not one of our script's lines
  }
  const file = parsed.data?.file.slice(2);
  return parsed.data !== undefined && files.includes(file!) ? { ...parsed.data, file: file! } : null;
}

function readShell(line: string, files: readonly string[]): Broken | null {
  for (const file of files) {
    if (!line.startsWith(`./${file}: `)) continue;
    const match = /^(?:line )?(\d+): (.+)$/.exec(line.slice(file.length + 4));
    if (match !== null) return { file, line: Number(match[1]), message: itemAt(match, 2) };
  }
  return null;
}
