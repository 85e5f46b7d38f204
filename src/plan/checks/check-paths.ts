import { readFileSync, realpathSync, statSync } from "node:fs";
import { isAbsolute, relative, resolve } from "node:path";
import type { FaultSink, PlanPath } from "../faults/fault-sink.ts";
import { asList, asRecord, asText, type LooseTask } from "../faults/loose.ts";

/** The text of each file that a plan refers to, by the path in the plan. */
export type PlanFiles = ReadonlyMap<string, string>;

/**
 * Checks globs, `{ file: … }` references and the source's folder, and reads the files. `baseDir` is
 * the plan's folder; null for a plan without one, which cannot refer to files beside it.
 */
export function checkPaths(
  plan: unknown,
  tasks: readonly LooseTask[],
  baseDir: string | null,
  sink: FaultSink,
): PlanFiles {
  checkGlobs(plan, tasks, sink);
  checkSource(asRecord(asRecord(plan).source), baseDir, sink);
  return readFiles(fileReferences(plan, tasks), baseDir, sink);
}

function checkGlobs(plan: unknown, tasks: readonly LooseTask[], sink: FaultSink): void {
  const { setup, generated } = asRecord(plan);
  asList(asRecord(setup).cache).forEach((glob, index) => {
    checkGlob(glob, ["setup", "cache", index], sink);
  });
  asList(generated).forEach((entry, index) => {
    checkGlob(asRecord(entry).path, ["generated", index, "path"], sink);
  });
  for (const task of tasks) {
    asList(task.fields.writes).forEach((glob, index) => {
      checkGlob(glob, ["tasks", task.index, "writes", index], sink);
    });
  }
}

function checkGlob(glob: unknown, path: PlanPath, sink: FaultSink): void {
  if (typeof glob !== "string") return;
  const steps = glob.split(/[/\\{},()|]/);
  if (/^[{(]*[/~]/.test(glob) || /^[A-Za-z]:/.test(glob) || steps.includes("..")) {
    sink.add(
      "escaping-glob",
      path,
      `${glob} points outside the project: write it relative to the project's root, without \`..\`.`,
    );
  } else if (glob.startsWith("!")) {
    sink.add("bad-glob", path, `${glob} excludes paths: list the paths that the task writes instead.`);
  } else if (glob.length > maxGlob) {
    sink.add("bad-glob", path, `This glob has ${glob.length} characters: shorten it to at most ${maxGlob}.`);
  } else {
    const unsupportedPattern = unsupportedPatterns.exec(glob.replace(/\\./g, "  "))?.[0];
    if (unsupportedPattern === undefined) return;
    const remedy = "write alternatives as `{one,other}`, and put a backslash before a literal character.";
    sink.add("bad-glob", path, `${glob} contains \`${unsupportedPattern}\`, which is not supported: ${remedy}`);
  }
}

const maxGlob = 1_000;

/**
 * Patterns of other glob dialects: `@(a|b)`, `(a|b)`, `{1..9}`. A name in parentheses is just a
 * name.
 */
const unsupportedPatterns = /[@?*+!]\([^/)]*\)?|\([^()/]*\|[^()/]*\)|\{[^{},/]*\.\.[^{},/]*\}/;

function checkSource(source: Readonly<Record<string, unknown>>, baseDir: string | null, sink: FaultSink): void {
  const git = asText(source.git);
  // Git reads a leading dash as an option and runs the command after `ext::`.
  if (git !== null && (git.startsWith("-") || /^[a-z]+::/i.test(git))) {
    sink.add("invalid", ["source", "git"], `${git} is not a repository that can be fetched: write a URL or a path.`);
  }
  const path = asText(source.path);
  if (path === null) return;
  if (baseDir === null && !isAbsolute(path)) {
    sink.add(
      "missing-source",
      ["source", "path"],
      `${path} is relative, but this plan has no folder: give an absolute path, or use \`git\`.`,
    );
  } else if (!isFolder(resolve(baseDir ?? "/", path))) {
    sink.add(
      "missing-source",
      ["source", "path"],
      `${path} is not a folder. Paths are relative to the plan's folder${baseDir === null ? "" : `, ${baseDir}`}.`,
    );
  }
}

const isFolder = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;

interface FileReference {
  readonly file: string;
  readonly path: PlanPath;
}

function fileReferences(plan: unknown, tasks: readonly LooseTask[]): FileReference[] {
  const places: (readonly [unknown, PlanPath])[] = [
    ...asList(asRecord(plan).context).map((entry, index) => [entry, ["context", index]] as const),
    ...Object.entries(asRecord(asRecord(plan).agents)).map(
      ([role, agent]) => [asRecord(agent).prompt, ["agents", role, "prompt"]] as const,
    ),
    ...tasks.map((task) => [task.fields.instructions, ["tasks", task.index, "instructions"]] as const),
  ];
  return places.flatMap(([entry, path]) => {
    const file = asText(asRecord(entry).file);
    return file === null ? [] : [{ file, path: [...path, "file"] }];
  });
}

function readFiles(references: readonly FileReference[], baseDir: string | null, sink: FaultSink): PlanFiles {
  const files = new Map<string, string>();
  for (const { file, path } of references) {
    if (files.has(file)) continue;
    const text = readFile(file, baseDir, path, sink);
    if (text !== null) files.set(file, text);
  }
  return files;
}

function readFile(file: string, baseDir: string | null, path: PlanPath, sink: FaultSink): string | null {
  if (baseDir === null) {
    sink.add(
      "missing-file",
      path,
      `${file} cannot be read because this plan has no folder. Put the text into the plan.`,
    );
    return null;
  }
  const escaping = `${file} is outside the plan's folder: move it into ${baseDir}.`;
  if (isOutside(baseDir, resolve(baseDir, file))) {
    sink.add("escaping-file", path, escaping);
    return null;
  }
  try {
    const real = realpathSync(resolve(baseDir, file));
    if (isOutside(realpathSync(baseDir), real)) sink.add("escaping-file", path, escaping);
    else if (!statSync(real).isFile()) sink.add("missing-file", path, `${file} is not a file.`);
    else return nonEmpty(readFileSync(real, "utf8"), file, path, sink);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    const problem = code === "ENOENT" ? "does not exist" : `cannot be read (${code})`;
    sink.add("missing-file", path, `${file} ${problem}. Paths are relative to the plan's folder, ${baseDir}.`);
  }
  return null;
}

function nonEmpty(text: string, file: string, path: PlanPath, sink: FaultSink): string | null {
  if (text.trim() !== "") return text;
  sink.add("invalid", path, `${file} is empty: add some text.`);
  return null;
}

function isOutside(folder: string, path: string): boolean {
  const way = relative(folder, path);
  return way === ".." || way.startsWith("../") || isAbsolute(way);
}
